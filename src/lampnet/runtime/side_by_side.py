"""Independent tasks on all threads that torch may use; the results do not depend on their number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from lampnet.runtime.torch_state import threads

Item = TypeVar("Item")
Result = TypeVar("Result")

#: seconds between two calls of `report` while tasks are under way
REPORT_SECONDS = 0.3


class Cancelled(Exception):
    """A task ends because the caller no longer wants its result."""


class Pulse:
    """What a long task calls now and then: it lets the caller report, and ends the task where it is not wanted."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self.report, self.share = report, 0.0
        self.owner, self.stopped = threading.get_ident(), False

    def __call__(self) -> None:
        if self.stopped:
            raise Cancelled
        if threading.get_ident() == self.owner:
            self.report(self.share)


def side_by_side(
    function: Callable[[Item, Pulse], Result], items: Iterable[Item], report: Callable[[float], None]
) -> list[Result]:
    """`function(item, pulse)` of every item, in the order of the items; torch computes on one thread in each.

    `report` is called in the caller's thread with the share of the items that are done; an exception that it raises
    ends the tasks at their next call of `pulse`.

    >>> side_by_side(lambda item, pulse: item**2, range(4), lambda share: None)
    [0, 1, 4, 9]
    """
    items = list(items)
    pulse = Pulse(report)
    workers = min(torch.get_num_threads(), len(items))
    if workers <= 1:
        results = []
        with threads(1):
            for number, item in enumerate(items):
                pulse.share = number / len(items)
                pulse()
                results.append(function(item, pulse))
        return results

    def task(item: Item) -> Result:
        pulse()
        with threads(1):
            return function(item, pulse)

    with ThreadPoolExecutor(workers, thread_name_prefix="lampnet") as pool:
        futures = [pool.submit(task, item) for item in items]
        try:
            waiting = set(futures)
            while waiting:
                report(1 - len(waiting) / len(items))
                done, waiting = wait(waiting, REPORT_SECONDS, FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            pulse.stopped = True
            for future in futures:
                future.cancel()
            raise
    return [future.result() for future in futures]
