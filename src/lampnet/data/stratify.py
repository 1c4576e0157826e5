"""Iterative stratification (Sechidis et al. 2011): every part of the rows gets its share of each label's rows.

The label with the fewest rows left is shared out first, row by row to the part that lacks it most, so that rare
labels are spread as evenly as their number allows. Parts have exactly the sizes asked for. Labels with many rows are
left to chance, which shares them out well, so the work does not grow with the number of rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from scipy import sparse

#: a label with more rows left than this is left to chance
MANY = 100


def stratified_folds(Y_nL: sparse.csr_matrix | np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each row, int (n,): folds of equal size, up to a row."""
    sizes = np.bincount(np.arange(Y_nL.shape[0]) % folds, minlength=folds)
    # Equal shares: a fold that is a row larger would be the first choice for every label.
    return stratified_parts(Y_nL, sizes.tolist(), seed, [1 / folds] * folds)


def stratified_parts(
    Y_nL: sparse.csr_matrix | np.ndarray, sizes: Sequence[int], seed: int, shares: Sequence[float] | None = None
) -> np.ndarray:
    """The part of each row, int (n,), for parts of these sizes, which add up to n.

    Y_nL    1 where a label is true; 0 or NaN elsewhere
    shares  of a label's rows that each part should get; by default those of all rows

    >>> Y = np.array([[1], [0], [1], [0], [0], [0]])
    >>> parts = stratified_parts(Y, [3, 3], seed=0)
    >>> bool(parts[0] != parts[2]), np.bincount(parts).tolist()
    (True, [3, 3])
    """
    Y = sparse.csr_matrix(Y_nL > 0)
    n, L = Y.shape
    random = np.random.default_rng(seed)
    room = np.array(sizes, dtype=np.int64)
    assert room.sum() == n
    part_n = np.full(n, -1, dtype=np.int64)
    by_label = sparse.csc_matrix(Y)
    left = np.diff(by_label.indptr)
    lacking = left[:, None] * (
        room / max(1, n) if shares is None else np.array(shares)
    )  # (L, parts) rows that each part should still get
    chance = random.random(L)
    waiting = [(int(left[label]), chance[label], label) for label in range(L) if 0 < left[label] <= MANY]
    heapq.heapify(waiting)
    while waiting:
        count, _, label = heapq.heappop(waiting)
        if left[label] != count:  # some of its rows went with another label, and it waits with fewer
            continue
        touched: set[int] = set()
        own = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        for row in random.permutation(own[part_n[own] < 0]):
            part = _part_for(lacking[label], room, random)
            labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
            part_n[row] = part
            room[part] -= 1
            lacking[labels, part] -= 1
            left[labels] -= 1
            touched.update(labels.tolist())
        for other in touched:
            if 0 < left[other] <= MANY:
                heapq.heappush(waiting, (int(left[other]), chance[other], other))
    part_n[random.permutation(np.flatnonzero(part_n < 0))] = np.repeat(np.arange(len(room)), room)
    return part_n


def _part_for(lacking: np.ndarray, room: np.ndarray, random: np.random.Generator) -> int:
    """The part that lacks a label most; of equals the one with most room, then any."""
    lacking = np.where(room > 0, lacking, -np.inf)
    most = np.flatnonzero(lacking >= lacking.max() - 1e-9)
    most = most[room[most] == room[most].max()]
    return int(most[0] if len(most) == 1 else random.choice(most))
