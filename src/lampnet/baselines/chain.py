"""Classifier chains (Read et al. 2009): each label's classifier has the earlier labels as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from lampnet.baselines.linear import OneVsRestLogistic, fit_one_label
from lampnet.baselines.rows import label_shares
from lampnet.baselines.tuned_linear import TunedLinear


class ClassifierChain(OneVsRestLogistic):
    """Logistic regressions in a chain, labels from frequent to rare.

    While predicting, a label counts as present from probability 0.5. Unknown earlier labels enter as the share of rows
    that have them.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 0], [0, 0], [1, 1], [1, 1]] * 5)
    >>> (ClassifierChain(C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])) > 0.5).astype(int).tolist()
    [[0, 0], [1, 1]]
    """

    def _order(self, shares: np.ndarray) -> np.ndarray:
        """The chain, from the share of rows that have each label."""
        return np.argsort(-shares, kind="stable")

    def _fit_labels(self, X: Any, Y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (F + L, L): the last L rows belong to the labels, in the order of the chain."""
        n_features, n_labels = X.shape[1], Y.shape[1]
        shares = label_shares(Y)
        self.order_ = self._order(shares)
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


class _RandomChain(ClassifierChain):
    def _order(self, shares: np.ndarray) -> np.ndarray:
        return np.random.default_rng(self.seed).permutation(len(shares))


class ChainEnsemble(TunedLinear):
    """Ensemble of classifier chains, ECC: random orders, each chain learned from two thirds of the rows, averaged.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 0], [0, 0], [1, 1], [1, 1]] * 5)
    >>> (ChainEnsemble(C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])) > 0.5).astype(int).tolist()
    [[0, 0], [1, 1]]
    """

    def __init__(self, C: float | None = None, chains: int = 10, seed: int = 0) -> None:
        super().__init__(C, seed)
        self.chains = chains

    def _learn(self, X: Any, Y: np.ndarray, C: float) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Order (L,), weights (F + L, L) and intercepts (L,) of each chain."""
        learned = []
        for number in range(self.chains):
            chain = _RandomChain(C, seed=self.seed + number)
            n = len(Y)
            rows = np.random.default_rng(chain.seed).permutation(n)[: max(1, round(n * 2 / 3))]
            weights, intercepts = chain._fit_labels(X[rows], Y[rows], C)
            learned.append((chain.order_, weights, intercepts))
        return learned

    def _predict(self, learned: list[tuple[np.ndarray, np.ndarray, np.ndarray]], X: Any) -> np.ndarray:
        chain, parts = ClassifierChain(), []
        for chain.order_, weights, intercepts in learned:
            parts.append(expit(chain._scores(X, weights, intercepts)))
        return np.asarray(np.mean(parts, axis=0))
