"""What lampnet borrows of torch's process-wide state, and gives back: the generator and the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GENERATOR = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch draws from this seed inside the block; afterwards its generator is where it was.

    One thread at a time: models that are built side by side get the weights they would get alone.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     torch.equal(first, torch.rand(1))
    True
    """
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch computes on so many threads inside the block, 0 for as many as it has; afterwards on as many as before."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count:
            torch.set_num_threads(before)
