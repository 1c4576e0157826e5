"""Sparse rows of length one."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy import sparse


def unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Each row divided by its length, float32; empty rows stay empty.

    >>> unit_rows(sparse.csr_matrix([[3.0, 4.0], [0.0, 0.0]])).toarray().tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    entries_n = np.diff(matrix.indptr)
    row_E = np.repeat(np.arange(len(entries_n)), entries_n)
    values = matrix.data.astype(np.float64)  # in float32, squares are infinite from 1e19 on
    length = np.sqrt(np.bincount(row_E, weights=values * values, minlength=len(entries_n)))
    # A copy with other values: for one row, SciPy's checks of a new matrix take longer than all the rest.
    unit = copy(matrix)
    unit.data = (values / np.where(length > 0, length, 1.0)[row_E]).astype(np.float32)
    return unit
