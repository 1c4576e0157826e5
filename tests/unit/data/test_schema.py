"""Rows brought to the labels and features of the training rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.schema import align, aligned_splits
from lampnet.errors import DataError


def dataset(kind: str, rows: object, names: tuple[str, ...], features: tuple[str, ...] | None = None) -> Dataset:
    n = len(rows) if not sparse.issparse(rows) else rows.shape[0]  # type: ignore[arg-type, attr-defined]
    labels = sparse.csr_matrix(np.ones((n, len(names)), dtype=np.float32))
    return Dataset(name="d", kind=kind, rows=rows, labels=labels, label_names=names, feature_names=features)


def test_alignment_of_vectors_tables_and_unnamed_features() -> None:
    train = dataset("vector", np.ones((1, 2), dtype=np.float32), ("a",), ("u", "v"))
    moved = align(
        train, dataset("vector", np.array([[5.0, 6.0, 7.0]], dtype=np.float32), ("a",), ("v", "w", "u")), "test"
    )
    assert moved.rows.tolist() == [[7, 5]]
    with pytest.raises(DataError, match="are the files a pair"):
        align(train, dataset("vector", np.ones((1, 1)), ("a",), ("zzz",)), "test")
    with pytest.raises(DataError, match="3 numbers, the training rows 2"):
        align(dataset("vector", np.ones((1, 2)), ("a",)), dataset("vector", np.ones((1, 3)), ("a",)), "test")
    with pytest.raises(DataError, match="of kind text"):
        align(train, dataset("text", ["x"], ("a",)), "test")
    words = Table(values=np.array([[0.0, 1.0]]), names=("c", "n"), categories={0: ("red", "blue")})
    other = Table(values=np.array([[3.0, 0.0], [4.0, 1.0]]), names=("n", "c"), categories={1: ("green", "blue")})
    table = align(dataset("columns", words, ("a",)), dataset("columns", other, ("a",)), "test").rows
    np.testing.assert_array_equal(table.values, [[np.nan, 3], [1, 4]])  # green was never seen
    unlabelled = Dataset(name="d", kind="text", rows=["x"], labels=None, label_names=())
    assert aligned_splits(dataset("text", ["y"], ("a",)), test=unlabelled).test is not None
