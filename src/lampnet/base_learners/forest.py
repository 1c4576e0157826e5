"""A forest's learner: the labels of the training rows that fall into the same leaves.

Trees are grown on a few random mixtures of the labels, so a thousand labels cost no more than thirty. A leaf
remembers which training rows it holds, and says what share of them has each label: memory goes by rows and
trees, not by leaves times labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.splits import parts_of

Features = Any  # CSR or dense (n, F)
TREES = 200
FEWER_TREES = 100  # for more rows than
MANY_ROWS = 5_000
MIXTURES = 32
ROWS_A_LEAF = 3
FEATURES_A_SPLIT = 100
MOST_FEATURES = 4_000  # trees look at the features that vary most
_BLOCK = 1024


class ForestLearner:
    """Random multi-label trees; training rows are judged by the trees that did not draw them.

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

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        if fold_n is None:
            self.refit(X, Y_nL, seed)
            return self._logits(self._seen(X), self.nodes["leaf"] < 0)
        self._grow(X, Y_nL, seed, _groves(fold_n))
        drawn_nt = self.nodes["leaf"] >= 0
        met_ft = np.stack([drawn_nt[own].any(axis=0) for _, own in parts_of(fold_n)])
        return self._logits(self._seen(X), ~met_ft[fold_n])

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        self._grow(X, Y_nL, seed, [np.arange(len(Y_nL))])

    def _grow(self, X: Features, Y_nL: np.ndarray, seed: int, groves: list[np.ndarray]) -> None:
        """Trees, as many in each grove, which draw from its rows only."""
        from sklearn.ensemble import ExtraTreesRegressor  # heavy: only where a forest is asked for

        known = ~np.isnan(Y_nL)
        prior = (np.nan_to_num(Y_nL).sum(0) + 0.5) / (known.sum(0) + 1.0)
        # An unknown label counts as its prior, so that it neither raises nor lowers a leaf's say.
        Y = np.where(known, Y_nL, prior).astype(np.float32)
        columns = _varying_most(X)
        X = _dense(X, columns)
        targets = _mixtures(Y, prior, seed)
        targets = targets if targets.shape[1] > 1 else targets[:, 0]
        trees, drawn = [], []
        for number, rows in enumerate(groves):
            forest = ExtraTreesRegressor(
                -(-(TREES if len(Y) <= MANY_ROWS else FEWER_TREES) // len(groves)),
                min_samples_leaf=ROWS_A_LEAF,
                max_features=_features_a_split(X.shape[1]),
                bootstrap=True,
                n_jobs=1,  # scikit-learn's threads can wipe the whole process's warning filters
                random_state=seed + number,
            )
            forest.fit(X[rows], targets[rows])
            trees += [tree.tree_ for tree in forest.estimators_]
            drawn += [rows[own] for own in forest.estimators_samples_]
        drawn_nt = np.zeros((len(X), len(trees)), dtype=bool)
        for tree, rows in enumerate(drawn):
            drawn_nt[rows, tree] = True
        self.nodes = {
            "offsets": np.cumsum([0] + [tree.node_count for tree in trees]).astype(np.int64),
            "left": np.concatenate([tree.children_left for tree in trees]).astype(np.int32),
            "right": np.concatenate([tree.children_right for tree in trees]).astype(np.int32),
            "feature": np.concatenate([tree.feature for tree in trees]).astype(np.int32),
            "threshold": np.concatenate([tree.threshold for tree in trees]).astype(np.float32),
            "columns": columns,
            "prior": prior.astype(np.float32),
        }
        # Where each training row fell in each tree that drew it, as the walk of `_leaves` finds it.
        self.nodes["leaf"] = np.where(drawn_nt, self._leaves(X), -1).astype(np.int32)
        self.Y, self._shares = sparse.csr_matrix(Y), None

    def logits(self, X: Features) -> np.ndarray:
        X = self._seen(X)
        return self._logits(X, np.ones((len(X), len(self.nodes["offsets"]) - 1), dtype=bool))

    def _seen(self, X: Features) -> np.ndarray:
        return _dense(X, self.nodes["columns"])

    def _logits(self, X: np.ndarray, counted_nt: np.ndarray) -> np.ndarray:
        """Rows are judged by the trees that count for them."""
        shares, prior = self._leaf_shares(), self.nodes["prior"]
        logits = np.empty((len(X), len(prior)), dtype=np.float32)
        for first in range(0, len(X), _BLOCK):
            counted = counted_nt[first : first + _BLOCK]
            row, tree = np.nonzero(counted)
            leaf = self._leaves(X[first : first + _BLOCK])[row, tree] + self.nodes["offsets"][tree]
            ones = np.ones(len(row), dtype=np.float32)
            picked = sparse.csr_matrix((ones, (row, leaf)), shape=(len(counted), shares.shape[0]))
            total = np.asarray((picked @ shares).todense())
            # One vote for the prior keeps the logits finite.
            share = np.clip((total + prior) / (counted.sum(axis=1, keepdims=True) + 1.0), 1e-4, 1 - 1e-4)
            logits[first : first + _BLOCK] = np.log(share / (1 - share))
        return logits

    def _leaf_shares(self) -> Any:
        """(all nodes, L): which share of a leaf's rows has each label."""
        if self._shares is None:
            row, tree = np.nonzero(self.nodes["leaf"] >= 0)
            node = self.nodes["leaf"][row, tree] + self.nodes["offsets"][tree]
            held = np.bincount(node, minlength=int(self.nodes["offsets"][-1]))
            weight = (1.0 / held[node]).astype(np.float32)
            members = sparse.csr_matrix((weight, (node, row)), shape=(len(held), self.Y.shape[0]))
            self._shares = sparse.csr_matrix(members @ self.Y)
        return self._shares

    def _leaves(self, X: np.ndarray) -> np.ndarray:
        """(n, trees): the leaf each row falls into, counted within its tree; all trees are walked at once."""
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
        Y = self.Y
        stored = {"Y.data": Y.data, "Y.indices": Y.indices.astype(np.int32), "Y.indptr": Y.indptr.astype(np.int64)}
        return self.nodes | stored

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.nodes = {name: array for name, array in arrays.items() if not name.startswith("Y.")}
        parts = tuple(arrays[f"Y.{part}"] for part in ("data", "indices", "indptr"))
        shape = (len(parts[2]) - 1, len(self.nodes["prior"]))
        self.Y, self._shares = sparse.csr_matrix(parts, shape=shape), None
        self.Y.check_format(full_check=True)


def _groves(fold_n: np.ndarray) -> list[np.ndarray]:
    """Rows to draw from, as many sets as there are folds: each lacks three of eight folds, in turn.

    >>> [rows.tolist() for rows in _groves(np.array([0, 1, 2]))]
    [[1, 2], [0, 2], [0, 1]]
    """
    folds = int(fold_n.max()) + 1
    absent = max(1, 3 * folds // 8)
    return [np.flatnonzero((fold_n - number) % folds >= absent) for number in range(folds)]


def _features_a_split(n_features: int) -> int:
    """A fifth of the features, at most a hundred, and never fewer than the usual square root.

    >>> _features_a_split(72), _features_a_split(2_000), _features_a_split(40_000)
    (15, 100, 200)
    """
    return max(int(n_features**0.5), min(-(-n_features // 5), FEATURES_A_SPLIT), 1)


def _mixtures(Y_nL: np.ndarray, prior: np.ndarray, seed: int) -> np.ndarray:
    """What the trees try to tell apart: the labels, rare ones raised, or random mixtures of many."""
    weighed = (Y_nL - prior) / np.sqrt(prior * (1 - prior) + 1e-3)
    if Y_nL.shape[1] <= MIXTURES:
        return np.asarray(weighed)
    mix = np.random.default_rng(seed).normal(size=(Y_nL.shape[1], MIXTURES)) / np.sqrt(MIXTURES)
    return np.asarray(weighed @ mix)


def _varying_most(X: Features) -> np.ndarray:
    """Numbers of the features that trees are shown, int64, ascending: all of them, unless there are too many.

    >>> _varying_most(sparse.csr_matrix(np.eye(3))).tolist()
    [0, 1, 2]
    """
    n, n_features = X.shape
    if n_features <= MOST_FEATURES:
        return np.arange(n_features)
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    variance = np.asarray(squares.sum(axis=0)).ravel() / n - (np.asarray(X.sum(axis=0)).ravel() / n) ** 2
    return np.asarray(np.sort(np.argsort(-variance, kind="stable")[:MOST_FEATURES]))


def _dense(X: Features, columns: np.ndarray) -> np.ndarray:
    if len(columns) < X.shape[1]:
        X = X[:, columns]
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float32)
