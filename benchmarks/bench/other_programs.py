"""How much of the processor other programs use while something is measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

#: cores that other programs may use beside a measurement that counts as alone
QUIET = 0.1


class OtherPrograms:
    """Counts from when it is made; what it measures must run in this process or in children that have ended."""

    def __init__(self) -> None:
        self.began, self.busy, self.own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """The cores that others have used since, on average; 0 where the system does not tell."""
        elapsed = time.perf_counter() - self.began
        used = (_busy_seconds() - self.busy) - (_own_seconds() - self.own)
        return max(used / elapsed, 0.0) if elapsed > 0 else 0.0


def _own_seconds() -> float:
    return sum(os.times()[:4])


def _busy_seconds() -> float:
    """Processor seconds of all programs since the start of the machine."""
    path = Path("/proc/stat")
    if not path.is_file():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, path.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
