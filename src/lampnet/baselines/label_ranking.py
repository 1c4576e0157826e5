"""Calibrated label ranking (Fürnkranz et al. 2008), and its quick form QWML (Loza Mencía et al. 2010).

One classifier for every pair of labels, learned from the rows that have exactly one of the two, votes for either. A
virtual label, "neither", stands between the relevant and the others: label against virtual label is the label's own
one-vs-rest classifier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from lampnet.baselines.linear import fit_one_label
from lampnet.baselines.tuned_linear import TunedLinear
from lampnet.errors import DataError

#: with more pairs than this, neither time nor memory suffice
MOST_PAIRS = 50_000
_BLOCK = 256


class CalibratedLabelRanking(TunedLinear):
    """`predict` gives the labels with more votes than the virtual label.

    `predict_proba` is a label's share of its own and the virtual label's votes: 0.5 where they are level.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 0], [1, 0]] * 5)
    >>> CalibratedLabelRanking(C=1.0).fit(X, Y).predict(np.array([[-1.5], [1.5]])).astype(int).tolist()
    [[0, 1], [1, 0]]
    """

    def _learn(self, X: Any, Y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, int]:
        """Weights (F, P) and intercepts (P,) of the pairs, and L; the last L pairs are with the virtual label."""
        from sklearn.linear_model import LogisticRegression

        n_labels = Y.shape[1]
        pairs = label_pairs(n_labels)
        if len(pairs) > MOST_PAIRS:
            raise DataError(
                f"{n_labels} labels make {len(pairs):,} pairs, and label ranking learns a classifier for each; "
                "use another method"
            )
        estimator = LogisticRegression(C=C, solver="liblinear", random_state=self.seed)
        weights, intercepts = np.zeros((X.shape[1], len(pairs))), np.zeros(len(pairs))
        for index, (one, other) in enumerate(pairs):
            if other == n_labels:
                weights[:, index], intercepts[index] = fit_one_label(X, Y[:, one], estimator)
                continue
            rows = np.flatnonzero((Y[:, one] == 1) & (Y[:, other] == 0) | (Y[:, one] == 0) & (Y[:, other] == 1))
            if len(rows):
                weights[:, index], intercepts[index] = fit_one_label(X[rows], Y[rows, one], estimator)
        return weights, intercepts, n_labels

    def _votes(self, learned: tuple[np.ndarray, np.ndarray, int], X: Any) -> np.ndarray:
        """float (n, L + 1): how often each label, and at the end the virtual one, is preferred."""
        weights, intercepts, n_labels = learned
        one, other = label_pairs(n_labels).T
        first, second = np.eye(n_labels + 1)[one], np.eye(n_labels + 1)[other]
        votes = np.zeros((X.shape[0], n_labels + 1))
        for start in range(0, X.shape[0], _BLOCK):
            part = slice(start, start + _BLOCK)
            preferred = expit(np.asarray(X[part] @ weights) + intercepts)
            votes[part] = preferred @ first + (1 - preferred) @ second
        return votes

    def _predict(self, learned: tuple[np.ndarray, np.ndarray, int], X: Any) -> np.ndarray:
        votes = self._votes(learned, X)
        return np.asarray(votes[:, :-1] / np.maximum(votes[:, :-1] + votes[:, -1:], 1e-12))

    def predict(self, X: Any) -> np.ndarray:
        """Label sets, bool (n, L)."""
        votes = self._votes(self.learned_, self.scaling_(X))
        return np.asarray(votes[:, :-1] > votes[:, -1:])

    def quick_sets(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """QWML: the same sets, bool (n, L), and how many of the pairs each row had to ask, int (n,)."""
        weights, intercepts, n_labels = self.learned_
        pairs = label_pairs(n_labels)
        number = np.zeros((n_labels + 1, n_labels + 1), dtype=np.int64)
        number[pairs[:, 0], pairs[:, 1]] = number[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
        X = self.scaling_(X)
        sets, asked = np.zeros((X.shape[0], n_labels), dtype=bool), np.zeros(X.shape[0], dtype=np.int64)
        for row in range(X.shape[0]):
            x = X[row : row + 1]

            def preferred(one: int, other: int, x: Any = x) -> float:
                pair = number[one, other]
                chance = float(expit((np.asarray(x @ weights[:, pair]) + intercepts[pair]).item()))
                return chance if pairs[pair, 0] == one else 1 - chance

            relevant, asked[row] = quick_weighted_voting(n_labels + 1, n_labels, preferred)
            sets[row, relevant] = True
        return sets, asked


def label_pairs(n_labels: int) -> np.ndarray:
    """int (P, 2): all pairs of labels, then each label with the virtual one, whose number is L.

    >>> label_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]
    """
    real = np.stack(np.triu_indices(n_labels, k=1), axis=1)
    virtual = np.stack([np.arange(n_labels), np.full(n_labels, n_labels)], axis=1)
    return np.concatenate([real, virtual])


def quick_weighted_voting(count: int, virtual: int, preferred: Any) -> tuple[list[int], int]:
    """The candidates with more votes than the virtual one, best first, asking only pairs that can matter.

    preferred  (a, b) -> the share of the vote that goes to a, from 0 to 1

    The candidate that has lost least so far plays next; one that lost least after all its games is the best of those
    left, because losses only grow.
    """
    lost, played = np.zeros(count), np.eye(count, dtype=bool)
    left = np.ones(count, dtype=bool)
    relevant: list[int] = []
    games = 0
    while True:
        order = np.flatnonzero(left)
        best = int(order[np.argmin(lost[order])])
        open_games = np.flatnonzero(~played[best])
        if not len(open_games):
            # On level votes the virtual label comes first, as with `>` on all votes.
            if best == virtual or (played[virtual].all() and lost[virtual] <= lost[best]):
                return relevant, games
            if lost[virtual] <= lost[best]:
                best = virtual
                open_games = np.flatnonzero(~played[best])
            else:
                relevant.append(best)
                left[best] = False
                continue
        rival = int(open_games[np.argmin(lost[open_games])])
        share = preferred(best, rival)
        lost[best] += 1 - share
        lost[rival] += share
        played[best, rival] = played[rival, best] = True
        games += 1
