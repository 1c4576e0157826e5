"""Linear one-vs-rest classifiers, their loss and C chosen on a held-out fold."""

from __future__ import annotations

import numpy as np

from lampnet.base_learners.newton import Matrix, fit_linear
from lampnet.base_learners.protocol import FOLDS, Features
from lampnet.data.splits import fold_numbers, parts_of

# What a linear learner may be: its loss and its strength C; the best on a held-out fold is taken.
LINEAR_CHOICES = (
    ("hinge", 0.1),
    ("hinge", 0.3),
    ("hinge", 1.0),
    ("logistic", 0.1),
    ("logistic", 1.0),
    ("logistic", 10.0),
)


CHOICE_LABELS = 128


MAX_ABS_LOGIT = 12.0  # logits of linear opinions stay within this


class LinearLearner:
    """One-vs-rest linear classifiers: a support vector machine or logistic regression, whichever ranks
    the labels of a held-out fold better."""

    def __init__(self) -> None:
        self.weights = np.zeros((0, 0), dtype=np.float32)
        self.intercepts = np.zeros(0, dtype=np.float32)
        self.loss, self.strength = LINEAR_CHOICES[0]

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        if fold_n is None:
            fold_n = fold_numbers(len(Y_nL), FOLDS, seed)
        inside, outside = np.flatnonzero(fold_n != 0), np.flatnonzero(fold_n == 0)
        self.loss, self.strength = _best_linear(X, Y_nL, inside, outside, seed)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.strength, loss=self.loss)
        logits = np.empty(Y_nL.shape, dtype=np.float32)
        whole = (self.weights, self.intercepts)
        for rest, own in parts_of(fold_n):
            # From the whole data's solution few steps remain: each solves the rest's problem anew, so that
            # nothing of the fold's own labels is left.
            W, b = fit_linear(Matrix(X[rest]), Y_nL[rest], self.strength, whole, newton_steps=6, loss=self.loss)
            logits[own] = _bounded(X[own] @ W + b)
        return logits

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        start = (self.weights, self.intercepts)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.strength, start, loss=self.loss)

    def logits(self, X: Features) -> np.ndarray:
        return _bounded(X @ self.weights + self.intercepts)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "intercepts": self.intercepts}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights, self.intercepts = arrays["weights"], arrays["intercepts"]


def _best_linear(
    X: Features, Y_nL: np.ndarray, inside: np.ndarray, outside: np.ndarray, seed: int
) -> tuple[str, float]:
    """The loss and strength that rank held-out labels best, judged on a sample of the labels where there are many."""
    labels = np.random.default_rng(seed).permutation(Y_nL.shape[1])[:CHOICE_LABELS]
    held_in, Y = Matrix(X[inside]), Y_nL[:, labels]
    scores: list[float] = []
    start, before = None, ""
    for loss, strength in LINEAR_CHOICES:  # each starts from the last of its loss: the solutions lie on one path
        start = fit_linear(held_in, Y[inside], strength, start if loss == before else None, newton_steps=8, loss=loss)
        before = loss
        scores.append(_average_precision(X[outside] @ start[0] + start[1], Y[outside]))
    return LINEAR_CHOICES[int(np.argmax(scores))]


def _average_precision(scores: np.ndarray, Y: np.ndarray) -> float:
    """Of all known (row, label) pairs ranked together."""
    known = ~np.isnan(Y)
    order = np.argsort(-scores[known], kind="stable")
    hits = Y[known][order] > 0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()) if hits.any() else 0.0


def _bounded(logits: np.ndarray) -> np.ndarray:
    """A label without positives has no finite intercept; how far its fit went must not matter."""
    return np.clip(np.asarray(logits, dtype=np.float32), -MAX_ABS_LOGIT, MAX_ABS_LOGIT)
