"""What each feature adds to a sum over trees: the attribution of treeinterpreter (Saabas).

A node's value is the mean of the leaves below it, each counted by its rows. On a row's way down a tree, each split
changes that value; the change is added to the feature that it splits on. Roots and changes add up to the leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.feature_terms import FeatureTerms, through
from lampnet.base_learners.trees import Trees


class LeafSums:
    """The values of N leaves, each times its rows, added up over the leaves before.

    values_NL  dense or sparse
    sizes_N    how many rows each leaf holds

    Of sparse values the sums are worked out once: whoever tags rows asks for a few labels of every row at once.

    >>> sums = LeafSums(sparse.csr_matrix([[1.0], [0.0], [0.5]]), np.array([2, 1, 4]))
    >>> sums.before(np.array([0, 1, 2, 3]), 0).tolist()
    [0.0, 2.0, 2.0, 4.0]
    """

    def __init__(self, values_NL: Any, sizes_N: np.ndarray) -> None:
        self.sizes_N, self._dense, self._sums = sizes_N, values_NL, None
        self.rows_before = np.concatenate([[0], np.cumsum(sizes_N)])
        if sparse.issparse(values_NL):
            self._sums = sparse.csc_matrix(values_NL, dtype=np.float64)
            self._sums.sort_indices()
            self._sums.data *= sizes_N[self._sums.indices]
            for column in map(slice, self._sums.indptr[:-1], self._sums.indptr[1:]):
                np.cumsum(self._sums.data[column], out=self._sums.data[column])

    def before(self, ends: np.ndarray, label: int) -> np.ndarray:
        """The sum of one label over the leaves before each of these, float64."""
        if self._sums is None:
            whole = np.cumsum(self._dense[:, label].astype(np.float64) * self.sizes_N)
            return np.asarray(np.concatenate([[0.0], whole])[ends])
        column = slice(self._sums.indptr[label], self._sums.indptr[label + 1])
        leaves, sums = self._sums.indices[column], self._sums.data[column]
        number = np.searchsorted(leaves, ends.astype(leaves.dtype)) - 1
        return np.where(number < 0, 0.0, sums[number]) if len(sums) else np.zeros(len(ends))


@dataclass(frozen=True)
class SplitMeans:
    """The changes on the ways of n rows, added up per row and feature.

    roots_K   the trees' roots, added up
    n         how many rows
    row_E     int, the row of each (row, feature) pair, ascending
    column_E  int, its feature, as the trees number them
    value_EK  what it changes
    """

    roots_K: np.ndarray
    n: int
    row_E: np.ndarray
    column_E: np.ndarray
    value_EK: np.ndarray

    @classmethod
    def of(cls, trees: Trees, X: Any, leaves: LeafSums, labels_K: np.ndarray) -> SplitMeans:
        """Of the rows X (n, F) in trees with these leaves."""
        paths = trees.paths(trees.leaves(X))
        n, n_features, K = X.shape[0], X.shape[1], len(labels_K)
        pairs, pair_of_P = np.unique(paths.row * np.int64(n_features) + paths.feature, return_inverse=True)
        value_EK, roots_K = np.zeros((len(pairs), K)), np.zeros(K)
        # Ways share nodes, so the first and last leaves below nodes are few.
        below = np.concatenate([paths.lower, paths.upper, paths.roots], axis=1)
        is_end = np.zeros(len(leaves.rows_before), dtype=bool)
        is_end[below] = True
        ends = np.flatnonzero(is_end)
        first, last = (np.cumsum(is_end) - 1)[below]
        sizes = leaves.rows_before[ends]
        rows_below, P = sizes[last] - sizes[first], len(pair_of_P)
        for k, label in enumerate(labels_K):
            sums = leaves.before(ends, label)
            means = (sums[last] - sums[first]) / rows_below
            value_EK[:, k] = np.bincount(pair_of_P, means[:P] - means[P : 2 * P], len(pairs))
            roots_K[k] = means[2 * P :].sum()
        return cls(roots_K, n, pairs // n_features, pairs % n_features, value_EK)

    def terms(
        self, start_K: np.ndarray, scale: float, columns: np.ndarray, link: Callable[[np.ndarray], np.ndarray]
    ) -> FeatureTerms:
        """The terms of link(start + scale * changes), `columns` being the features that the trees see."""
        values_EK = self.value_EK * scale
        end_nK = np.tile(start_K, (self.n, 1))
        np.add.at(end_nK, self.row_E, values_EK)
        slope_nK = through(link, np.broadcast_to(start_K, end_nK.shape), end_nK)
        offsets = np.searchsorted(self.row_E, np.arange(self.n + 1))
        start_nK = np.broadcast_to(link(start_K), end_nK.shape)
        return FeatureTerms(start_nK, offsets, columns[self.column_E], values_EK * slope_nK[self.row_E])
