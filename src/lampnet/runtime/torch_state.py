"""What lampnet borrows of torch's process-wide state, and gives back: generator, threads, one-time warnings."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from torch import Tensor

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


def sparse_csr(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of the arrays of a SciPy CSR matrix.

    >>> sparse_csr(np.array([0, 1, 1]), np.array([1]), np.array([2.0]), (2, 2)).to_dense().tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    _announce_csr_once()
    starts, columns, entries = (torch.from_numpy(array) for array in (indptr, indices, values))
    return torch.sparse_csr_tensor(starts, columns, entries, size=shape, check_invariants=False)


@cache
def _announce_csr_once() -> None:
    """Torch warns once per process that CSR support is in beta: let it do so here, unseen.

    Filtering around every call instead would race with other threads for the process's warning filters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(torch.tensor([0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), size=(0, 0))
