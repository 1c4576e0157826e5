"""Sums of a matrix's rows beside SciPy's product, for few entries and for many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import row_sums as module
from lampnet.base_learners.row_sums import row_sums


@pytest.mark.parametrize("few", [0, 10**6])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_sums_are_those_of_the_product(n: int, dense: bool, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    draw = np.random.default_rng(n)
    table = sparse.random_array((20, 5), density=0.3, rng=draw, format="csr", dtype=np.float32)
    table = table.toarray() if dense else sparse.csr_matrix(table)
    starts = np.concatenate([[0], np.cumsum(draw.integers(0, 6, n))]).astype(np.int64)
    index = draw.integers(0, 20, starts[-1])
    weight = draw.random(starts[-1], dtype=np.float32)
    expected = sparse.csr_matrix((weight, index, starts), shape=(n, 20)) @ table
    found = row_sums(weight, index, starts, table)
    assert found.shape == (n, 5)
    np.testing.assert_array_equal(found, expected.toarray() if sparse.issparse(expected) else expected)
