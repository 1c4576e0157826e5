"""The fuzzers' driver reports every kind of failure, and goes on with the next case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
from bounded_cases import Bounds, run_cases
from lampnet.errors import DataError

def case(number):
    if number == 1:
        raise DataError("refused in a sentence")
    if number == 2:
        raise DataError("two\\nlines")
    if number == 3:
        return bytearray(900_000_000)
    if number == 4:
        while True:
            try:
                while True: pass
            except Exception:
                pass
    if number == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 6:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
        while True: pass
    if number == 7:
        raise KeyError("x")
    if number == 8:
        sys.exit(0)

print(json.dumps(run_cases(case, 10, Bounds(memory=300_000_000, cpu_seconds=0.3))))
"""


def test_every_failure_is_reported_and_the_rest_is_run() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    summary = json.loads(process.stdout)
    assert (summary["accepted"], summary["refused"]) == (2, 1)
    kinds = {failure.split(":")[0]: failure for failure in summary["failures"]}
    assert list(kinds) == [f"case {number}" for number in range(2, 9)]
    for number, what in enumerate(
        ("several lines", "MemoryError", "TooSlow", "SIGSEGV", "SIGVTALRM", "KeyError", "SystemExit"), start=2
    ):
        assert what in kinds[f"case {number}"]
