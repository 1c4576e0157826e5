"""G_yy: which labels exchange messages, as a sparse bool (L, L) matrix, and as the network reads it.

Entry (i, j) is True where label i receives messages from label j. Every label receives from itself. All kinds
are undirected, so the matrix is symmetric; its cost is its edges, not L².

>>> label_graph("edgeless", 3).toarray().astype(int).tolist()
[[1, 0, 0], [0, 1, 0], [0, 0, 1]]
>>> label_graph("cooccurrence", 3, labels=[[1, 1, 0], [0, 0, 1]]).toarray().astype(int).tolist()
[[1, 1, 0], [1, 1, 0], [0, 0, 1]]
>>> label_graph("given", 3, edges=[(0, 2)]).toarray().astype(int).tolist()
[[1, 0, 1], [0, 1, 0], [1, 0, 1]]
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lampnet.errors import ConfigError, DataError, did_you_mean
from lampnet.model.neighbourhood import Neighbourhood, closed_bias

#: edgeless      LaMP_el: every label receives from itself only
#: full          LaMP_fc: every label receives from every label
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
        (NaN) make no edge.
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


class LabelGraph:
    """The label graph as the network reads it.

    adjacency  CSR bool (L, L) with self-loops; None for `full` and `edgeless`
    """

    def __init__(self, kind: str, adjacency: sparse.csr_matrix | None, n_labels: int) -> None:
        self.kind = kind if kind in ("edgeless", "full") else "edges"
        self.n_labels = n_labels
        self.adjacency = sparse.csr_matrix(adjacency) if self.kind == "edges" else None

    def neighbourhood(self, shortlist_BM: Tensor | None = None) -> Neighbourhood:
        """Which labels, or which labels of each row's shortlist, receive from which."""
        return Neighbourhood() if self.kind == "full" else LabelNeighbourhood(self, shortlist_BM)

    def open_pairs(self, shortlist_BM: Tensor | None = None) -> Tensor:
        """bool (L, L), or (B, M, M) among the shortlist: True where the first receives from the second."""
        if self.adjacency is None:
            labels = torch.arange(self.n_labels) if shortlist_BM is None else shortlist_BM
            same = labels.unsqueeze(-1) == labels.unsqueeze(-2)
            return same if self.kind == "edgeless" else torch.ones_like(same)
        receivers = torch.from_numpy(np.repeat(np.arange(self.n_labels), np.diff(self.adjacency.indptr)))
        sources = torch.from_numpy(self.adjacency.indices.astype(np.int64))
        if shortlist_BM is None:
            pairs = torch.zeros(self.n_labels, self.n_labels, dtype=torch.bool)
            pairs[receivers, sources] = True
            return pairs
        keys = receivers * self.n_labels + sources  # sorted, as CSR rows are
        wanted = shortlist_BM[:, :, None] * self.n_labels + shortlist_BM[:, None, :]
        found = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return keys[found] == wanted


class LabelNeighbourhood(Neighbourhood):
    """The neighbours of a label graph; the L x L bias is made only if somebody asks for it."""

    def __init__(self, graph: LabelGraph, shortlist_BM: Tensor | None) -> None:
        super().__init__()
        self.graph, self.shortlist_BM = graph, shortlist_BM

    @cached_property
    def bias(self) -> Tensor:  # type: ignore[override]
        bias = closed_bias(~self.graph.open_pairs(self.shortlist_BM))
        return bias if self.shortlist_BM is None else bias[:, None]
