"""Trees as scikit-learn grows them, brought into the arrays of `Trees`; forest and boosted trees share this.

Input is not checked again by scikit-learn, whose checks would touch the warning filters of all threads; for the same
reason rows that count more are repeated instead of having sample weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.protocol import Features
from lampnet.base_learners.trees import Trees

#: trees see the features of the highest variance
MAX_FEATURES = 4_000
#: outputs of one tree: more labels than this are projected at random onto this many
LABEL_PROJECTIONS = 16


class GrownTree:
    """One tree: its nodes in preorder, the rows it was grown on, and the leaf of every row."""

    def __init__(self, tree: Any, rows: np.ndarray, node_n: np.ndarray) -> None:
        inner = tree.children_left >= 0
        assert (tree.children_left[inner] == np.flatnonzero(inner) + 1).all(), "scikit-learn grows trees depth first"
        self.is_leaf, self.rows = ~inner, rows
        self.feature = tree.feature[inner].astype(np.int32)
        self.threshold = _round_down(tree.threshold[inner])
        self.leaf_n = (np.cumsum(self.is_leaf) - 1)[node_n].astype(np.int32)


def grow(tree: Any, X: Any, targets: np.ndarray, rows: np.ndarray, random: np.random.Generator) -> GrownTree:
    """A scikit-learn tree fitted on some rows of X (as `seen` gives it) and their targets (rows, outputs).

    Where there are many outputs, the tree is grown on random projections of them.
    """
    import sklearn  # heavy: imported only to train

    n_outputs = targets.shape[1]
    if n_outputs > LABEL_PROJECTIONS:
        targets = targets @ random.normal(scale=LABEL_PROJECTIONS**-0.5, size=(n_outputs, LABEL_PROJECTIONS))
    own = sparse.csc_matrix(X[rows]) if sparse.issparse(X) else X[rows]
    tree.random_state = int(random.integers(2**31))
    with sklearn.config_context(skip_parameter_validation=True):  # of small trees it takes longer than growing them
        tree.fit(own, np.ascontiguousarray(targets, dtype=np.float64), check_input=False)
    return GrownTree(tree.tree_, rows, tree.tree_.apply(X))


def joined(before: Trees, grown: Sequence[GrownTree]) -> Trees:
    """Trees behind those that are there."""
    return Trees(
        np.concatenate([before.nodes, [len(tree.is_leaf) for tree in grown]]).astype(np.int64),
        np.concatenate([before.is_leaf, *(tree.is_leaf for tree in grown)]),
        np.concatenate([before.feature, *(tree.feature for tree in grown)]),
        np.concatenate([before.threshold, *(tree.threshold for tree in grown)]),
    )


def no_trees() -> Trees:
    """None yet."""
    return Trees(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, np.int32), np.zeros(0, np.float32))


def drawn(rows: np.ndarray, most: int, row_n: np.ndarray | None, random: np.random.Generator) -> np.ndarray:
    """At most `most` of the rows, at random, in their order; each as often as its weight says, rounded at random."""
    rows = np.sort(random.permutation(rows)[: max(1, most)])
    if row_n is None:
        return rows
    times = np.floor(row_n[rows] + random.random(len(rows))).astype(np.int64)
    return np.asarray(np.repeat(rows, times) if times.any() else rows[[int(row_n[rows].argmax())]])


def highest_variance(X: Features) -> np.ndarray:
    """Indices of the features that trees see, int64, ascending: all of them, unless there are too many.

    >>> highest_variance(sparse.csr_matrix(np.eye(3))).tolist()
    [0, 1, 2]
    """
    n, n_features = X.shape
    if n_features <= MAX_FEATURES:
        return np.arange(n_features)
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    variance = np.asarray(squares.sum(axis=0)).ravel() / n - (np.asarray(X.sum(axis=0)).ravel() / n) ** 2
    return np.asarray(np.sort(np.argsort(-variance, kind="stable")[:MAX_FEATURES]))


def seen(X: Features, columns: np.ndarray) -> Any:
    """What the trees see of the features: float32 (n, F), CSR or dense."""
    X = X if len(columns) == X.shape[1] else X[:, columns]
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float32)
    return plain_csr(X)


def plain_csr(X: Any) -> sparse.csr_matrix:
    """CSR with float32 values and 32-bit indices in order, as scikit-learn's trees want it."""
    X = sparse.csr_matrix(X, dtype=np.float32)
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return X


def stored_trees(trees: Trees) -> dict[str, np.ndarray]:
    """The trees as arrays of few bytes; `restored_trees` reads them."""
    return {
        "nodes": small(trees.nodes),
        "is_leaf": np.packbits(trees.is_leaf),
        "feature": small(trees.feature),
        "threshold": trees.threshold,
    }


def restored_trees(learner: str, arrays: dict[str, np.ndarray]) -> Trees:
    """What `stored_trees` described; `Trees.fault` says whether they are trees."""
    nodes, feature = (whole_numbers(f"{learner}.{name}", arrays[name]) for name in ("nodes", "feature"))
    is_leaf = np.unpackbits(arrays["is_leaf"])[: max(0, int(nodes.sum()))].astype(bool)
    return Trees(nodes, is_leaf, feature.astype(np.int32), arrays["threshold"])


def small(numbers: np.ndarray) -> np.ndarray:
    """The same whole numbers in the fewest bytes.

    >>> small(np.array([7, 40_000])).dtype
    dtype('int32')
    """
    top = int(numbers.max(initial=0))
    return numbers.astype(next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if top <= np.iinfo(kind).max))


def whole_numbers(name: str, array: np.ndarray) -> np.ndarray:
    """What `small` made, int64."""
    if array.ndim != 1 or array.dtype.kind != "i":
        raise ValueError(f"{name} is not a list of integers")
    return array.astype(np.int64)


def _round_down(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 numbers that are not above: float32 features then compare as with the float64 threshold.

    >>> bool(_round_down(np.array([0.1]))[0] <= 0.1)
    True
    """
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
