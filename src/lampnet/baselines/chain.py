"""Classifier chains (Read et al. 2009): each label's classifier has the earlier labels as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from lampnet.baselines.linear import OneVsRestLogistic, fit_one_label
from lampnet.baselines.rows import label_shares
from lampnet.baselines.tuned_linear import TunedLinear
from lampnet.data.known_labels import TRUE, UNKNOWN, States


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


class KnownLabelChain:
    """A classifier chain on the stack's logits with the known labels clamped.

    Each label's logistic regression has its own stack logit and the earlier labels as features, labels from frequent to
    rare. While predicting, an earlier label is what is known of it; one that is unknown counts as present from
    probability 0.5. What is known of later labels says nothing about earlier ones.

    >>> Y = np.array([[1, 1], [1, 1], [0, 0], [0, 0], [1, 0]] * 8, dtype=np.float32)
    >>> chain = KnownLabelChain().fit(np.zeros(Y.shape), Y)
    >>> said = chain.logits(np.zeros((2, 2)), np.array([[1, 0], [-1, 0]]))
    >>> bool(said[0, 1] > 0 > said[1, 1])
    True
    """

    def __init__(self, C: float = 1.0, seed: int = 0) -> None:
        self.C, self.seed = C, seed

    def fit(self, logits_nL: np.ndarray, Y_nL: np.ndarray) -> KnownLabelChain:
        """logits_nL  of the stack, out-of-fold; Y_nL  NaN where unknown, which enters as the share of rows with it."""
        shares = label_shares(Y_nL)
        n_labels = len(shares)
        self.order_ = np.argsort(-shares, kind="stable")
        earlier = sparse.csc_matrix(np.where(np.isnan(Y_nL), shares, Y_nL)[:, self.order_])
        self.slopes_, self.intercepts_ = np.zeros(n_labels), np.zeros(n_labels)
        self.weights_ = np.zeros((n_labels, n_labels))  # rows in the order of the chain
        chain = OneVsRestLogistic(seed=self.seed)
        for index, label in enumerate(self.order_):
            own = sparse.csc_matrix(logits_nL[:, [label]].astype(np.float64))
            seen = sparse.hstack([own, earlier[:, :index]], format="csr")
            learned, self.intercepts_[label] = fit_one_label(seen, Y_nL[:, label], chain._estimator(self.C))
            self.slopes_[label], self.weights_[:index, label] = learned[0], learned[1:]
        return self

    def logits(self, logits_nL: np.ndarray, states_nL: States) -> np.ndarray:
        """(n, L) given what is known; a known label gets a score too, which is not used."""
        scores = self.slopes_ * logits_nL + self.intercepts_
        for index, label in enumerate(self.order_):
            state = states_nL[:, label]
            present = np.where(state == UNKNOWN, scores[:, label] >= 0, state == TRUE)
            scores[present] += self.weights_[index]
        return np.asarray(scores)
