"""What lampnet borrows of torch's process-wide state, and gives back: generator, threads, one-time warnings."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from lampnet.runtime.forks import ForkSafeLock, in_forked_children
from lampnet.runtime.warning_filters import WARNING_FILTERS

_GENERATOR, _THREADS = ForkSafeLock(), ForkSafeLock()


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
    with _GENERATOR.held(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()
_open_blocks, _outside = 0, 1
_forked = False


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch computes on this many threads inside the block, 0 for as many as it has; afterwards on as many as before.

    Torch keeps the number per thread, and gives a new thread the number that was set last by any of them. So blocks
    of several threads that overlap all go back to what the first of them found. A forked child stays at one thread.
    """
    global _open_blocks, _outside
    if not count:
        yield
        return
    with _THREADS.held():
        found = torch.get_num_threads()  # asked first: a thread that never did would lose what is set for it here
        if not _open_blocks:
            _outside = found
        before = found if _nesting.depth else _outside
        _open_blocks, _nesting.depth = _open_blocks + 1, _nesting.depth + 1
        _set_threads(count)
    try:
        yield
    finally:
        with _THREADS.held():
            _open_blocks, _nesting.depth = max(0, _open_blocks - 1), max(0, _nesting.depth - 1)
            _set_threads(before)


def _set_threads(count: int) -> None:
    torch.set_num_threads(1 if _forked else count)


def _stay_on_one_thread() -> None:
    """The threads of the parent's pool are not there in a forked child, which would wait for them forever."""
    global _open_blocks, _forked
    _open_blocks, _nesting.depth, _forked = 0, 0, True
    torch.set_num_threads(1)


in_forked_children(_stay_on_one_thread)


def sparse_csr(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of the arrays of a SciPy CSR matrix.

    >>> sparse_csr(np.array([0, 1, 1]), np.array([1]), np.array([2.0]), (2, 2)).to_dense().tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    announced_once("CSR", _empty_csr)
    starts, columns, entries = (torch.from_numpy(array) for array in (indptr, indices, values))
    return torch.sparse_csr_tensor(starts, columns, entries, size=shape, check_invariants=False)


_announced: set[str] = set()


def announced_once(what: str, call: Callable[[], object]) -> None:
    """Make a call of which torch warns once per process, unseen; nothing from the second time on.

    Filtering around every call instead would race with other threads for the process's warning filters.
    """
    if what in _announced:
        return
    with WARNING_FILTERS.held(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if what not in _announced:
            call()
        _announced.add(what)


def _empty_csr() -> Tensor:
    return torch.sparse_csr_tensor(
        torch.tensor([0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), size=(0, 0)
    )
