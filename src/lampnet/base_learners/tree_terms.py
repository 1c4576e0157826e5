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
    def of(cls, trees: Trees, X: Any, values_NK: Any, sizes_N: np.ndarray) -> SplitMeans:
        """Of the rows X (n, F) in trees whose N leaves have these values, dense or CSC, and hold so many rows."""
        paths = trees.paths(trees.leaves(X))
        n, n_features, K = X.shape[0], X.shape[1], values_NK.shape[1]
        pairs, pair_of_P = np.unique(paths.row * np.int64(n_features) + paths.feature, return_inverse=True)
        value_EK, roots_K = np.zeros((len(pairs), K)), np.zeros(K)
        # Ways share nodes, so the first and last leaves below nodes are few.
        below = np.concatenate([paths.lower, paths.upper, paths.roots], axis=1)
        is_end = np.zeros(len(sizes_N) + 1, dtype=bool)
        is_end[below] = True
        ends = np.flatnonzero(is_end)
        first, last = (np.cumsum(is_end) - 1)[below]
        sizes = np.concatenate([[0], np.cumsum(sizes_N)])[ends]
        rows_below, P = sizes[last] - sizes[first], len(pair_of_P)
        for k in range(K):
            sums = _sums_before(ends, values_NK, k, sizes_N)
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


def _sums_before(ends: np.ndarray, values_NK: Any, k: int, sizes_N: np.ndarray) -> np.ndarray:
    """The values of one column, each times its leaf's rows, added up over the leaves before each of these."""
    if not sparse.issparse(values_NK):
        whole = np.cumsum(values_NK[:, k].astype(np.float64) * sizes_N)
        return np.asarray(np.concatenate([[0.0], whole])[ends])
    column = slice(values_NK.indptr[k], values_NK.indptr[k + 1])
    leaves, values = values_NK.indices[column], values_NK.data[column].astype(np.float64)
    return np.concatenate([[0.0], np.cumsum(values * sizes_N[leaves])])[np.searchsorted(leaves, ends)]
