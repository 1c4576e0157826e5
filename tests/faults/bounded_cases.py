"""A driver for fuzzers: thousands of cases in worker processes that have little memory and little time.

A case is a function of its number. It must end with a result or a `LampnetError`; anything else is a failure:
another exception, more memory, more time, a crash of the interpreter. Neither a case that hangs in C code nor one
that kills its process ends the run: the next case begins in a new worker.

    summary = run_cases(case, 5000)

Call it from a small process of its own (see `fuzz_files.py`), not from pytest's: the workers are forks.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lampnet.errors import LampnetError

Case = Callable[[int], None]


@dataclass(frozen=True)
class Bounds:
    """What one case may take: memory beyond what the warm process has, and seconds of CPU."""

    memory: int = 1_500_000_000
    cpu_seconds: float = 10.0

    @property
    def silent_seconds(self) -> float:
        """A worker that neither finishes a case nor dies in this time (of a busy machine's clock) is killed."""
        return 30 * self.cpu_seconds


class TooSlow(BaseException):
    """Not an `Exception`, so that no reader takes it for a damaged file."""


def run_cases(case: Case, cases: int, bounds: Bounds | None = None, warm: int = 20) -> dict[str, Any]:
    """Run the cases 0, 1, ... and sum up: how many were accepted and refused, the failures, the peak memory.

    The cases -1 to -warm come first, without bounds on memory: what is loaded on first use is loaded then.
    """
    bounds = bounds or Bounds()
    for number in range(1, warm + 1):
        with _timed(bounds, deadly=False):
            _outcome(case, -number)
    summary: dict[str, Any] = {"cases": cases, "accepted": 0, "refused": 0, "failures": [], "most_cpu_seconds": 0.0}
    done = 0
    while done < cases:
        for number, outcome, seconds in _worker(case, done, cases, bounds):
            if outcome in ("accepted", "refused"):
                summary[outcome] += 1
            else:
                summary["failures"].append(f"case {number}: {outcome}")
            summary["most_cpu_seconds"] = max(summary["most_cpu_seconds"], round(seconds, 2))
            done = number + 1
    summary["peak_gb"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 3)
    return summary


def _worker(case: Case, first: int, cases: int, bounds: Bounds) -> Iterator[tuple[int, str, float]]:
    """The outcomes of the cases from `first` on, up to the last one or the death of the worker."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        os.close(read)
        try:
            _work(case, range(first, cases), bounds, write)
        finally:
            os._exit(0)
    os.close(write)
    number, killed = first - 1, ""
    with os.fdopen(read, "rb", buffering=0) as pipe:
        rest = b""
        while True:
            if not select.select([pipe], [], [], bounds.silent_seconds)[0]:
                os.kill(process, signal.SIGKILL)
                killed = "no end, and no use of the processor"
            block = pipe.read(1 << 16)
            if not block:
                break
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                number, outcome, seconds = json.loads(line)
                yield number, outcome, seconds
    _, status = os.waitpid(process, 0)
    if number < cases - 1:
        if not killed:
            killed = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
        yield number + 1, f"the process died ({killed})", 0.0


def _work(case: Case, numbers: range, bounds: Bounds, write: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + bounds.memory, resource.RLIM_INFINITY))
    for number in numbers:
        begun = time.process_time()
        with _timed(bounds):
            outcome = _outcome(case, number)
        os.write(write, json.dumps([number, outcome, time.process_time() - begun]).encode() + b"\n")


@contextmanager
def _timed(bounds: Bounds, deadly: bool = True) -> Iterator[None]:
    """TooSlow after the seconds of CPU; death where that is not noticed, because C code does not return."""
    signal.signal(signal.SIGPROF, _too_slow)
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, bounds.cpu_seconds)
    signal.setitimer(signal.ITIMER_VIRTUAL, 3 * bounds.cpu_seconds if deadly else 0)
    signal.setitimer(signal.ITIMER_REAL, bounds.silent_seconds / 2)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_VIRTUAL, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)


def _too_slow(number: int, frame: Any) -> None:
    raise TooSlow(f"no end in the time of a case ({signal.Signals(number).name})")


def _outcome(case: Case, number: int) -> str:
    try:
        case(number)
    except LampnetError as refusal:
        return "refused" if "\n" not in str(refusal) else f"a refusal of several lines: {str(refusal)[:200]!r}"
    except BaseException as fault:  # also MemoryError, TooSlow, RecursionError, SystemExit
        last = traceback.extract_tb(fault.__traceback__)[-4:]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(last))
        return f"{type(fault).__name__}: {str(fault)[:150]} ({where})"
    return "accepted"
