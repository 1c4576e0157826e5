"""Calibration: logits -> logits whose probabilities match how often labels are true.

It is learned from out-of-fold logits: one rising, piecewise linear curve for all labels, then, where held-out rows say
that it helps, a slope and a shift per label that are pulled towards 1 and 0. All of it rises, so the rows keep their
order within each label. Where nothing is better on held-out rows than the logits as they are, they stay as they are.

>>> random = np.random.default_rng(0)
>>> logits = random.normal(0, 2, size=(400, 3))
>>> Y = random.random(logits.shape) < expit(logits / 3)  # three times too sure
>>> calibration, held_out = cross_fit_calibration(logits, Y.astype(float), np.arange(400) % 5)
>>> np.round(calibration.apply(np.array([[-3.0, 0.0, 3.0]])), 0).tolist()
[[-1.0, 0.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lampnet.data.splits import parts_of
from lampnet.data.weights import Weights, taken

#: where the curve may bend; beyond the outermost it goes on straight
KNOTS = np.array([-10.0, -6.0, -4.5, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 8.0])
#: how strongly the slopes of neighbouring pieces are pulled towards each other, each towards 1, and the shift towards 0
BEND_PULL, SLOPE_PULL, SHIFT_PULL = 30.0, 3.0, 1.0
LEAST_SLOPE = 0.05
#: how strongly a label's own slope is pulled towards 1 (its shift: a tenth of that towards 0); infinity: no own ones
PULLS = (np.inf, 100.0, 30.0, 10.0)
NEWTON_STEPS = 10
#: the curve is fitted to counts in this many cells of the logits
CELLS, CELL_RANGE = 2000, 20.0
#: (row, label) entries that the choice, and the slopes and shifts of the labels, are based on at most
CHOICE_ENTRIES, FIT_ENTRIES = 400_000, 10_000_000


@dataclass(frozen=True)
class Calibration:
    """A rising curve through (knots, values), then a slope and a shift per label, float64."""

    knots_K: np.ndarray
    values_K: np.ndarray
    slope_L: np.ndarray
    shift_L: np.ndarray

    def apply(self, logits_nL: np.ndarray) -> np.ndarray:
        """Calibrated logits (n, L), in the type of the logits."""
        return np.asarray(self.slope_L * self.curve(logits_nL) + self.shift_L, dtype=np.asarray(logits_nL).dtype)

    def moved(self, logits_K: np.ndarray, labels_K: np.ndarray) -> np.ndarray:
        """How far the logits (K,) of the labels `labels_K`, int (K,), are moved, float64 (K,)."""
        return np.asarray(self.slope_L[labels_K] * self.curve(logits_K) + self.shift_L[labels_K] - logits_K)

    def curve(self, logits: np.ndarray) -> np.ndarray:
        """What all labels share, float64 of the shape of the logits; straight beyond the outermost knots."""
        z, x, y = np.asarray(logits, dtype=np.float64), self.knots_K, self.values_K
        inner = np.interp(z, x, y)
        below = np.minimum(z - x[0], 0) * ((y[1] - y[0]) / (x[1] - x[0]))
        above = np.maximum(z - x[-1], 0) * ((y[-1] - y[-2]) / (x[-1] - x[-2]))
        return np.asarray(inner + below + above)


def cross_fit_calibration(
    logits_nL: np.ndarray, Y_nL: np.ndarray, fold_n: np.ndarray, weights: Weights | None = None
) -> tuple[Calibration | None, np.ndarray]:
    """A calibration for new rows, and these rows' logits, each calibrated without the rows of its own fold.

    None, and the logits as they are, where no calibration is clearly better on held-out rows.

    logits_nL  out-of-fold logits
    Y_nL       labels 1 and 0, NaN where unknown
    weights    what rows and labels count
    """
    pull = choose_pull(logits_nL, Y_nL, fold_n, weights)
    if pull is None:
        return None, logits_nL
    held_out = np.empty_like(logits_nL)
    for rest, own in parts_of(fold_n):
        fitted = fit_calibration(logits_nL[rest], Y_nL[rest], pull, taken(weights, rest))
        held_out[own] = fitted.apply(logits_nL[own])
    return fit_calibration(logits_nL, Y_nL, pull, weights), held_out


def choose_pull(
    logits_nL: np.ndarray, Y_nL: np.ndarray, fold_n: np.ndarray, weights: Weights | None = None
) -> float | None:
    """The pull towards the shared curve that is best on held-out rows; None to leave the logits as they are.

    What bends more must have a lower log-loss by more than a standard error over the rows.
    """
    rows = _sample(Y_nL, CHOICE_ENTRIES)
    logits, Y, fold_n, weights = logits_nL[rows], Y_nL[rows], fold_n[rows], taken(weights, rows)
    options: Sequence[float | None] = (None, *PULLS)
    losses = np.zeros((len(options), len(rows)))
    for rest, own in parts_of(fold_n):
        if not len(rest) or not len(own) or np.isnan(Y[rest]).all():
            return None
        of_own, of_rest = taken(weights, own), taken(weights, rest)
        losses[0, own] = _row_losses(logits[own], Y[own], of_own)
        curve = fit_calibration(logits[rest], Y[rest], weights=of_rest)
        for number, pull in enumerate(PULLS, start=1):
            fitted = curve if np.isinf(pull) else _with_labels(curve, logits[rest], Y[rest], pull, of_rest)
            losses[number, own] = _row_losses(fitted.apply(logits[own]), Y[own], of_own)
    best = 0
    for number in range(1, len(options)):
        gain = losses[best] - losses[number]
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            best = number
    return options[best]


def fit_calibration(
    logits_nL: np.ndarray, Y_nL: np.ndarray, pull: float = np.inf, weights: Weights | None = None
) -> Calibration:
    """The shared curve and, where the pull is finite, slopes and shifts of the labels."""
    L = Y_nL.shape[1]
    curve = Calibration(KNOTS, _fit_curve(logits_nL, Y_nL, weights), np.ones(L), np.zeros(L))
    return curve if np.isinf(pull) else _with_labels(curve, logits_nL, Y_nL, pull, weights)


def _fit_curve(logits_nL: np.ndarray, Y_nL: np.ndarray, weights: Weights | None) -> np.ndarray:
    """The curve's values at `KNOTS`: a logistic regression on the lengths of its pieces, whose slopes are positive."""
    known = ~np.isnan(Y_nL)
    z, y = np.asarray(logits_nL[known], dtype=np.float64), Y_nL[known]
    cell = np.clip((z + CELL_RANGE) * (CELLS / (2 * CELL_RANGE)), 0, CELLS - 1).astype(np.int64)
    own = np.ones(len(z)) if weights is None else (weights.row_n[:, None] * weights.entry_L)[known]
    count = np.bincount(cell, own, CELLS)
    some = np.flatnonzero(count)
    count, mean, true = count[some], np.bincount(cell, own * z)[some] / count[some], np.bincount(cell, own * y)[some]
    low, high = np.append(-np.inf, KNOTS[1:-1]), np.append(KNOTS[1:-1], np.inf)
    pieces = np.clip(mean[:, None], low, high) - np.clip(0.0, low, high)  # lengths from 0; they add up to the logit
    inputs = np.column_stack([pieces, np.ones(len(mean))])

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        q, bends, slopes = inputs @ w, np.diff(w[:-1]), w[:-1] - 1
        pulled = BEND_PULL * (bends @ bends) + SLOPE_PULL * (slopes @ slopes) + SHIFT_PULL * w[-1] ** 2
        gradient = inputs.T @ (count * expit(q) - true)
        gradient[:-1] += BEND_PULL * (np.append(0.0, bends) - np.append(bends, 0.0)) + SLOPE_PULL * slopes
        gradient[-1] += SHIFT_PULL * w[-1]
        return float((count * np.logaddexp(0, q) - true * q).sum() + 0.5 * pulled), gradient

    start = np.append(np.ones(pieces.shape[1]), 0.0)
    bounds = [(LEAST_SLOPE, None)] * pieces.shape[1] + [(None, None)]
    from scipy.optimize import minimize  # slow to import, and prediction needs none of it

    slopes = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    at_knots = np.clip(KNOTS[:, None], low, high) - np.clip(0.0, low, high)
    return np.asarray(at_knots @ slopes[:-1] + slopes[-1])


