"""Peak resident memory of a command, and of a piece of code in this process.

`getrusage` gives a child the peak of the process that started it where that was higher, and pytest's process is large.
So the command is started by a bare interpreter, and the peak of this process is set back before it is measured.

    code, errors, megabytes = peak_of_command(["lampnet", "predict", ...])
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

LAUNCHER = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
process.returncode = 0
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024]))
"""


OWN_LAUNCHER = """
import json, os, subprocess, sys, time
process = subprocess.Popen(sys.argv[1:])
most = 0
while True:
    with open(f"/proc/{process.pid}/status") as file:  # a process that has ended has no such line
        most = max([most, *(int(line.split()[1]) for line in file if line.startswith("RssAnon"))])
    if process.poll() is not None:
        break
    time.sleep(0.01)
print(json.dumps([process.returncode, most / 1024]))
"""


def peak_of_own_memory(command: Sequence[object]) -> tuple[int, str, float]:
    """The same without the pages of mapped files, which the system takes back whenever it needs memory."""
    if not Path("/proc/self/status").exists():
        pytest.skip("what a process holds itself is told on Linux only")
    launched = subprocess.run(
        [sys.executable, "-I", "-S", "-c", OWN_LAUNCHER, *map(str, command)], capture_output=True, text=True, check=True
    )
    code, megabytes = json.loads(launched.stdout)
    return code, launched.stderr, megabytes


def peak_of_command(command: Sequence[object]) -> tuple[int, str, float]:
    """Exit code, standard error and peak resident memory in megabytes of a command that prints nothing else."""
    launched = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, command)], capture_output=True, text=True, check=True
    )
    code, megabytes = json.loads(launched.stdout)
    return code, launched.stderr, megabytes


@dataclass
class Growth:
    megabytes: float = 0.0


@contextmanager
def growth_of_peak() -> Iterator[Growth]:
    """How far the resident memory of this process rose above where it was, at most."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of a running process can only be set back on Linux")
    growth = Growth()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = _peak()
    yield growth
    growth.megabytes = _peak() - before


def _peak() -> float:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
