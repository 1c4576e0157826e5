"""`lampnet` commands in processes of their own, with a fault at a chosen moment; started from a warm fork server.

A moment is a number of calls, of Python functions and of built-in ones: random numbers reach every place in the code,
between any two system calls too, with no clock involved.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What happens to a command.

    at_call         before the call with this number; 0 for never
    signal_number   this signal comes then
    remove          this folder is removed then
    descriptors     so many files can be opened beside those that are open; -1 for no limit
    clock_jumps     every look at the wall clock finds it hours ahead or behind
    """

    at_call: int = 0
    signal_number: int = 0
    remove: str = ""
    descriptors: int = -1
    clock_jumps: bool = False


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    code    negative for a signal
    calls   how many there were; 0 where it did not come to its end
    writes  which of them were made by code that writes files
    """

    code: int
    out: str
    err: str
    calls: int
    writes: list[int]


#: Where files are written that a fault must not damage.
WRITERS = ("atomic_files", "mapped_rows", "prepare", "model_folder", "tensor_file", "result_files", "cli/predict")


def run_command(context: Any, folder: Path, arguments: list[str], fault: Fault) -> Ended:
    """Run a command in a child, its output in files below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_command, args=(str(folder), arguments, fault), daemon=True)
    process.start()
    process.join()
    out, err, calls = ((folder / name).read_text(errors="replace") for name in ("out", "err", "calls"))
    return Ended(int(process.exitcode), out, err, *(json.loads(calls) if calls else (0, [])))


def _leave_descriptors(count: int) -> None:
    """Take all descriptors but so many."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    taken = []
    with suppress(OSError):
        while True:
            taken.append(os.dup(2))
    for number in taken[:count]:
        os.close(number)


def _command(folder: str, arguments: list[str], fault: Fault) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    counted = os.open(f"{folder}/calls", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the fork server ignores it
    from lampnet.cli.app import run

    if fault.clock_jumps:
        hours, draw = time.time, random.Random(0)
        time.time = lambda: hours() + 3600 * draw.uniform(-100, 100)
    if fault.descriptors >= 0:
        _leave_descriptors(fault.descriptors)
    calls, writes, is_writer = 0, [], {}

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1
            file = frame.f_code.co_filename
            if file not in is_writer:
                is_writer[file] = "journal" in file or ("lampnet" in file and any(f"{w}.py" in file for w in WRITERS))
            if is_writer[file]:
                writes.append(calls)
            if calls == fault.at_call:
                if fault.remove:
                    shutil.rmtree(fault.remove, ignore_errors=True)
                if fault.signal_number:
                    os.kill(os.getpid(), fault.signal_number)

    sys.setprofile(count)
    try:
        code = run(arguments)
    except BaseException:  # what Python itself would do with it
        traceback.print_exc()
        code = 1
    sys.setprofile(None)
    os.write(counted, json.dumps([calls, writes]).encode())
    sys.stdout.flush()
    os._exit(code)
