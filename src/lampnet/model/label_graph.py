"""G_yy: which labels exchange messages, as a sparse bool (L, L) matrix.

Entry (i, j) is True where label i receives messages from label j. Every label hears itself. All kinds are
undirected, so the matrix is symmetric; its cost is its edges, not L².

>>> label_graph("edgeless", 3).toarray().astype(int).tolist()
[[1, 0, 0], [0, 1, 0], [0, 0, 1]]
>>> label_graph("cooccurrence", 3, labels=[[1, 1, 0], [0, 0, 1]]).toarray().astype(int).tolist()
[[1, 1, 0], [1, 1, 0], [0, 0, 1]]
>>> label_graph("given", 3, edges=[(0, 2)]).toarray().astype(int).tolist()
[[1, 0, 1], [0, 1, 0], [1, 0, 1]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.errors import ConfigError, DataError, did_you_mean

#: edgeless      LaMP_el: every label hears only itself
#: full          LaMP_fc: every label hears every label
#: cooccurrence  LaMP_pr: labels that occur together in a training row
#: tree          LaMP_pr: a label and its parent; `edges` are (child, parent) pairs
#: given         LaMP_pr: any pairs, such as protein-protein interactions
GRAPHS = ("edgeless", "full", "cooccurrence", "tree", "given")


def label_graph(kind: str, n_labels: int, labels: Any = None, edges: Any = None) -> sparse.csr_matrix:
    """The label graph of this kind, CSR bool (L, L), with self-loops.

    Parameters
    ----------
    kind : one of `GRAPHS`
    n_labels : L
    labels : (n, L) indicator of the training rows, dense or sparse; for `cooccurrence`. Unknown entries
        (NaN) are no evidence of an edge.
    edges : (E, 2) label numbers; for `tree` (child, parent) and `given`
    """
    if kind not in GRAPHS:
        raise ConfigError(f"there is no label graph {kind!r}; {did_you_mean(kind, GRAPHS)}")
    if n_labels < 1:
        raise DataError(f"a label graph needs at least one label, not {n_labels}")
    loops = sparse.identity(n_labels, dtype=bool, format="csr")
    if kind == "edgeless":
        return loops
    if kind == "full":
        return sparse.csr_matrix(np.ones((n_labels, n_labels), dtype=bool))
    if kind == "cooccurrence":
        return _boolean(_cooccurrence(n_labels, labels) + loops)
    pairs = _checked_edges(kind, n_labels, edges)
    if kind == "tree":
        _check_tree(n_labels, pairs)
    there = sparse.csr_matrix((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=loops.shape)
    return _boolean(there + there.T + loops)


def _cooccurrence(n_labels: int, labels: Any) -> sparse.csr_matrix:
    if labels is None:
        raise DataError("a co-occurrence graph is made from the training labels; give labels of shape (rows, labels)")
    matrix = sparse.csr_matrix(labels, dtype=np.float32, copy=True)
    if matrix.shape[1] != n_labels:
        raise DataError(f"labels have {matrix.shape[1]} columns, but there are {n_labels} labels")
    matrix.data = (matrix.data > 0).astype(np.float32)  # a NaN is not above zero
    matrix.eliminate_zeros()
    return sparse.csr_matrix(matrix.T @ matrix)


def _boolean(matrix: Any) -> sparse.csr_matrix:
    graph = sparse.csr_matrix(matrix).astype(bool)
    graph.sum_duplicates()
    graph.sort_indices()
    return graph


def _checked_edges(kind: str, n_labels: int, edges: Any) -> np.ndarray:
    if edges is None:
        raise DataError(f"the label graph {kind!r} needs its edges: pairs of label numbers from 0 to {n_labels - 1}")
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(f"edges must be whole numbers of shape (E, 2); got {pairs.dtype} {pairs.shape}")
    bad = (pairs < 0) | (pairs >= n_labels)
    if bad.any():
        raise DataError(f"an edge names label {pairs[bad][0]}, but label numbers go from 0 to {n_labels - 1}")
    return pairs.astype(np.int64)


def _check_tree(n_labels: int, pairs: np.ndarray) -> None:
    """Every label at most one parent and no cycles; several roots are a forest and fine."""
    children, times = np.unique(pairs[:, 0], return_counts=True)
    if (times > 1).any():
        raise DataError(f"label {children[times > 1][0]} has several parents; use the label graph 'given' for that")
    parent = np.full(n_labels, -1)
    parent[pairs[:, 0]] = pairs[:, 1]
    # Following parents L times from everywhere ends above every root unless there is a cycle;
    # doubling the stride needs only log2(L) rounds.
    ancestor = np.append(parent, -1)
    for _ in range(int(n_labels).bit_length() + 1):
        ancestor = ancestor[ancestor]
    if (ancestor != -1).any():
        raise DataError(f"the tree of labels has a cycle through label {int(np.argmax(ancestor != -1))}")
