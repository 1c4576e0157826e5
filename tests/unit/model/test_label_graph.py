"""Label graphs against slow loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from lampnet.errors import ConfigError, DataError
from lampnet.model.label_graph import GRAPHS, label_graph

LABELS = hnp.arrays(
    np.float32, st.tuples(st.integers(0, 6), st.integers(1, 6)), elements=st.sampled_from([0.0, 1.0, np.nan])
)


@given(LABELS)
def test_cooccurrence_against_a_loop(labels: np.ndarray) -> None:
    n_labels = labels.shape[1]
    expected = np.eye(n_labels, dtype=bool)
    for row in labels:
        for i in range(n_labels):
            for j in range(n_labels):
                expected[i, j] |= row[i] == 1 and row[j] == 1
    before = labels.copy()
    stored = sparse.csr_matrix(labels)
    for given_labels in (labels, stored):
        graph = label_graph("cooccurrence", n_labels, labels=given_labels)
        np.testing.assert_array_equal(graph.toarray(), expected)
        assert graph.dtype == bool
    np.testing.assert_array_equal(stored.toarray(), before)


@given(st.integers(1, 8), st.data())
def test_given_edges_are_symmetric_with_loops(n_labels: int, data: st.DataObject) -> None:
    number = st.integers(0, n_labels - 1)
    edges = data.draw(st.lists(st.tuples(number, number), max_size=10))
    expected = np.eye(n_labels, dtype=bool)
    for i, j in edges:
        expected[i, j] = expected[j, i] = True
    np.testing.assert_array_equal(label_graph("given", n_labels, edges=edges).toarray(), expected)


def test_edgeless_and_full() -> None:
    assert label_graph("edgeless", 5).nnz == 5
    assert label_graph("full", 5).toarray().all()


def test_tree() -> None:
    graph = label_graph("tree", 5, edges=np.array([[1, 0], [2, 0], [3, 2]]))
    expected = np.eye(5, dtype=bool)
    for i, j in [(1, 0), (2, 0), (3, 2)]:
        expected[i, j] = expected[j, i] = True
    np.testing.assert_array_equal(graph.toarray(), expected)


def test_a_long_chain_is_a_tree_and_a_ring_is_not() -> None:
    chain = np.stack([np.arange(1, 1000), np.arange(999)], axis=1)
    assert label_graph("tree", 1000, edges=chain).nnz == 1000 + 2 * 999
    ring = np.concatenate([chain, [[0, 999]]])
    with pytest.raises(DataError, match="cycle"):
        label_graph("tree", 1000, edges=ring)


def test_many_labels_cost_their_edges() -> None:
    graph = label_graph("given", 30_000, edges=np.random.default_rng(0).integers(0, 30_000, size=(300_000, 2)))
    assert graph.nnz < 700_000


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("fll", 3), ConfigError, "did you mean 'full'"),
        (("full", 0), DataError, "at least one"),
        (("cooccurrence", 3), DataError, "training labels"),
        (("cooccurrence", 3, np.zeros((2, 4))), DataError, "4 columns"),
        (("given", 3), DataError, "needs its edges"),
        (("given", 3, None, [(0, 3)]), DataError, "label 3"),
        (("given", 3, None, [(-1, 0)]), DataError, "label -1"),
        (("given", 3, None, [(0.5, 1.0)]), DataError, "whole numbers"),
        (("given", 3, None, [(0, 1, 2)]), DataError, r"\(1, 3\)"),
        (("tree", 3, None, [(0, 1), (0, 2)]), DataError, "several parents"),
        (("tree", 3, None, [(1, 1)]), DataError, "cycle"),
    ],
)
def test_mistakes_are_named(arguments: tuple, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        label_graph(*arguments)


def test_every_kind_has_self_loops() -> None:
    for kind in GRAPHS:
        graph = label_graph(kind, 4, labels=np.zeros((1, 4)), edges=[(0, 1)])
        assert graph.diagonal().all()
        assert (graph != graph.T).nnz == 0
