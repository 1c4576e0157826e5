"""Weighted sums of a matrix's rows: neighbours' labels, leaves' shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

#: up to this many entries, making a sparse matrix takes longer than adding them up
_FEW = 20_000


def row_sums(weight_E: np.ndarray, index_E: np.ndarray, starts: np.ndarray, table: Any) -> np.ndarray:
    """Dense (n, L): row i is the sum of weight_E[e] * table[index_E[e]] for e in starts[i]:starts[i + 1].

    >>> row_sums(np.array([0.5, 2.0]), np.array([1, 0]), np.array([0, 2]), np.eye(2)).tolist()
    [[2.0, 0.5]]
    """
    n = len(starts) - 1
    if sparse.issparse(table):
        begin = table.indptr[index_E]
        count = table.indptr[index_E + 1] - begin
        total = int(count.sum())
        if total <= _FEW:
            entry = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(total)
            row = np.repeat(np.repeat(np.arange(n), np.diff(starts)), count)
            values = table.data[entry] * np.repeat(weight_E, count)
            sums = np.zeros(n * table.shape[1], dtype=values.dtype)
            np.add.at(sums, row * table.shape[1] + table.indices[entry], values)
            return sums.reshape(n, table.shape[1])
    sums = sparse.csr_matrix((weight_E, index_E, starts), shape=(n, table.shape[0])) @ table
    return np.asarray(sums.toarray() if sparse.issparse(sums) else sums)
