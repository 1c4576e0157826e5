"""How much memory the reading of one file may take: one limit for all readers, named in every refusal.

A small file can stand for a large amount of data: compressed, run-length encoded, or one long string named a million
times. Readers count what they are about to make and take it from a `MemoryBudget` before they make it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lampnet.errors import ConfigError, FormatError

VARIABLE = "LAMPNET_MAX_MEMORY"
#: What a short string of Python's takes, and the reference to it.
STRING = 64
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_chosen: int | None = None


def memory_limit() -> int:
    """The limit in bytes: what was chosen, else the environment's LAMPNET_MAX_MEMORY, else half of the memory."""
    if _chosen is not None:
        return _chosen
    given = os.environ.get(VARIABLE)
    return bytes_of(given, VARIABLE) if given else machine_memory() // 2


@contextmanager
def limited_to(limit: int | None) -> Iterator[None]:
    """Another limit for a while; None for the default.

    >>> with limited_to(10**9):
    ...     memory_limit()
    1000000000
    """
    global _chosen
    before, _chosen = _chosen, limit
    try:
        yield
    finally:
        _chosen = before


def machine_memory() -> int:
    """The bytes of memory of the machine, or of the container where it has less."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _CONTAINER:
        with suppress(OSError, ValueError):  # "max": no limit
            most = min(most, int(Path(file).read_text()))
    return most


def bytes_of(text: str, option: str = "--max-memory") -> int:
    """A size as a user writes it.

    >>> bytes_of("16GB"), bytes_of("1.5g"), bytes_of("800 MiB")
    (16000000000, 1500000000, 838860800)
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if found is None or (found[3] and not found[2]) or float(found[1]) == 0:
        raise ConfigError(f"{option} {text!r} is not an amount of memory; give one such as 16GB or 500MB")
    power = list(_UNITS).index(found[2].upper())
    return int(float(found[1]) * (1024**power if found[3] else 1000**power))


def in_words(size: float) -> str:
    """A number of bytes for a person.

    >>> in_words(12_000_000_000), in_words(1234), in_words(999)
    ('12 GB', '1.23 KB', '999 bytes')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= _UNITS[unit[0]]:
            return f"{size / _UNITS[unit[0]]:.3g} {unit}"
    return f"{size:.0f} bytes"


def above(limit: int) -> str:
    """What is wrong with a file that would take more memory than the limit, and what to do."""
    return (
        f"above the limit of {in_words(limit)}; if the file is genuine, raise the limit with --max-memory "
        f"(or {VARIABLE})"
    )


class MemoryBudget:
    """What the reading of one file has taken of the limit so far."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.limit, self.taken = path, memory_limit(), 0

    def take(self, size: int, line: int | None = None) -> None:
        """Count memory that is about to be used, and kept."""
        self.check(size, line)
        self.taken += size

    def check(self, size: int, line: int | None = None) -> None:
        """Refuse the file where this much more memory would be too much."""
        if self.taken + size > self.limit:
            raise FormatError(
                self.path,
                f"reading this needs about {in_words(self.taken + size)} of memory or more, {above(self.limit)}, or "
                "give the data in several files",
                line,
            )