def _with_labels(
    curve: Calibration, logits_nL: np.ndarray, Y_nL: np.ndarray, pull: float, weights: Weights | None
) -> Calibration:
    """A slope and a shift for each label: a logistic regression of two numbers, pulled towards 1 and 0."""
    rows = _sample(Y_nL, FIT_ENTRIES)
    Y = Y_nL[rows]
    z, known, y = curve.curve(logits_nL[rows]), ~np.isnan(Y), np.nan_to_num(Y)
    if weights is not None:  # labels are fitted apart, so only the rows' weights count
        known = weights.take(rows).by_row(known)
    L, strength = Y.shape[1], np.array([pull, pull / 10])
    theta = np.zeros((L, 2))  # away from 1 and 0
    for _ in range(NEWTON_STEPS):
        p = expit((1 + theta[:, 0]) * z + theta[:, 1])
        slope, curvature = (p - y) * known, p * (1 - p) * known
        gradient = np.stack([(slope * z).sum(axis=0), slope.sum(axis=0)], axis=1) + strength * theta
        H = np.empty((L, 2, 2))
        H[:, 0, 0], H[:, 1, 1] = (curvature * z * z).sum(axis=0) + strength[0], curvature.sum(axis=0) + strength[1]
        H[:, 0, 1] = H[:, 1, 0] = (curvature * z).sum(axis=0)
        step = np.linalg.solve(H, gradient[..., None])[..., 0]
        theta -= np.clip(step, -1, 1)  # far from the solution a whole step may go too far
        if np.abs(step).max() < 1e-4:
            break
    return Calibration(curve.knots_K, curve.values_K, np.maximum(1 + theta[:, 0], LEAST_SLOPE), theta[:, 1])


def _row_losses(logits: np.ndarray, Y: np.ndarray, weights: Weights | None) -> np.ndarray:
    """The log-loss of each row, over its known labels, (n,)."""
    losses = np.logaddexp(0, logits) - Y * logits
    if weights is not None:
        losses = losses * (weights.row_n[:, None] * weights.entry_L)
    return np.asarray(np.nansum(losses, axis=1, dtype=np.float64))


def _sample(Y_nL: np.ndarray, entries: int) -> np.ndarray:
    """All rows, or evenly spread ones where they have more entries than are looked at."""
    n, L = Y_nL.shape
    count = min(n, max(200, entries // max(1, L)))
    return np.arange(n) if count == n else np.unique(np.linspace(0, n - 1, count).astype(np.int64))
