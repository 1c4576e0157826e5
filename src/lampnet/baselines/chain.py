"""Classifier chain (Read et al. 2009): labels from frequent to rare, each with the earlier ones as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.baselines.linear import OneVsRestLogistic, fit_one_label
from lampnet.baselines.rows import label_shares


class ClassifierChain(OneVsRestLogistic):
    """Logistic regressions in a chain; while predicting, a label counts as present from probability 0.5.

    Unknown earlier labels enter as the share of rows that have them.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 0], [0, 0], [1, 1], [1, 1]] * 5)
    >>> (ClassifierChain(C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])) > 0.5).astype(int).tolist()
    [[0, 0], [1, 1]]
    """

    def _fit_labels(self, X: Any, Y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (F + L, L): the last L rows belong to the labels, in the order of the chain."""
        n_features, n_labels = X.shape[1], Y.shape[1]
        shares = label_shares(Y)
        self.order_ = np.argsort(-shares, kind="stable")
        earlier = np.where(np.isnan(Y), shares, Y)[:, self.order_]
        wide = sparse.issparse(X)
        earlier = sparse.csc_matrix(earlier) if wide else earlier
        weights, intercepts = np.zeros((n_features + n_labels, n_labels)), np.zeros(n_labels)
        for index, label in enumerate(self.order_):
            before = earlier[:, :index]
            seen = sparse.hstack([X, before], format="csr") if wide else np.hstack([X, before])
            own, intercepts[label] = fit_one_label(seen, Y[:, label], self._estimator(C))
            weights[: n_features + index, label] = own
        return weights, intercepts

    def _scores(self, X: Any, weights: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
        n_features = X.shape[1]
        scores: np.ndarray = np.asarray(X @ weights[:n_features]) + intercepts
        for index, label in enumerate(self.order_):
            present = scores[:, label] >= 0
            if present.any():
                scores[present] += weights[n_features + index]
        return scores
