"""Many binary trees in a few arrays: compact on disk, walked all at once.

Nodes stand in preorder, so a node's left child follows it and only the kind of each node (inner or leaf) has to be
stored for the shape. A row goes left where its feature is at most the threshold.

Trees on sparse features are long chains of "this word does not occur": a row goes left dozens of times and turns right
once or twice.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

_BLOCK = 1 << 17  # (row, tree) pairs that are walked together
#: nodes of a chain that are looked at together: few for many rows, many for few
_LOOK_AT_LEAST, _LOOK_AT_MOST, _LOOK_TOGETHER = 4, 64, 1 << 11


class Trees:
    """Binary trees over the features of a row.

    nodes      int (T,) nodes of each tree
    is_leaf    bool (N,) of all nodes, tree by tree, in preorder
    feature    int (inner nodes,)
    threshold  float32 (inner nodes,)

    >>> trees = Trees(np.array([3]), np.array([False, True, True]), np.array([1]), np.array([0.5], dtype=np.float32))
    >>> trees.leaves(np.array([[9.0, 0.5], [9.0, 0.6]], dtype=np.float32)).tolist()
    [[0], [1]]
    """

    def __init__(self, nodes: np.ndarray, is_leaf: np.ndarray, feature: np.ndarray, threshold: np.ndarray) -> None:
        self.nodes, self.is_leaf, self.feature, self.threshold = nodes, is_leaf, feature, threshold

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def n_leaves(self) -> int:
        """Leaves of all trees together."""
        return int(self.is_leaf.sum())

    def fault(self, n_features: int) -> str:
        """Why these arrays are not trees over this many features; empty where they are."""
        sizes = self.nodes
        if not len(sizes) or (sizes < 1).any() or int(sizes.sum()) != len(self.is_leaf):
            return "the nodes of the trees do not add up"
        # Inner nodes open one branch more than they close, leaves close one: a tree ends with its last node.
        open_branches = np.cumsum(1 - 2 * self.is_leaf.astype(np.int64))
        ends = np.cumsum(sizes) - 1
        before = np.concatenate([[0], open_branches[ends[:-1]]])
        within = open_branches - np.repeat(before, sizes)
        ended = within < 0
        if not ended[ends].all() or int(ended.sum()) != len(sizes):
            return "a tree ends before or after its last node"
        if len(self.feature) != len(self.threshold) or len(self.feature) != len(self.is_leaf) - self.n_leaves:
            return "the inner nodes do not have one feature and one threshold each"
        if len(self.feature) and not (self.feature.min() >= 0 and self.feature.max() < n_features):
            return "a tree splits on a feature that does not exist"
        return ""

    def right_children(self) -> np.ndarray:
        """The right child of each node, among all nodes; a leaf's own number for a leaf. The left one is the next."""
        return self._walk.right

    @cached_property
    def _walk(self) -> _Walk:
        return _Walk(self)

    def leaves(self, X: Any) -> np.ndarray:
        """The leaf of each row in each tree, int32 (n, T), numbered over all trees; X is CSR or dense float32."""
        leaves = np.empty((X.shape[0], len(self)), dtype=np.int32)
        rows = max(1, _BLOCK // len(self))
        for first in range(0, len(leaves), rows):
            leaves[first : first + rows] = self._walk.leaves(X[first : first + rows])
        return leaves

    def paths(self, leaf_nT: np.ndarray) -> Paths:
        """The ways of rows from the roots to these leaves, numbered as `leaves` does."""
        return Paths.down_to(self._walk, leaf_nT)


class Paths:
    """Every edge on the ways of n rows down all trees.

    row        int (P,), whose way it is
    feature    int (P,), what the edge's upper node splits on
    lower      (2, P), the leaves below its lower node: first and last + 1; they stand side by side
    upper      (2, P), the leaves below its upper node
    roots      (2, T), the leaves of each tree
    """

    def __init__(
        self, row: np.ndarray, feature: np.ndarray, lower: np.ndarray, upper: np.ndarray, roots: np.ndarray
    ) -> None:
        self.row, self.feature, self.lower, self.upper, self.roots = row, feature, lower, upper, roots

    @classmethod
    def down_to(cls, walk: _Walk, leaf_nT: np.ndarray) -> Paths:
        n, n_trees = leaf_nT.shape
        at, row = walk.leaf_nodes[leaf_nT.ravel()], np.repeat(np.arange(n), n_trees)
        lower, upper, whose = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [row[:0]]
        while True:  # one level up at a time
            above = walk.parent[at]
            inside = above >= 0
            if not inside.any():
                break
            at, above, row = at[inside], above[inside], row[inside]
            lower.append(at)
            upper.append(above)
            whose.append(row)
            at = above
        lowers, uppers = np.concatenate(lower), np.concatenate(upper)
        below = walk.leaves_below
        return cls(
            np.concatenate(whose), walk.feature[uppers], below[:, lowers], below[:, uppers], below[:, walk.roots]
        )


class _Walk:
    """The arrays that a walk needs, worked out once.

    The left children of a node stand behind it, one after the other, up to a leaf: its chain. A row follows the chain
    until the first node at which it turns right, so several nodes of a chain are looked at together.
    """

    def __init__(self, trees: Trees) -> None:
        is_leaf, n = trees.is_leaf, len(trees.is_leaf)
        inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
        self.roots = np.cumsum(trees.nodes) - trees.nodes
        self.leaf_number = np.cumsum(is_leaf) - 1
        self.feature, self.threshold = np.zeros(n, dtype=np.intp), np.full(n, np.inf, dtype=np.float32)
        self.feature[inner], self.threshold[inner] = trees.feature, trees.threshold
        self.chain_end = leaves[np.searchsorted(leaves, np.arange(n))]
        # The right child stands behind the left subtree, which ends where one branch less is open.
        open_branches = np.cumsum(1 - 2 * is_leaf.astype(np.int64))
        order = np.argsort(open_branches, kind="stable")
        key = (open_branches - open_branches.min() + 1) * (n + 1) + np.arange(n)
        self.right = np.arange(n)  # a leaf's own
        self.right[inner] = order[np.searchsorted(key[order], key[inner] - (n + 1))] + 1
        self._inner, self.leaf_nodes, self._subtree_ends = inner, leaves, (key, order)
        self._index_root_chains(np.repeat(np.arange(len(trees)), trees.nodes))

    @cached_property
    def parent(self) -> np.ndarray:
        """The node above each node; -1 for roots."""
        parent = np.full(len(self.right), -1, dtype=np.int64)
        parent[self._inner + 1] = parent[self.right[self._inner]] = self._inner
        return parent

    @cached_property
    def leaves_below(self) -> np.ndarray:
        """(2, N): the first leaf below each node, and one more than the last; a leaf has itself."""
        n, inner, (key, order) = len(self.right), self._inner, self._subtree_ends
        end = np.arange(n)
        # A subtree ends where one branch less is open than before its node: two less than right behind it.
        end[inner] = order[np.searchsorted(key[order], key[inner] - 2 * (n + 1))]
        is_leaf = np.zeros(n, dtype=np.int64)
        is_leaf[self.leaf_nodes] = 1
        return np.stack([self.leaf_number + 1 - is_leaf, self.leaf_number[end] + 1])

    def _index_root_chains(self, tree: np.ndarray) -> None:
        """The nodes of the chains that start at the roots, by feature."""
        node = np.arange(len(tree))
        chained = np.flatnonzero(node < self.chain_end[self.roots][tree])
        chained = chained[np.argsort(self.feature[chained], kind="stable")]
        self.chain_node, self.chain_tree, self.chain_threshold = chained, tree[chained], self.threshold[chained]
        self.chain_starts = np.searchsorted(self.feature[chained], np.arange(int(self.feature.max(initial=0)) + 2))
        # An absent feature is zero: only where zero goes left everywhere may it be passed over.
        self.zero_goes_left = bool((self.chain_threshold >= 0).all())

    def leaves(self, X: Any) -> np.ndarray:
        """int (n, T)."""
        n, n_features = X.shape
        skips = sparse.issparse(X) and self.zero_goes_left
        at = self._after_root_chains(X) if skips else np.tile(self.roots, n)
        values = (X.toarray() if sparse.issparse(X) else X).ravel()
        moving = np.flatnonzero(self.chain_end[at] != at)
        row = moving // len(self.roots) * n_features
        while len(moving):
            start = at[moving]
            end = self.chain_end[start]
            look = min(_LOOK_AT_MOST, max(_LOOK_AT_LEAST, _LOOK_TOGETHER // len(moving)), int((end - start).max()))
            node = np.minimum(start[:, None] + np.arange(look), end[:, None])
            turns = values[row[:, None] + self.feature[node]] > self.threshold[node]
            first = turns.argmax(axis=1)
            turning = turns[np.arange(len(first)), first]
            start = np.where(turning, self.right[start + first], np.minimum(start + look, end))
            at[moving] = start
            still = self.chain_end[start] != start
            moving, row = moving[still], row[still]
        return np.asarray(self.leaf_number[at].reshape(n, -1))

    def _after_root_chains(self, X: sparse.csr_matrix) -> np.ndarray:
        """(n * T,) the node where each row stands after it has left the chain of each root.

        Of the words that the row has, the one that comes first in the chain says where it turns right.
        """
        n, n_trees = X.shape[0], len(self.roots)
        counts = np.diff(self.chain_starts)
        feature, value, row = X.indices, X.data, np.repeat(np.arange(n), np.diff(X.indptr))
        used = np.flatnonzero(feature < len(counts))
        feature, value, row = feature[used], value[used], row[used]
        begin, count = self.chain_starts[feature], counts[feature]
        entry = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        turns = np.repeat(value, count) > self.chain_threshold[entry]
        entry = entry[turns]
        pair = np.repeat(row * n_trees, count)[turns] + self.chain_tree[entry]
        end = np.tile(self.chain_end[self.roots], n)
        at = end.copy()
        np.minimum.at(at, pair, self.chain_node[entry])
        return np.asarray(np.where(at < end, self.right[at], end))
