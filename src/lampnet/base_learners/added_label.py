"""A label from a few examples: a linear model of the input that may start from the label's name.

Where the features are words, the features of the label's name say where its rows are to be found: the weights start
from them and are pulled towards them, unless the examples speak against the name. How hard weights are pulled is chosen
on the examples, out-of-fold. The other labels' logits take no part: they mislead more often than they help
(benchmarks/other_labels_logits.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lampnet.base_learners.newton import Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import Features
from lampnet.data.splits import parts_of
from lampnet.data.stratify import stratified_folds

#: the penalty's C, for rows of mean square length 1; the middle one where there are too few examples to choose by
CHOICES = (1.0, 10.0, 100.0)
#: the logit that a text of length 1 gains where it means what the name means
NAME_LOGIT = 8.0
FOLDS, FEWEST_OF_EACH = 5, 3
STEPS = Stopping(20, 20, 1e-3)


@dataclass(frozen=True)
class AddedColumn:
    """Weights (F,), an intercept, and whether the weights started from the label's name."""

    weights_F: np.ndarray
    intercept: float
    from_name: bool


def fit_added_label(X: Features, y_n: np.ndarray, seed: int, name_F: np.ndarray | None = None) -> AddedColumn:
    """One more column of weights, from examples y (n,) of 1 and 0.

    name_F  the features (F,) of the label's name, less the mean of the other labels' names; None where a name has none

    >>> X = np.eye(4, dtype=np.float32)
    >>> column = fit_added_label(X, np.array([1.0, 0, 0, 0]), seed=0, name_F=np.array([0.0, 0, 0, 1]))
    >>> bool(column.weights_F[0] > 0), bool(column.weights_F[3] > column.weights_F[1]), column.from_name
    (True, True, True)
    """
    y = y_n.astype(np.float32)
    own = None if name_F is None or not name_F.any() else (NAME_LOGIT * name_F).astype(np.float32)
    starts = [None] if own is None else [None, own]
    C, start = CHOICES[len(CHOICES) // 2], starts[-1]
    if min(int(y.sum()), int((1 - y).sum())) >= FEWEST_OF_EACH:
        fold_n = stratified_folds(np.column_stack([y, 1 - y]), min(FOLDS, int(y.sum()), len(y)), seed)
        losses = [[_held_out_losses(X, y, fold_n, C, start) for C in CHOICES] for start in starts]
        best = [int(np.argmin([loss.sum() for loss in of_start])) for of_start in losses]
        chosen = len(starts) - 1
        if chosen:
            worse = losses[1][best[1]] - losses[0][best[0]]
            chosen = int(worse.mean() <= worse.std() / np.sqrt(len(y)))
        C, start = CHOICES[best[chosen]], starts[chosen]
    weights, intercept = _column(X, y, C, start)
    return AddedColumn(weights, intercept, start is not None)


def _held_out_losses(X: Features, y: np.ndarray, fold_n: np.ndarray, C: float, start: np.ndarray | None) -> np.ndarray:
    """The logistic loss of each example (n,), by the weights of the other folds."""
    losses = np.zeros(len(y))
    for rest, own in parts_of(fold_n):
        weights, intercept = _column(X[rest], y[rest], C, start)
        z = np.asarray(X[own] @ weights, dtype=np.float64).ravel() + intercept
        losses[own] = np.logaddexp(0, z) - y[own] * z
    return losses


def _column(X: Features, y: np.ndarray, C: float, start: np.ndarray | None) -> tuple[np.ndarray, float]:
    squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
    scaled = C / max(float(squares.sum()) / len(y), 1e-6)
    begin = None if start is None else (start[:, None], np.zeros(1, dtype=np.float32))
    centre = None if start is None else (start[:, None], None)
    W, b = fit_linear(Matrix(X), y[:, None], scaled, "logistic", begin, STEPS, centre=centre)
    return W[:, 0], float(b[0])
