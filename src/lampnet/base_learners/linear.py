"""Linear one-vs-rest classifiers; loss and C are chosen on a held-out fold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import FOLDS, QUIET, Features, FitContext, OnProgress, no_progress, part_of
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

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
    ) -> np.ndarray:
        if fold_n is None:
            fold_n = fold_numbers(len(Y_nL), FOLDS, seed)
        progress = context.progress
        self.loss, self.C = _best_choice(X, Y_nL, fold_n == 0, seed, part_of(progress, 0.0, 0.2))
        self.weights, self.intercepts = fit_linear(
            Matrix(X), Y_nL, self.C, self.loss, tick=_ticking(progress, 0.2, 0.3, "fitting on all rows")
        )
        logits = np.empty(Y_nL.shape, dtype=np.float32)
        start = (self.weights, self.intercepts)
        folds = parts_of(fold_n)
        for number, (rest, own) in enumerate(folds):
            # The solution of all rows is near, so few steps suffice; each solves the problem of the other folds
            # afresh, so nothing of the fold's own labels remains.
            begin, end = (0.3 + 0.7 * k / len(folds) for k in (number, number + 1))
            tick = _ticking(progress, begin, end, f"fold {number + 1} of {len(folds)}")
            W, b = fit_linear(Matrix(X[rest]), Y_nL[rest], self.C, self.loss, start, Stopping(newton_steps=6), tick)
            logits[own] = _bounded(X[own] @ W + b)
        return logits

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int, progress: OnProgress = no_progress) -> None:
        start = (self.weights, self.intercepts)
        tick = _ticking(progress, 0.0, 1.0, "fitting again")
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.C, self.loss, start, tick=tick)

    def logits(self, X: Features) -> np.ndarray:
        return _bounded(X @ self.weights + self.intercepts)

    def arrays(self) -> dict[str, np.ndarray]:
        choice = np.array([CHOICES.index((self.loss, self.C))], dtype=np.int64)
        return {"weights": self.weights, "intercepts": self.intercepts, "choice": choice}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights, self.intercepts = arrays["weights"], arrays["intercepts"]
        choice = arrays["choice"].item()
        if choice not in range(len(CHOICES)):
            raise ValueError("linear.choice names a loss and C that do not exist")
        self.loss, self.C = CHOICES[int(choice)]


def _best_choice(
    X: Features, Y_nL: np.ndarray, held_out_n: np.ndarray, seed: int, progress: OnProgress
) -> tuple[Loss, float]:
    """The loss and C with the best average precision on the held-out rows, for a sample of the labels."""
    labels = np.random.default_rng(seed).permutation(Y_nL.shape[1])[:CHOICE_LABELS]
    Y = Y_nL[:, labels]
    X_fit, Y_fit, X_held_out, Y_held_out = Matrix(X[~held_out_n]), Y[~held_out_n], X[held_out_n], Y[held_out_n]
    scores: list[float] = []
    start, previous = None, ""
    for number, (loss, C) in enumerate(CHOICES):  # warm start: the solutions of one loss lie on a path
        begin, end = number / len(CHOICES), (number + 1) / len(CHOICES)
        tick = _ticking(progress, begin, end, f"choosing loss and C, {number + 1} of {len(CHOICES)}")
        start = fit_linear(X_fit, Y_fit, C, loss, start if loss == previous else None, Stopping(newton_steps=8), tick)
        previous = loss
        scores.append(_average_precision(X_held_out @ start[0] + start[1], Y_held_out))
    return CHOICES[int(np.argmax(scores))]


def _ticking(progress: OnProgress, first: float, last: float, doing: str) -> Callable[[float], None]:
    """What the solver calls, for a part of the work."""
    part = part_of(progress, first, last)
    return lambda share: part(share, doing)


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
