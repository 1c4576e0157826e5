"""Dense or sparse matrices of base learners as arrays of a model folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def dense(X: Any) -> np.ndarray:
    """The matrix with its zeros."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


def matrix_arrays(name: str, X: Any) -> dict[str, np.ndarray]:
    """A dense matrix as it is, a sparse one in parts.

    >>> matrix_from("X", matrix_arrays("X", sparse.csr_matrix(np.eye(2)))).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not sparse.issparse(X):
        return {name: X}
    return {
        f"{name}.data": X.data.astype(np.float32),
        f"{name}.indices": X.indices.astype(np.int32),
        f"{name}.indptr": X.indptr.astype(np.int64),
        f"{name}.shape": np.array(X.shape, dtype=np.int64),
    }


def matrix_from(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """What `matrix_arrays` described; a sparse matrix that is not sound is a `ValueError`."""
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sparse.csr_matrix(parts, shape=tuple(int(s) for s in arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)
    return matrix
