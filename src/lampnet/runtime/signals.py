"""SIGINT and SIGTERM while training: the step in hand is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_collected() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of dying of them (in the main thread)."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
