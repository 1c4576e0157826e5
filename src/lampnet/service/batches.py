"""Rows of several requests predicted together: one call of the model costs almost the same for one row as for ten.

Requests wait while the model is busy, and are then predicted in one batch. Where others are known to be on their way,
the first one waits a few milliseconds for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.inference.predictor import FittedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

#: seconds that a batch waits for requests that are being read
GATHER = 0.003
#: rows of a batch
MOST_ROWS = 512

#: what a request makes of its rows' logits (n, L)
Finish = Callable[[np.ndarray], Any]


class Crowded(Exception):
    """Too many rows are waiting."""


@dataclass
class _Job:
    model: FittedModel
    data: Dataset
    finish: Finish
    answer: asyncio.Future[Any]


class Batches:
    """Jobs of all requests, predicted in one thread.

    max_queue  rows that may wait
    observe    is called with the number of rows of every batch
    """

    def __init__(self, max_queue: int, observe: Callable[[int], None] = lambda rows: None) -> None:
        self.max_queue, self.observe = max_queue, observe
        self.waiting = 0
        self._reading = 0
        self._jobs: deque[_Job] = deque()
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "lampnet-predict")
        self._loop: asyncio.Task[None] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While a request's rows are read: a batch may wait for them."""
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1
            self._changed.set()

    def admit(self, rows: int) -> None:
        """Refuse rows for which there is no room."""
        if self.waiting + rows > self.max_queue and self.waiting:
            raise Crowded

    async def predict(self, model: FittedModel, data: Dataset, finish: Finish) -> Any:
        """What `finish` makes of the logits of these rows."""
        self.admit(len(data))
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(model, data, finish, answer))
        self.waiting += len(data)
        self._changed.set()
        return await answer

    async def alone(self, call: Callable[[], Any]) -> Any:
        """What a call returns that cannot share a batch, between batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def close(self) -> None:
        """Stop; jobs that are under way are finished first."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        self._thread.shutdown()

    async def _run(self) -> None:
        while True:
            while not self._jobs:
                self._changed.clear()
                await self._changed.wait()
            await self._gather()
            batch = self._next_batch()
            if not batch:
                continue
            outcomes = await self.alone(partial(_predicted, batch))
            for job, outcome in zip(batch, outcomes, strict=True):
                if job.answer.done():  # its request has given up
                    continue
                if isinstance(outcome, Exception):
                    job.answer.set_exception(outcome)
                else:
                    job.answer.set_result(outcome)

    async def _gather(self) -> None:
        """Wait a moment for the requests that are being read."""
        loop = asyncio.get_running_loop()
        end = loop.time() + GATHER
        while self._reading and self.waiting < MOST_ROWS and (left := end - loop.time()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    def _next_batch(self) -> list[_Job]:
        """The jobs at the head of the queue that share a model."""
        batch: list[_Job] = []
        rows = 0
        while self._jobs and (not batch or (self._jobs[0].model is batch[0].model and rows < MOST_ROWS)):
            job = self._jobs.popleft()
            self.waiting -= len(job.data)
            if not job.answer.done():
                batch.append(job)
                rows += len(job.data)
        if batch:
            self.observe(rows)
        return batch


def _predicted(batch: list[_Job]) -> list[Any]:
    """What each job made of its rows, or the exception that it ended with."""
    model = batch[0].model
    try:
        data = Dataset.joined([job.data for job in batch])
        logits = model.logits(data.rows, data.row_edges)
    except Exception as fault:
        if len(batch) == 1:
            return [fault]
        return [outcome for job in batch for outcome in _predicted([job])]  # one request's fault is not the others'
    ends = np.cumsum([len(job.data) for job in batch])
    return [_finished(job, logits[end - len(job.data) : end]) for job, end in zip(batch, ends, strict=True)]


def _finished(job: _Job, logits: np.ndarray) -> Any:
    try:
        return job.finish(logits)
    except Exception as fault:
        return fault
