"""Groups of rows that belong together, and times of rows: what a caller knows about how rows depend on each other.

Rows of one group (one patient, one site) stay together wherever rows are split, so that no model is scored on a group
that it learned from. Rows with times are put in their order and split by it, so that what is held out is later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.column_content import date_seconds
from lampnet.errors import DataError


def grouped_folds(Y_nL: np.ndarray | sparse.csr_matrix, groups: Sequence[Any], folds: int, seed: int) -> np.ndarray:
    """The fold of each row, int (n,), that of its group; folds are about equal in size and in every label.

    Groups go one by one, the largest first, to the fold where labels and rows are then shared out most evenly. There
    are fewer folds where there are fewer groups.

    >>> folds = grouped_folds(np.eye(2)[[0, 0, 1, 1, 0, 1]], list("aabbcc"), 3, seed=0)
    >>> bool(folds[0] == folds[1] and folds[2] == folds[3]), np.bincount(folds).tolist()
    (True, [2, 2, 2])
    """
    _, of_row, sizes = np.unique(np.asarray([str(group) for group in groups]), return_inverse=True, return_counts=True)
    folds = min(folds, len(sizes))
    member = sparse.csr_matrix((np.ones(len(of_row)), (of_row, np.arange(len(of_row)))))
    counts = np.asarray((member @ sparse.csr_matrix(Y_nL > 0, dtype=np.float64)).todense())  # (groups, L)
    counts = np.column_stack([counts, sizes])
    share = counts / np.maximum(counts.sum(axis=0), 1)
    held = np.zeros((folds, share.shape[1]))  # of each label, and of the rows, the share that each fold has
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of_group = np.zeros(len(sizes), dtype=np.int64)
    for group in order:
        # Least squares from an even share: what matters is the product of what is there and what comes; rows count
        # as much as all labels together.
        excess = held[:, :-1] @ share[group, :-1] / max(1, share.shape[1] - 1) + held[:, -1] * share[group, -1]
        fold = int(np.lexsort((held[:, -1], np.round(excess, 12)))[0])
        fold_of_group[group] = fold
        held[fold] += share[group]
    return fold_of_group[of_row]


def times_of(values: Any) -> np.ndarray:
    """Times as numbers, float64 (n,): numbers as they are; dates and ISO texts in seconds.

    >>> times_of(["2024-01-02", "2024-01-01T12:00"]).argsort().tolist()
    [1, 0]
    """
    array = np.asarray(values)
    try:
        if array.dtype.kind in "iufb":
            numbers = array.astype(np.float64)
        else:
            numbers = np.array([_seconds(str(value).strip()) for value in array], dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("times must be numbers, dates, or texts such as 2024-01-31 or 2024-01-31T12:00") from None
    if numbers.ndim != 1:
        raise DataError(f"times of shape {numbers.shape} were given; give one per row")
    if not np.isfinite(numbers).all():
        raise DataError(f"row {int(np.argmin(np.isfinite(numbers)))} has no time; give a time for every row")
    return numbers


def _seconds(value: str) -> float:
    """A date as seconds since 1970: ISO texts (in UTC where they state no zone), and what NumPy reads."""
    if (found := date_seconds(value)) is not None:
        return found
    read = np.datetime64(value.removesuffix("Z"), "s")
    return float("nan") if np.isnat(read) else float(read.astype(np.int64))
