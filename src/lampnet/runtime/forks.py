"""Processes forked from one that has computed: what would make them hang is put right in the child.

Two things do not survive a fork: the threads of torch's thread pool, for which the child's first product would wait
forever, and locks that another thread of the parent held at that moment. So a forked child computes on one thread,
and `ForkSafeLock`s are free in it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A lock that is free in a forked child, whoever held it in the parent.

    >>> lock = ForkSafeLock()
    >>> with lock.held():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """One thread at a time inside the block."""
        with self._lock:  # the child's new lock is another object: this one is released by whoever took it
            yield

    def _renew(self) -> None:
        self._lock = threading.Lock()


def in_forked_children(action: Callable[[], None]) -> None:
    """Let every child that this process forks run `action` first; nothing where processes are not forked."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def _renew_locks() -> None:
    for lock in _locks:
        lock._renew()


in_forked_children(_renew_locks)
