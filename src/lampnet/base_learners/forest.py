"""A random forest over all labels at once, with out-of-bag logits for the training rows.

Each tree is grown on half of the rows and on a few random projections of the labels of its own, so a thousand labels
cost no more than sixteen. A leaf stores which training rows it holds and predicts their label shares: memory grows
with rows x trees, not with leaves x labels. That is why scikit-learn grows the trees but does not predict with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.base_learners.grown_trees import (
    GrownTree,
    drawn,
    grow,
    highest_variance,
    joined,
    no_trees,
    restored_trees,
    seen,
    small,
    stored_trees,
    whole_numbers,
)
from lampnet.base_learners.protocol import QUIET, Features, FitContext, OnProgress, no_progress, part_of
from lampnet.base_learners.row_sums import row_sums
from lampnet.base_learners.tree_terms import LeafSums, SplitMeans
from lampnet.data.label_priors import any_share, label_priors, mixed_priors
from lampnet.data.splits import parts_of
from lampnet.data.weights import Weights, rows_of
from lampnet.runtime.side_by_side import Pulse, side_by_side

TREES = 200
MANY_ROWS = 5_000
TREES_FOR_MANY_ROWS = 100
FEWEST_TREES = 24  # grown whatever the time budget; they say how long a tree takes
MIN_ROWS_PER_LEAF = 3
FEATURES_PER_SPLIT = 100
_BLOCK = 1024


class ForestLearner:
    """Extremely randomised multi-label trees; a training row's logits come from trees that never saw it.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 20, dtype=np.float32)
    >>> Y = np.array([[0.0], [1.0]] * 20, dtype=np.float32)
    >>> forest = ForestLearner()
    >>> forest.fit(X, Y, seed=0).shape
    (40, 1)
    >>> bool(forest.logits(X)[1, 0] > forest.logits(X)[0, 0])
    True
    """

    def __init__(self) -> None:
        #: the features that trees see, and the label priors
        self.columns, self.prior = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        self._forget()
        self.Y: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self._shares: Any = None
        self._sums: LeafSums | None = None

    def _forget(self) -> None:
        """No tree; the rows of each leaf stand one leaf after the other."""
        self.trees = no_trees()
        self.leaf_sizes, self.members = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        growing, predicting = part_of(context.progress, 0.0, 0.9), part_of(context.progress, 0.9, 1.0)
        everything = np.arange(len(Y_nL))
        leaf_nT, in_bag_nT = self._grow(
            X,
            Y_nL,
            seed,
            [everything] if fold_n is None else _row_subsets(fold_n),
            replace(context, progress=growing),
            weights,
        )
        if fold_n is None:
            return self._logits(leaf_nT, ~in_bag_nT, predicting)
        fold_seen_fT = np.stack([in_bag_nT[own].any(axis=0) for _, own in parts_of(fold_n)])
        return self._logits(leaf_nT, ~fold_seen_fT[fold_n], predicting)

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        old, n, known = self.Y.shape[0], len(Y_nL), len(self.prior)
        new_prior = label_priors(Y_nL, np.float64, rows_of(weights))
        self.prior = mixed_priors(self.prior, old, Y_nL, rows_of(weights))
        Y = np.where(np.isnan(Y_nL), self.prior, Y_nL).astype(np.float32)
        targets = (Y - new_prior) / np.sqrt(new_prior * (1 - new_prior) + 1e-3)
        if weights is not None:
            targets *= np.sqrt(weights.label_L)
        subsets, shown = _row_subsets(fold_n), seen(X, self.columns)
        # Another seed than that of the trees before; a row has as many trees as before, so all rows count the same.
        grower = _Grower(shown, targets, seed + len(self.trees), subsets, rows_of(weights))
        most = TREES if n <= MANY_ROWS else TREES_FOR_MANY_ROWS
        wanted = min(most, max(FEWEST_TREES, round(len(self.trees) * n / max(1, old))))
        grown = side_by_side(grower.tree, range(-(-wanted // len(subsets)) * len(subsets)), lambda share: None)
        before, first_leaf = self.trees.leaves(shown), self.trees.n_leaves
        leaf_nT = np.hstack([before, self._add(grown, first_leaf, old)])
        # The rows before say nothing of labels that are new.
        unknown = sparse.csr_matrix(np.tile(self.prior[known:], (old, 1)))
        self.Y = sparse.csr_matrix(sparse.vstack([sparse.hstack([self.Y, unknown]), sparse.csr_matrix(Y)]))
        self._shares = None
        in_bag_nT = np.zeros((n, len(grown)), dtype=bool)
        for number, tree in enumerate(grown):
            in_bag_nT[tree.rows, number] = True
        fold_seen_fT = np.stack([in_bag_nT[own].any(axis=0) for _, own in parts_of(fold_n)])
        use_nT = np.hstack([np.ones(before.shape, dtype=bool), ~fold_seen_fT[fold_n]])
        return self._logits(leaf_nT, use_nT)

    def add_silent_label(self, prior: float) -> None:
        """One more label, of which the trees say nothing."""
        self.prior, self._shares = np.append(self.prior, np.float32(prior)), None
        self.Y = sparse.csr_matrix(sparse.hstack([self.Y, sparse.csr_matrix((self.Y.shape[0], 1), dtype=np.float32)]))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels that are true where any of some labels before is."""
        self.prior, self._shares = any_share(self.prior, groups), None
        dense = self.Y.toarray()
        self.Y = sparse.csr_matrix(np.column_stack([dense[:, list(group)].max(axis=1) for group in groups]))

    def _add(self, grown: list[GrownTree], first_leaf: int, first_row: int) -> np.ndarray:
        """Put trees behind those that are there; return every row's leaves in them, (n, T)."""
        self.trees = joined(self.trees, grown)
        before = first_leaf + np.cumsum([0, *(tree.is_leaf.sum() for tree in grown)])[:-1]
        leaf_nT = np.stack([tree.leaf_n for tree in grown], axis=1) + before.astype(np.int32)
        row = np.concatenate([tree.rows for tree in grown])
        tree_of = np.repeat(np.arange(len(grown)), [len(tree.rows) for tree in grown])
        leaf = leaf_nT[row, tree_of]
        sizes = np.bincount(leaf - first_leaf, minlength=self.trees.n_leaves - first_leaf)
        self.leaf_sizes = np.concatenate([self.leaf_sizes, sizes])
        self.members = np.concatenate([self.members, first_row + row[np.argsort(leaf, kind="stable")]])
        return leaf_nT

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        self._grow(X, Y_nL, seed, [np.arange(len(Y_nL))], FitContext(progress=progress), weights)

    def _grow(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        subsets: list[np.ndarray],
        context: FitContext,
        weights: Weights | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grow equally many trees on rows of each subset; return every row's leaves (n, T), and who was in the bag."""
        prior = label_priors(Y_nL, np.float64, rows_of(weights))
        # An unknown label counts as its prior, so it moves a leaf's share neither up nor down.
        Y = np.where(np.isnan(Y_nL), prior, Y_nL).astype(np.float32)
        self.columns, self.prior = highest_variance(X), prior.astype(np.float32)
        targets = (Y - prior) / np.sqrt(prior * (1 - prior) + 1e-3)
        if weights is not None:  # a split counts squares
            targets *= np.sqrt(weights.label_L)
        grower = _Grower(seen(X, self.columns), targets, seed, subsets, rows_of(weights))
        wanted = TREES if len(Y) <= MANY_ROWS else TREES_FOR_MANY_ROWS
        few, n_trees = (-(-count // len(subsets)) * len(subsets) for count in (min(FEWEST_TREES, wanted), wanted))
        progress, began = context.progress, context.clock()
        grown = side_by_side(
            grower.tree, range(few), lambda share: progress(share * few / n_trees, f"growing {n_trees} trees")
        )
        if context.budget_seconds is not None and few < n_trees:
            seconds = (context.clock() - began) / few
            affordable = int(context.budget_seconds / max(seconds, 1e-9)) // len(subsets) * len(subsets)
            if affordable < n_trees:
                n_trees = max(few, affordable)
                context.log(f"forest: {n_trees} trees instead of {wanted}, to keep the time budget")
        grown += side_by_side(
            grower.tree,
            range(few, n_trees),
            lambda share: progress((few + share * (n_trees - few)) / n_trees, f"growing {n_trees} trees"),
        )
        self._forget()
        leaf_nT = self._add(grown, 0, 0)
        in_bag_nT = np.zeros(leaf_nT.shape, dtype=bool)
        for number, tree in enumerate(grown):
            in_bag_nT[tree.rows, number] = True
        self.Y, self._shares = sparse.csr_matrix(Y), None
        return leaf_nT, in_bag_nT

    def logits(self, X: Features) -> np.ndarray:
        return self._logits(self.trees.leaves(seen(X, self.columns)), None)

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        """What each split on a row's ways changes about the label's share is added to the feature it splits on.

        A sum starts from the mean share of the trees' rows.
        """
        n_trees, prior = len(self.trees), self.prior[labels_K].astype(np.float64)
        means = SplitMeans.of(self.trees, seen(X[rows_n], self.columns), self._leaf_sums(), labels_K)
        start_K = (means.roots_K + prior) / (n_trees + 1.0)
        return means.terms(start_K, 1 / (n_trees + 1.0), self.columns, _bounded_logit)

    def _logits(self, leaf_nT: np.ndarray, use_nT: np.ndarray | None, progress: OnProgress = no_progress) -> np.ndarray:
        """Each row is predicted by the trees that `use_nT` selects for it, None for all."""
        shares, n = self.leaf_shares(), len(leaf_nT)
        logits = np.empty((n, len(self.prior)), dtype=np.float32)
        for first in range(0, n, _BLOCK):
            progress(first / n, "predicting out-of-bag")
            leaf = leaf_nT[first : first + _BLOCK]
            use = np.ones(leaf.shape, dtype=bool) if use_nT is None else use_nT[first : first + _BLOCK]
            counts = use.sum(axis=1)
            starts = np.concatenate([[0], np.cumsum(counts)])
            ones = np.ones(starts[-1], dtype=np.float32)
            total = row_sums(ones, leaf[use], starts, shares)
            # One vote for the prior keeps the logits finite.
            logits[first : first + _BLOCK] = _bounded_logit((total + self.prior) / (counts[:, None] + 1.0))
        return logits

    def leaf_shares(self) -> Any:
        """(leaves, L): the share of a leaf's rows that has each label; sparse where that is smaller."""
        if self._shares is None:
            weight = np.repeat(1.0 / self.leaf_sizes, self.leaf_sizes).astype(np.float32)
            starts = np.concatenate([[0], np.cumsum(self.leaf_sizes)])
            shape = (len(self.leaf_sizes), self.Y.shape[0])
            shares = sparse.csr_matrix((weight, self.members, starts), shape=shape) @ self.Y
            self._sums = None
            self._shares = shares.toarray() if shares.nnz > 0.3 * shares.shape[0] * shares.shape[1] else shares
        return self._shares

    def _leaf_sums(self) -> LeafSums:
        shares = self.leaf_shares()
        if self._sums is None:
            self._sums = LeafSums(shares, self.leaf_sizes)
        return self._sums

    def arrays(self) -> dict[str, np.ndarray]:
        binary = bool((self.Y.data == 1).all())
        return {
            **stored_trees(self.trees),
            "columns": small(self.columns),
            "prior": self.prior,
            "leaf_sizes": small(self.leaf_sizes),
            "members": small(self.members),
            "Y.indices": small(self.Y.indices),
            "Y.sizes": small(np.diff(self.Y.indptr)),
            "Y.data": np.ones(0, dtype=np.float32) if binary else self.Y.data,
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        wide = {name: whole_numbers(f"forest.{name}", arrays[name]) for name in _INTEGERS}
        self.trees = restored_trees("forest", arrays)
        self.columns, self.prior = wide["columns"], arrays["prior"]
        self.leaf_sizes, self.members = wide["leaf_sizes"], wide["members"]
        data, sizes = arrays["Y.data"], wide["Y.sizes"]
        data = data if len(data) else np.ones(len(wide["Y.indices"]), dtype=np.float32)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self.Y, self._shares = sparse.csr_matrix((data, wide["Y.indices"], starts), (len(sizes), len(self.prior))), None
        self.Y.check_format(full_check=True)


def _bounded_logit(share: np.ndarray) -> np.ndarray:
    return np.asarray(logit(np.clip(share, 1e-4, 1 - 1e-4)))


_INTEGERS = ("columns", "leaf_sizes", "members", "Y.indices", "Y.sizes")


class _Grower:
    """Grows tree after tree, each from a seed of its own, in any order and on any number of threads.

    X           (n, F) float32, CSR or dense
    targets_nL  the labels, scaled to similar variance
    subsets     rows that the trees are grown on, in turn
    row_n       the weight of each row: how often a tree has it, rounded up or down at random
    """

    def __init__(
        self, X: Any, targets_nL: np.ndarray, seed: int, subsets: list[np.ndarray], row_n: np.ndarray | None = None
    ) -> None:
        from sklearn.tree import ExtraTreeRegressor  # heavy: imported only to train a forest

        self.new_tree = ExtraTreeRegressor
        self.X, self.targets_nL, self.seed, self.subsets, self.row_n = X, targets_nL, seed, subsets, row_n

    def tree(self, number: int, pulse: Pulse) -> GrownTree:
        random, rows = np.random.default_rng([self.seed, number]), self.subsets[number % len(self.subsets)]
        rows = drawn(rows, (len(self.targets_nL) + 1) // 2, self.row_n, random)
        tree = self.new_tree(min_samples_leaf=MIN_ROWS_PER_LEAF, max_features=_features_per_split(self.X.shape[1]))
        return grow(tree, self.X, self.targets_nL[rows], rows, random)


def _row_subsets(fold_n: np.ndarray) -> list[np.ndarray]:
    """As many subsets of the rows as there are folds; each lacks three of eight folds, in turn.

    >>> [rows.tolist() for rows in _row_subsets(np.array([0, 1, 2]))]
    [[1, 2], [0, 2], [0, 1]]
    """
    folds = int(fold_n.max()) + 1
    absent = max(1, 3 * folds // 8)
    return [np.flatnonzero((fold_n - number) % folds >= absent) for number in range(folds)]


def _features_per_split(n_features: int) -> int:
    """A fifth of the features, at most a hundred, and never fewer than the usual square root.

    >>> _features_per_split(72), _features_per_split(2_000), _features_per_split(40_000)
    (15, 100, 200)
    """
    return max(int(n_features**0.5), min(-(-n_features // 5), FEATURES_PER_SPLIT), 1)
