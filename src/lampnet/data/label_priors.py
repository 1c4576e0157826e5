"""The label prior: how often each label is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def label_priors(
    Y_nL: np.ndarray, dtype: type[np.floating[Any]] = np.float32, row_n: np.ndarray | None = None
) -> np.ndarray:
    """The share of the known rows (not NaN) that have each label, (L,), never quite 0 or 1.

    row_n  what each row counts; all the same by default

    >>> label_priors(np.array([[1, 0], [1, np.nan], [0, 0]])).tolist()
    [0.625, 0.1666666716337204]
    """
    known = ~np.isnan(Y_nL)
    if row_n is None:
        return smoothed_share(np.nan_to_num(Y_nL).sum(axis=0), known.sum(axis=0), dtype)
    return smoothed_share(row_n @ np.nan_to_num(Y_nL), row_n @ known, dtype)


def mixed_priors(before: np.ndarray, rows_before: int, Y_nL: np.ndarray, row_n: np.ndarray | None = None) -> np.ndarray:
    """Priors (L,) float32 of rows before and of new rows together; labels that are new stand behind the others.

    >>> mixed_priors(np.array([0.5]), 10, np.array([[1, 1], [1, 0.0]] * 5)).astype(float).round(2).tolist()
    [0.73, 0.5]
    """
    mixed, known = label_priors(Y_nL, row_n=row_n), (~np.isnan(Y_nL)).sum(axis=0)[: len(before)]
    share = rows_before / np.maximum(1, rows_before + known)
    mixed[: len(before)] = share * before + (1 - share) * mixed[: len(before)]
    return mixed


def any_share(priors: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """How often any label of each group is true, if they are independent, float32.

    >>> any_share(np.array([0.5, 0.5, 0.1]), [[0, 1], [2]]).round(2).tolist()
    [0.75, 0.10000000149011612]
    """
    return np.array([1 - np.prod(1 - priors[list(group)]) for group in groups], dtype=np.float32)


def smoothed_share(positives: np.ndarray, known: np.ndarray, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray:
    """(positives + 1/2) / (known + 1), (L,)."""
    return np.asarray((positives + 0.5) / (known + 1.0), dtype=dtype)
