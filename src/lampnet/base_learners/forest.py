"""A random forest over all labels at once, with out-of-bag logits for the training rows.

Trees are grown on a few random projections of the labels, so a thousand labels cost no more than thirty. A leaf
stores which training rows it holds and predicts their label shares: memory grows with rows x trees, not with
leaves x labels. That is why scikit-learn grows the trees but does not predict with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.base_learners.protocol import QUIET, Features, FitContext, OnProgress, no_progress, part_of
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import parts_of

TREES = 200
MANY_ROWS = 5_000
TREES_FOR_MANY_ROWS = 100
LABEL_PROJECTIONS = 32
MIN_ROWS_PER_LEAF = 3
FEATURES_PER_SPLIT = 100
MAX_FEATURES = 4_000  # trees see the features of the highest variance
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
        self.nodes: dict[str, np.ndarray] = {}
        self.Y: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self._shares: Any = None

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
    ) -> np.ndarray:
        growing, predicting = part_of(context.progress, 0.0, 0.9), part_of(context.progress, 0.9, 1.0)
        if fold_n is None:
            self.refit(X, Y_nL, seed, growing)
            return self._logits(_dense(X, self.nodes["columns"]), self.nodes["leaf"] < 0, predicting)
        self._grow(X, Y_nL, seed, _row_subsets(fold_n), growing)
        in_bag_nt = self.nodes["leaf"] >= 0
        fold_seen_ft = np.stack([in_bag_nt[own].any(axis=0) for _, own in parts_of(fold_n)])
        return self._logits(_dense(X, self.nodes["columns"]), ~fold_seen_ft[fold_n], predicting)

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int, progress: OnProgress = no_progress) -> None:
        self._grow(X, Y_nL, seed, [np.arange(len(Y_nL))], progress)

    def _grow(self, X: Features, Y_nL: np.ndarray, seed: int, subsets: list[np.ndarray], progress: OnProgress) -> None:
        """Grow equally many trees on bootstrap samples of each subset of the rows."""
        from sklearn.tree import ExtraTreeRegressor  # heavy: imported only to train a forest

        prior = label_priors(Y_nL, np.float64)
        # An unknown label counts as its prior, so it moves a leaf's share neither up nor down.
        Y = np.where(np.isnan(Y_nL), prior, Y_nL).astype(np.float32)
        columns = _highest_variance(X)
        X = _dense(X, columns)
        targets = _projected(Y, prior, seed)
        trees, samples = [], []
        n_trees = -(-(TREES if len(Y) <= MANY_ROWS else TREES_FOR_MANY_ROWS) // len(subsets)) * len(subsets)
        for number in range(n_trees):
            progress(number / n_trees, f"growing tree {number + 1} of {n_trees}")
            random, rows = np.random.default_rng([seed, number]), subsets[number % len(subsets)]
            times = np.bincount(random.integers(len(rows), size=len(rows)), minlength=len(rows))
            samples.append(rows[times > 0])
            tree = ExtraTreeRegressor(
                min_samples_leaf=MIN_ROWS_PER_LEAF,
                max_features=_features_per_split(X.shape[1]),
                random_state=int(random.integers(2**31)),
            )
            own = samples[-1]
            trees.append(tree.fit(X[own], targets[own], times[times > 0].astype(np.float64)).tree_)
        in_bag_nt = np.zeros((len(X), len(trees)), dtype=bool)
        for tree, rows in enumerate(samples):
            in_bag_nt[rows, tree] = True
        self.nodes = {
            "offsets": np.cumsum([0] + [tree.node_count for tree in trees]).astype(np.int64),
            "left": np.concatenate([tree.children_left for tree in trees]).astype(np.int32),
            "right": np.concatenate([tree.children_right for tree in trees]).astype(np.int32),
            "feature": np.concatenate([tree.feature for tree in trees]).astype(np.int32),
            "threshold": np.concatenate([tree.threshold for tree in trees]).astype(np.float32),
            "columns": columns,
            "prior": prior.astype(np.float32),
        }
        # The leaf of each training row in each tree that sampled it, -1 elsewhere; found with our rounded thresholds.
        self.nodes["leaf"] = np.where(in_bag_nt, self._leaves(X), -1).astype(np.int32)
        self.Y, self._shares = sparse.csr_matrix(Y), None

    def logits(self, X: Features) -> np.ndarray:
        X = _dense(X, self.nodes["columns"])
        return self._logits(X, np.ones((len(X), len(self.nodes["offsets"]) - 1), dtype=bool))

    def _logits(self, X: np.ndarray, use_nt: np.ndarray, progress: OnProgress = no_progress) -> np.ndarray:
        """Each row is predicted by the trees that `use_nt` selects for it."""
        shares, prior = self._leaf_shares(), self.nodes["prior"]
        logits = np.empty((len(X), len(prior)), dtype=np.float32)
        for first in range(0, len(X), _BLOCK):
            progress(first / len(X), "predicting out-of-bag")
            use = use_nt[first : first + _BLOCK]
            row, tree = np.nonzero(use)
            leaf = self._leaves(X[first : first + _BLOCK])[row, tree] + self.nodes["offsets"][tree]
            ones = np.ones(len(row), dtype=np.float32)
            picked = sparse.csr_matrix((ones, (row, leaf)), shape=(len(use), shares.shape[0]))
            total = np.asarray((picked @ shares).todense())
            # One vote for the prior keeps the logits finite.
            share = np.clip((total + prior) / (use.sum(axis=1, keepdims=True) + 1.0), 1e-4, 1 - 1e-4)
            logits[first : first + _BLOCK] = logit(share)
        return logits

    def _leaf_shares(self) -> Any:
        """(all nodes, L): the share of a leaf's rows that has each label."""
        if self._shares is None:
            row, tree = np.nonzero(self.nodes["leaf"] >= 0)
            node = self.nodes["leaf"][row, tree] + self.nodes["offsets"][tree]
            count = np.bincount(node, minlength=int(self.nodes["offsets"][-1]))
            weight = (1.0 / count[node]).astype(np.float32)
            members = sparse.csr_matrix((weight, (node, row)), shape=(len(count), self.Y.shape[0]))
            self._shares = sparse.csr_matrix(members @ self.Y)
        return self._shares

    def _leaves(self, X: np.ndarray) -> np.ndarray:
        """(n, trees): the index of each row's leaf within its tree; all trees are walked at once."""
        offsets = self.nodes["offsets"][:-1]
        at = np.zeros((len(X), len(offsets)), dtype=np.int64)
        row, tree = (index.ravel() for index in np.indices(at.shape))
        while len(row):
            node = at[row, tree] + offsets[tree]
            inner = self.nodes["left"][node] >= 0
            row, tree, node = row[inner], tree[inner], node[inner]
            lower = X[row, self.nodes["feature"][node]] <= self.nodes["threshold"][node]
            at[row, tree] = np.where(lower, self.nodes["left"][node], self.nodes["right"][node])
        return at

    def arrays(self) -> dict[str, np.ndarray]:
        indices, indptr = self.Y.indices.astype(np.int32), self.Y.indptr.astype(np.int64)
        return self.nodes | {"Y.data": self.Y.data, "Y.indices": indices, "Y.indptr": indptr}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.nodes = {name: array for name, array in arrays.items() if not name.startswith("Y.")}
        parts = tuple(arrays[f"Y.{part}"] for part in ("data", "indices", "indptr"))
        shape = (len(parts[2]) - 1, len(self.nodes["prior"]))
        self.Y, self._shares = sparse.csr_matrix(parts, shape=shape), None
        self.Y.check_format(full_check=True)


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


