"""Times that hold on a busy machine: taken in turns (A, B, A, B, ...), the median of each.

Everything that is compared runs in its own process (`in_turns`), as it does for its user: memory that one program
leaves in the allocator would make the large arrays of another cheap.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch


def interleaved(
    actions: Mapping[str, Callable[[], object]], seconds: float, most_rounds: int = 40
) -> dict[str, list[float]]:
    """Seconds of each action, in turns, for about the given time, at least three rounds after one to warm up.

    With one thread, processor time is taken: time in which another program ran does not count.
    """
    return _rounds({name: partial(_timed, action) for name, action in actions.items()}, seconds, most_rounds)


def in_turns(
    makers: Mapping[str, Callable[[], Callable[[], object]]], seconds: float, most_rounds: int = 40
) -> dict[str, list[float]]:
    """As `interleaved`, each action made and run in a copy of this process, which must not have computed gradients.

    >>> sorted(in_turns({"a": lambda: list, "b": lambda: dict}, seconds=0))
    ['a', 'b']
    """
    if sys.platform != "linux":
        return interleaved({name: make() for name, make in makers.items()}, seconds, most_rounds)
    context = multiprocessing.get_context("fork")
    ends: dict[str, Any] = {}
    children = []
    for name, make in makers.items():
        ends[name], other = context.Pipe()
        children.append(context.Process(target=_take_turns, args=(make, other), daemon=True))
        children[-1].start()
        other.close()

    def run_elsewhere(name: str) -> float:
        ends[name].send(True)
        taken: float = ends[name].recv()
        return taken

    try:
        taken = _rounds({name: partial(run_elsewhere, name) for name in makers}, seconds, most_rounds)
        for end in ends.values():
            end.send(False)
    except (EOFError, BrokenPipeError):
        raise RuntimeError(f"one of {', '.join(makers)} ended early; see above") from None
    for child in children:
        child.join()
    return taken


def _take_turns(make: Callable[[], Callable[[], object]], end: Any) -> None:
    action = make()
    while end.recv():
        end.send(_timed(action))


def _timed(action: Callable[[], object]) -> float:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    action()
    return clock() - start


def _rounds(timed: Mapping[str, Callable[[], float]], seconds: float, most_rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for action in timed.values():
        action()
    began = time.monotonic()
    done = 0
    while done < 3 or (time.monotonic() - began < seconds and done < most_rounds):
        for name, action in timed.items():
            taken[name].append(action())
        done += 1
    return taken


def medians(taken: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each action.

    >>> medians({"a": [3.0, 1.0, 2.0]})
    {'a': 2.0}
    """
    return {name: median(times) for name, times in taken.items()}


def ratio(taken: Mapping[str, list[float]], slow: str, fast: str) -> float:
    """How many times faster `fast` is: the median of the ratios of single rounds, which cancels shared noise.

    >>> ratio({"a": [2.0, 4.0, 9.0], "b": [1.0, 2.0, 3.0]}, "a", "b")
    2.0
    """
    return median(a / b for a, b in zip(taken[slow], taken[fast], strict=True))


def apart(measure: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """What `measure` returns when it is called in a copy of this process, which must not have computed gradients.

    >>> apart(max, 3, 5)
    5
    """
    if sys.platform != "linux":
        return measure(*arguments, **settings)
    context = multiprocessing.get_context("fork")
    receives, sends = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sends.send(measure(*arguments, **settings)))
    child.start()
    sends.close()
    try:
        return receives.recv()
    except EOFError:
        raise RuntimeError(f"measuring {measure.__name__}{arguments or settings} ended early; see above") from None
    finally:
        child.join()
