"""Linear one-vs-rest classifiers; loss and C are chosen on a held-out fold."""

from __future__ import annotations

import numpy as np

from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import FOLDS, Features
from lampnet.data.splits import fold_numbers, parts_of

#: (loss, C) to choose from
CHOICES: tuple[tuple[Loss, float], ...] = (
    ("squared_hinge", 0.1),
    ("squared_hinge", 0.3),
    ("squared_hinge", 1.0),
    ("logistic", 0.1),
    ("logistic", 1.0),
    ("logistic", 10.0),
)
CHOICE_LABELS = 128  # a choice is scored on at most this many labels
MAX_ABS_LOGIT = 12.0


class LinearLearner:
    """One-vs-rest linear SVMs or logistic regressions, whichever ranks the labels of a held-out fold better."""

    def __init__(self) -> None:
        self.weights = np.zeros((0, 0), dtype=np.float32)
        self.intercepts = np.zeros(0, dtype=np.float32)
        self.loss, self.C = CHOICES[0]

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        if fold_n is None:
            fold_n = fold_numbers(len(Y_nL), FOLDS, seed)
        self.loss, self.C = _best_choice(X, Y_nL, fold_n == 0, seed)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.C, self.loss)
        logits = np.empty(Y_nL.shape, dtype=np.float32)
        start = (self.weights, self.intercepts)
        for rest, own in parts_of(fold_n):
            # The solution of all rows is near, so few steps suffice; each solves the problem of the other folds
            # afresh, so nothing of the fold's own labels remains.
            W, b = fit_linear(Matrix(X[rest]), Y_nL[rest], self.C, self.loss, start, Stopping(newton_steps=6))
            logits[own] = _bounded(X[own] @ W + b)
        return logits

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        start = (self.weights, self.intercepts)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.C, self.loss, start)

    def logits(self, X: Features) -> np.ndarray:
        return _bounded(X @ self.weights + self.intercepts)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "intercepts": self.intercepts}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights, self.intercepts = arrays["weights"], arrays["intercepts"]


def _best_choice(X: Features, Y_nL: np.ndarray, held_out_n: np.ndarray, seed: int) -> tuple[Loss, float]:
    """The loss and C with the best average precision on the held-out rows, for a sample of the labels."""
    labels = np.random.default_rng(seed).permutation(Y_nL.shape[1])[:CHOICE_LABELS]
    Y = Y_nL[:, labels]
    X_fit, Y_fit, X_held_out, Y_held_out = Matrix(X[~held_out_n]), Y[~held_out_n], X[held_out_n], Y[held_out_n]
    scores: list[float] = []
    start, previous = None, ""
    for loss, C in CHOICES:  # warm start: the solutions of one loss lie on a path
        start = fit_linear(X_fit, Y_fit, C, loss, start if loss == previous else None, Stopping(newton_steps=8))
        previous = loss
        scores.append(_average_precision(X_held_out @ start[0] + start[1], Y_held_out))
    return CHOICES[int(np.argmax(scores))]


def _average_precision(scores: np.ndarray, Y: np.ndarray) -> float:
    """Of all known (row, label) pairs ranked together."""
    known = ~np.isnan(Y)
    order = np.argsort(-scores[known], kind="stable")
    hits = Y[known][order] > 0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()) if hits.any() else 0.0


def _bounded(logits: np.ndarray) -> np.ndarray:
    """A label without positives has no finite intercept; how far the solver got must not matter."""
    return np.clip(np.asarray(logits, dtype=np.float32), -MAX_ABS_LOGIT, MAX_ABS_LOGIT)
