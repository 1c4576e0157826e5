"""What ends a method before it is done: its time is up, or a signal came."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from lampnet.runtime.signals import handling
from lampnet.training.progress import Progress, Stopped


class OutOfTime(BaseException):
    """The method in hand used up its time; no `except Exception` of a library may swallow that."""


def in_words(seconds: float) -> str:
    """A duration for a sentence.

    >>> in_words(30), in_words(3600), in_words(90)
    ('30 seconds', '60 minutes', '90 seconds')
    """
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` inside the block after this many seconds; 0 for no limit.

    The alarm of the operating system is used, because scikit-learn's fits cannot be asked to stop; where there
    is none (Windows, or a thread that is not the main one) the block runs to its end.

    >>> with at_most(0):
    ...     print("no limit")
    no limit
    """
    if seconds <= 0 or not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    with handling(ring, (signal.SIGALRM,)):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def stoppable() -> AbstractContextManager[None]:
    """Raise `Stopped` inside the block when SIGINT or SIGTERM comes (in the main thread).

    A network that trains inside takes the signals itself and finishes its step; all other methods end at once.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise Stopped(number, Progress())

    return handling(end)
