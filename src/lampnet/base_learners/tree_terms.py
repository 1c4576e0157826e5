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
        """Of the rows X (n, F) in trees whose N leaves have these values, dense or sparse, and hold so many rows."""
        paths = trees.paths(trees.leaves(X))
        n, n_features, K = X.shape[0], X.shape[1], values_NK.shape[1]
        pairs, pair_of_P = np.unique(paths.row * np.int64(n_features) + paths.feature, return_inverse=True)
        value_EK, roots_K = np.zeros((len(pairs), K)), np.zeros(K)
        sizes = np.concatenate([[0], np.cumsum(sizes_N)])
        for k in range(K):
            column = values_NK[:, k].toarray().ravel() if sparse.issparse(values_NK) else values_NK[:, k]
            sums = np.concatenate([[0.0], np.cumsum(column.astype(np.float64) * sizes_N)])

            def mean(leaves: np.ndarray, sums: np.ndarray = sums) -> np.ndarray:
                return np.asarray((sums[leaves[1]] - sums[leaves[0]]) / (sizes[leaves[1]] - sizes[leaves[0]]))

            value_EK[:, k] = np.bincount(pair_of_P, mean(paths.lower) - mean(paths.upper), len(pairs))
            roots_K[k] = mean(paths.roots).sum()
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
