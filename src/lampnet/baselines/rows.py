"""Checks and splits of rows, shared by all baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.splits import held_out
from lampnet.errors import DataError


def row_count(X: Any) -> int:
    """Rows of a matrix (sparse ones refuse len) or of NodeRows."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def check_labels(X: Any, Y: Any) -> np.ndarray:
    """Y as float64 (n, L) of 0, 1 and NaN, one row for each row of X."""
    dense = np.asarray(Y.toarray() if sparse.issparse(Y) else Y, dtype=np.float64)
    n = row_count(X)
    if dense.ndim != 2 or len(dense) != n:
        raise DataError(f"{n} rows were given with labels of shape {dense.shape}; give one row of labels for each row")
    if not n or not dense.shape[1]:
        raise DataError(f"labels of shape {dense.shape} are empty; give at least one row and one label")
    if not np.all((dense == 0) | (dense == 1) | np.isnan(dense)):
        raise DataError("labels must be 0, 1 or NaN (unknown)")
    return dense


def check_features(X: Any) -> Any:
    """X as CSR or dense float64, all finite."""
    X = sparse.csr_matrix(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise DataError(f"features must have the shape (rows, features); got {X.shape}")
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise DataError("features hold NaN or infinite values; fill or remove them first")
    return X


def label_shares(Y: np.ndarray) -> np.ndarray:
    """The share of the known rows that have each label, float (L,); not smoothed, 0 where nothing is known."""
    return np.asarray(np.nansum(Y, axis=0) / np.maximum((~np.isnan(Y)).sum(axis=0), 1))


def held_out_tenth(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows to fit on and of the rows to tune on; a single row is used for both."""
    learn, tune = held_out(n, max(1, n // 10), seed)
    return (learn, tune) if n > 1 else (tune, tune)
