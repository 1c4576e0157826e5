"""ML-kNN (Zhang & Zhou 2007): the probability of a label given how many of a row's neighbours have it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.baselines.rows import check_features, check_labels, held_out_tenth
from lampnet.baselines.tuning import mean_f1

_BLOCK = 512


class MLkNN:
    """Bayesian k-nearest neighbours for every label; `k=None` tunes it on validation rows.

    Neighbours by Euclidean distance. An unknown label of a neighbour counts as absent there.

    >>> X, Y = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]), np.array([[0], [0], [0], [1], [1], [1]])
    >>> MLkNN(k=2).fit(X, Y).predict_proba(np.array([[0.05], [5.05]])).round(2).tolist()
    [[0.2], [0.8]]
    """

    def __init__(self, k: int | None = None, smoothing: float = 1.0, seed: int = 0) -> None:
        self.k, self.smoothing, self.seed = k, smoothing, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> MLkNN:
        X, Y = check_features(X), check_labels(X, Y)
        if self.k is not None:
            return self._learn(X, Y, self.k)
        if X_valid is None or Y_valid is None:
            learn, tune = held_out_tenth(len(Y), self.seed)
            train_X, train_Y, valid_X, valid_Y = X[learn], Y[learn], X[tune], Y[tune]
        else:
            train_X, train_Y, valid_X, valid_Y = X, Y, check_features(X_valid), check_labels(X_valid, Y_valid)
        best = 10
        if np.isfinite(valid_Y).any():
            trial = MLkNN(smoothing=self.smoothing)
            own, near = nearest(train_X, train_X, 80, skip_self=True), nearest(valid_X, train_X, 80)
            scores = {}
            for k in (5, 10, 20, 40, 80):
                trial._learn(train_X, train_Y, k, own)
                scores[k] = mean_f1(valid_Y, trial._proba(near[:, :k]))
            best = max(scores, key=lambda k: scores[k])
        return self._learn(X, Y, best)

    def _learn(self, X: Any, Y: np.ndarray, k: int, near: np.ndarray | None = None) -> MLkNN:
        self.X_, self.k_, self.tuned_ = X, k, {"k": k}
        has, lacks, s = Y == 1, Y == 0, self.smoothing
        self.positive_ = has.astype(np.float32)
        votes = self._votes(nearest(X, X, k, skip_self=True) if near is None else near[:, :k])
        self.prior_ = (s + has.sum(axis=0)) / (2 * s + (~np.isnan(Y)).sum(axis=0))
        # (k + 1, L): how often c neighbours had the label, among rows that have it and rows that lack it.
        counts = np.arange(k + 1)
        with_label = np.stack([((votes == c) & has).sum(axis=0) for c in counts])
        without = np.stack([((votes == c) & lacks).sum(axis=0) for c in counts])
        self.given_present_ = (s + with_label) / (s * (k + 1) + with_label.sum(axis=0))
        self.given_absent_ = (s + without) / (s * (k + 1) + without.sum(axis=0))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._proba(nearest(check_features(X), self.X_, self.k_))

    def _votes(self, near: np.ndarray) -> np.ndarray:
        """How many of each row's neighbours have each label, int (n, L); near is (n, k), -1 for none."""
        row, _ = np.nonzero(near >= 0)
        links = sparse.csr_matrix(
            (np.ones(len(row), dtype=np.float32), (row, near[near >= 0])), shape=(len(near), len(self.positive_))
        )
        return np.asarray(links @ self.positive_).round().astype(np.int64)

    def _proba(self, near: np.ndarray) -> np.ndarray:
        votes = self._votes(near)
        present = self.prior_ * np.take_along_axis(self.given_present_, votes, axis=0)
        absent = (1 - self.prior_) * np.take_along_axis(self.given_absent_, votes, axis=0)
        return np.asarray(present / (present + absent))


def nearest(X: Any, base: Any, k: int, skip_self: bool = False) -> np.ndarray:
    """Indices of the k rows of `base` nearest to each row of X, nearest first, int (n, k); -1 where too few."""
    n, m = X.shape[0], base.shape[0]
    out = np.full((n, k), -1, dtype=np.int64)
    found = min(k, m - 1 if skip_self else m)
    if found < 1:
        return out
    norms = np.asarray(base.multiply(base).sum(axis=1)).ravel() if sparse.issparse(base) else (base**2).sum(axis=1)
    transposed = base.T.tocsc() if sparse.issparse(base) else base.T
    for start in range(0, n, _BLOCK):
        product = X[start : start + _BLOCK] @ transposed
        distance = norms - 2 * (product.toarray() if sparse.issparse(product) else np.asarray(product))
        if skip_self:
            rows = np.arange(len(distance))
            distance[rows, start + rows] = np.inf
        part = np.argpartition(distance, found - 1, axis=1)[:, :found]
        order = np.argsort(np.take_along_axis(distance, part, axis=1), axis=1, kind="stable")
        out[start : start + _BLOCK, :found] = np.take_along_axis(part, order, axis=1)
    return out
