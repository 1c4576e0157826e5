"""Tasks side by side: results in order, reports in the caller's thread, an end where the caller asks for it."""

from __future__ import annotations

import threading

import pytest
import torch

from lampnet.runtime.side_by_side import Pulse, side_by_side
from lampnet.runtime.torch_state import threads


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_stand_in_the_order_of_the_items_and_tasks_compute_on_one_thread(count: int) -> None:
    with threads(count):
        results = side_by_side(lambda item, pulse: (item, torch.get_num_threads()), range(20), lambda share: None)
        assert torch.get_num_threads() == count
    assert results == [(item, 1) for item in range(20)]


@pytest.mark.parametrize("count", [1, 2])
def test_reports_come_in_the_callers_thread_with_growing_shares(count: int) -> None:
    shares: list[float] = []
    own = threading.get_ident()

    def report(share: float) -> None:
        assert threading.get_ident() == own
        shares.append(share)

    with threads(count):
        side_by_side(lambda item, pulse: pulse(), range(5), report)
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] < 1


@pytest.mark.parametrize("count", [1, 2])
def test_an_exception_of_the_report_ends_tasks_that_would_go_on_forever(count: int) -> None:
    ended = []

    def forever(item: int, pulse: Pulse) -> None:
        try:
            while True:
                pulse()
        finally:
            ended.append(item)

    calls = iter(range(3))

    def report(share: float) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt

    with threads(count), pytest.raises(KeyboardInterrupt):
        side_by_side(forever, range(4), report)
    assert len(ended) <= count


@pytest.mark.parametrize("count", [1, 2])
def test_an_exception_of_a_task_reaches_the_caller(count: int) -> None:
    def fail(item: int, pulse: Pulse) -> None:
        raise ZeroDivisionError

    with threads(count), pytest.raises(ZeroDivisionError):
        side_by_side(fail, range(4), lambda share: None)
