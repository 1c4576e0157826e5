"""A feature matrix and a label matrix, from whatever array file, checked and made a Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.errors import FormatError
from lampnet.readers.files import LARGEST
from lampnet.runtime.memory_limit import STRING, MemoryBudget

#: Bytes of memory for an entry, a row and a label of the matrices, while they are checked and converted.
_PER_ENTRY, _PER_ROW, _PER_LABEL = 24, 16, 4 * STRING


def _only_zero_and_one(x: np.ndarray) -> bool:
    if x.dtype.kind in "bu":
        return int(x.max()) <= 1
    return bool(((x == 0) | (x == 1)).all())


def _known(y: Any) -> np.ndarray:
    known: np.ndarray = ~np.isnan(np.asarray(y.data if sparse.issparse(y) else y, dtype=np.float64))
    return known


def _binary_csr(x: np.ndarray) -> sparse.csr_matrix:
    """CSR float32 of a dense matrix of zeros and ones, without the copies of the general conversion."""
    is_set = np.ascontiguousarray(x != 0)
    indices = (np.flatnonzero(is_set) % x.shape[1]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(is_set, axis=1))])
    return sparse.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=x.shape)


def dataset_of(
    path: Path,
    x: Any,
    y: Any,
    *,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    name: str,
) -> Dataset:
    """Sparse features, and dense ones that are only 0 and 1, become a word set; others a vector."""
    for what, matrix in (("X", x), ("Y", y)):
        if matrix is not None and (matrix.ndim != 2 or matrix.dtype.kind not in "biuf"):
            found = f"has the shape {matrix.shape} and type {matrix.dtype}"
            raise FormatError(path, f"{what} {found}; expected a matrix of numbers")
    count = len(label_names or ()) if y is None else y.shape[1]
    entries = sum(matrix.size for matrix in (x, y) if matrix is not None)  # stored ones, where they are sparse
    MemoryBudget(path).check(_PER_ENTRY * entries + _PER_LABEL * count + _PER_ROW * x.shape[0])
    if not x.shape[0] or not x.shape[1]:
        raise FormatError(path, f"X has the shape {x.shape}; give at least one row and one feature")
    if y is not None and y.shape[0] != x.shape[0]:
        raise FormatError(path, f"X has {x.shape[0]} rows, Y {y.shape[0]}; they must agree")
    values = x.data if sparse.issparse(x) else x
    if values.dtype.kind == "f" and not (np.abs(values) <= LARGEST).all():
        raise FormatError(path, "X holds values that are not finite numbers (or are beyond 3.4e38)")
    rows: Any
    if sparse.issparse(x):
        rows, kind = sparse.csr_matrix(x, dtype=np.float32), "wordset"
        rows.sum_duplicates()
    elif _only_zero_and_one(x):
        rows, kind = _binary_csr(x), "wordset"
    else:
        rows, kind = np.ascontiguousarray(x, dtype=np.float32), "vector"
    labels = None
    if y is not None:
        plain = not sparse.issparse(y) and y.size and _only_zero_and_one(y)
        if not plain and not (np.isin(y.data if sparse.issparse(y) else y, (-1, 0, 1)) | ~_known(y)).all():
            raise FormatError(path, "Y must hold 0 and 1 (NaN where unknown), or -1 and 1")
        labels = _binary_csr(y) if plain else sparse.csr_matrix(y, dtype=np.float32)
        labels.sum_duplicates()
        labels.eliminate_zeros()
        if not (np.isnan(labels.data) | (labels.data == 1)).all():
            if not (np.isin(labels.data, (-1, 1))).all():
                raise FormatError(path, "Y must hold 0 and 1 (NaN where unknown), or -1 and 1")
            labels.data[labels.data == -1] = 0
            labels.eliminate_zeros()
        if label_names is not None and len(label_names) != count:
            raise FormatError(path, f"{len(label_names)} label names were given with a Y of {count} columns")
    if feature_names is not None and len(feature_names) != x.shape[1]:
        raise FormatError(path, f"{len(feature_names)} feature names were given with an X of {x.shape[1]} columns")
    return Dataset(
        name=name,
        kind=kind,
        rows=rows,
        labels=labels,
        label_names=tuple(label_names) if label_names is not None else tuple(f"label_{i}" for i in range(count)),
        feature_names=tuple(feature_names) if feature_names is not None else None,
    )
