"""Times that a busy machine cannot spoil: taken in turns (A, B, A, B, ...), the median of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch


def interleaved(
    actions: Mapping[str, Callable[[], object]], seconds: float, most_rounds: int = 40
) -> dict[str, list[float]]:
    """Seconds of each action, in turns, for about the given time, at least three rounds after one to warm up.

    With one thread, processor time is taken: time in which another program ran does not count.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    began = time.monotonic()
    while len(next(iter(taken.values()))) < 3 or (
        time.monotonic() - began < seconds and len(next(iter(taken.values()))) < most_rounds
    ):
        for name, action in actions.items():
            start = clock()
            action()
            taken[name].append(clock() - start)
    return taken


def medians(taken: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each action.

    >>> medians({"a": [3.0, 1.0, 2.0]})
    {'a': 2.0}
    """
    return {name: median(times) for name, times in taken.items()}


def ratio(taken: Mapping[str, list[float]], slow: str, fast: str) -> float:
    """How many times faster `fast` is: the median of the rounds' own ratios, which shared noise leaves alone.

    >>> ratio({"a": [2.0, 4.0, 9.0], "b": [1.0, 2.0, 3.0]}, "a", "b")
    2.0
    """
    return median(a / b for a, b in zip(taken[slow], taken[fast], strict=True))
