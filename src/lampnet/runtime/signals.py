"""SIGINT and SIGTERM while training: the step in hand is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handling(handler: Callable[[int, Any], None], numbers: Sequence[int] = SIGNALS) -> Iterator[None]:
    """Handle signals inside the block; only the main thread can, in others nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_collected() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of dying of them (in the main thread)."""
    received: list[int] = []
    with handling(lambda number, _: received.append(number)):
        yield received
