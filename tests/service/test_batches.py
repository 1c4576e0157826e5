"""Rows of several requests in one batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lampnet.data.dataset import Dataset
from lampnet.service.batches import Batches, Crowded


class Counting:
    """A model that doubles numbers, and waits until it may."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.may = threading.Event()
        self.may.set()

    def logits(self, rows: Any, row_edges: Any = None) -> np.ndarray:
        self.may.wait(timeout=30)
        self.sizes.append(len(rows))
        if (rows < 0).any():
            raise ValueError("a negative row")
        return 2 * rows


def numbers(*values: float) -> Dataset:
    return Dataset(name="n", kind="vector", rows=np.array(values)[:, None], labels=None, label_names=())


def run(steps: Callable[[Batches, Any], Any], max_queue: int = 100) -> Any:
    async def inside() -> Any:
        batches = Batches(max_queue)
        try:
            return await steps(batches, Counting())
        finally:
            await batches.close()

    with ThreadPoolExecutor(1) as thread:  # the browser tests leave an event loop running in the thread of the tests
        return thread.submit(asyncio.run, inside()).result()


def test_requests_that_wait_share_a_batch_and_get_their_own_rows() -> None:
    async def steps(batches: Batches, model: Any) -> None:
        model.may.clear()
        first = asyncio.create_task(batches.predict(model, numbers(1), np.ndarray.tolist))
        while batches.waiting or not batches._loop:
            await asyncio.sleep(0)
        others = [asyncio.create_task(batches.predict(model, numbers(k, k + 1), np.ndarray.tolist)) for k in (5, 7, 9)]
        while batches.waiting < 6:
            await asyncio.sleep(0)
        model.may.set()
        assert await first == [[2]]
        assert await asyncio.gather(*others) == [[[10], [12]], [[14], [16]], [[18], [20]]]
        assert model.sizes == [1, 6]

    run(steps)


def test_a_fault_is_answered_to_its_own_request_only() -> None:
    async def steps(batches: Batches, model: Any) -> None:
        with batches.reading():  # as if a third request were on its way: the first two share a batch
            tasks = [asyncio.create_task(batches.predict(model, numbers(v), np.ndarray.tolist)) for v in (1, -1, 3)]
            found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0] == [[2]]
        assert isinstance(found[1], ValueError)
        assert found[2] == [[6]]

    run(steps)


def test_what_finish_raises_is_its_requests() -> None:
    async def steps(batches: Batches, model: Any) -> None:
        def fail(logits: np.ndarray) -> None:
            raise KeyError("mine")

        tasks = [
            asyncio.create_task(batches.predict(model, numbers(1), finish)) for finish in (fail, np.ndarray.tolist)
        ]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], KeyError)
        assert found[1] == [[2]]

    run(steps)


def test_rows_beyond_the_queue_are_refused_and_room_comes_back() -> None:
    async def steps(batches: Batches, model: Any) -> None:
        model.may.clear()
        first = asyncio.create_task(batches.predict(model, numbers(1), np.ndarray.tolist))
        while batches.waiting or not batches._loop:
            await asyncio.sleep(0)
        second = asyncio.create_task(batches.predict(model, numbers(1, 2, 3), np.ndarray.tolist))
        while batches.waiting < 3:
            await asyncio.sleep(0)
        with pytest.raises(Crowded):
            await batches.predict(model, numbers(4, 5), np.ndarray.tolist)
        model.may.set()
        await asyncio.gather(first, second)
        assert await batches.predict(model, numbers(4, 5), np.ndarray.tolist) == [[8], [10]]

    run(steps, max_queue=4)


def test_models_are_never_mixed_and_requests_that_gave_up_are_left_out() -> None:
    async def steps(batches: Batches, model: Any) -> None:
        other = Counting()
        model.may.clear()
        first = asyncio.create_task(batches.predict(model, numbers(1), np.ndarray.tolist))
        while batches.waiting or not batches._loop:
            await asyncio.sleep(0)
        gone = asyncio.create_task(batches.predict(model, numbers(2, 2), np.ndarray.tolist))
        kept = asyncio.create_task(batches.predict(model, numbers(3), np.ndarray.tolist))
        away = asyncio.create_task(batches.predict(other, numbers(4), np.ndarray.tolist))
        while batches.waiting < 4:
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        model.may.set()
        assert await asyncio.gather(first, kept, away) == [[[2]], [[6]], [[8]]]
        assert model.sizes == [1, 1]
        assert other.sizes == [1]

    run(steps)
