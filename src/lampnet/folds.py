"""How labelled rows are cut into parts that judge each other.

Rows that came one after the other are often alike: news of one day, regions of one chromosome, parts of a recording.
Cut at random, each part has near copies in the others, and what is chosen on it is too sure of itself for rows that
come later. Such rows are cut in their order. Rows that were sorted by their labels are not: a part would lack labels.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

FEWEST_ROWS = 300
#: neighbours share a label this many standard errors, and this many times, more often than rows drawn at random
ERRORS, TIMES = 6.0, 1.2
#: labels with this many rows tell whether the rows were sorted: most of a label's rows would be in one third
FREQUENT = 30


def fold_numbers(n: int, folds: int, seed: int, in_order: bool = False) -> np.ndarray:
    """The part of each of n rows, int (n,): at random, or one stretch of rows a part.

    >>> fold_numbers(7, 3, seed=0, in_order=True).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    >>> sorted(fold_numbers(7, 3, seed=0).tolist())
    [0, 0, 0, 1, 1, 2, 2]
    """
    folds = min(folds, n)
    if in_order:
        return np.arange(n) * folds // n
    return np.random.default_rng(seed).permutation(n) % folds


def parts_of(fold_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each part the numbers of the other rows, and its own.

    >>> [(rest.tolist(), own.tolist()) for rest, own in parts_of(np.array([0, 1, 0]))]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    return [(np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)) for fold in range(fold_n.max() + 1)]


def come_in_order(Y_nL: np.ndarray | sparse.csr_matrix) -> bool:
    """Whether rows that follow each other are alike though every stretch of rows has its share of the labels.

    Parameters
    ----------
    Y_nL : float (n, L), dense or sparse
        1 where a label is true; 0 or NaN elsewhere.

    >>> days = np.repeat(np.random.default_rng(0).integers(4, size=200), 5)
    >>> come_in_order(np.eye(4)[days]), come_in_order(np.eye(4)[np.sort(days)])
    (True, False)
    """
    n = Y_nL.shape[0]
    if n < FEWEST_ROWS:
        return False
    Y = sparse.csr_matrix(Y_nL > 0, dtype=np.float32)
    near = _sharing(Y[1:], Y[:-1])
    far = _sharing(Y, Y[np.random.default_rng(0).permutation(n)])
    both = (near + far) / 2
    if near < TIMES * far or near - far < ERRORS * np.sqrt(2 * both * (1 - both) / n):
        return False
    fold_n = fold_numbers(n, 3, 0, in_order=True)
    thirds = np.stack([np.asarray(Y[fold_n == third].sum(axis=0)).ravel() for third in range(3)])
    frequent = thirds.sum(axis=0) >= FREQUENT
    return bool(frequent.any()) and float(np.median(thirds.max(axis=0)[frequent] / thirds.sum(axis=0)[frequent])) < 0.5


def _sharing(Y: sparse.csr_matrix, other: sparse.csr_matrix) -> float:
    """The share of the rows that have a label in common with their counterpart."""
    return float((np.asarray(Y.multiply(other).sum(axis=1)) > 0).mean())