def _projected(Y_nL: np.ndarray, prior: np.ndarray, seed: int) -> np.ndarray:
    """The trees' targets: the labels, scaled to similar variance, or random projections of many."""
    standardised = (Y_nL - prior) / np.sqrt(prior * (1 - prior) + 1e-3)
    if Y_nL.shape[1] <= LABEL_PROJECTIONS:
        return np.asarray(standardised)
    projection = np.random.default_rng(seed).normal(size=(Y_nL.shape[1], LABEL_PROJECTIONS))
    return np.asarray(standardised @ (projection / np.sqrt(LABEL_PROJECTIONS)))


def _highest_variance(X: Features) -> np.ndarray:
    """Indices of the features that trees see, int64, ascending: all of them, unless there are too many.

    >>> _highest_variance(sparse.csr_matrix(np.eye(3))).tolist()
    [0, 1, 2]
    """
    n, n_features = X.shape
    if n_features <= MAX_FEATURES:
        return np.arange(n_features)
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    variance = np.asarray(squares.sum(axis=0)).ravel() / n - (np.asarray(X.sum(axis=0)).ravel() / n) ** 2
    return np.asarray(np.sort(np.argsort(-variance, kind="stable")[:MAX_FEATURES]))


def _dense(X: Features, columns: np.ndarray) -> np.ndarray:
    if len(columns) < X.shape[1]:
        X = X[:, columns]
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float32)
