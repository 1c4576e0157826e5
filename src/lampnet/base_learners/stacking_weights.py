"""Stacking weights: how much each base learner counts, for all labels alike or for each label.

A label's stacked logit is `sum_k a_ik g_ik + b_i`. The weights are a logistic regression on out-of-fold logits g
(n, L, K): first weights a_k shared by all labels with one bias per label, then, where held-out rows say that it
helps, weights per label that are pulled towards the shared ones. NaN in Y is an unknown label and does not count.
`Weights` say what rows and labels count; a label's own weights depend on the rows' only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit, logit

from lampnet.data.label_priors import label_priors
from lampnet.data.splits import parts_of
from lampnet.data.weights import Weights, rows_of, taken
from lampnet.runtime.side_by_side import Pulse, side_by_side

#: how strongly a label's own weights are pulled towards the shared ones; infinity keeps to the shared ones
PULLS = (np.inf, 100.0, 30.0, 10.0)
#: (row, label) entries that weights are fitted on, and that the pull is chosen on, at most
FIT_ENTRIES, CHOICE_ENTRIES = 30_000_000, 3_000_000
#: with more entries than this, the pull is chosen on this many of the folds instead of all
FEW_ENTRIES, CHOICE_FOLDS = 200_000, 2
NEWTON_STEPS = 12
TOLERANCE = 1e-4
#: keeps the bias of a label without positives finite, and the weights of tiny data near equal shares
BIAS_PULL, SHARED_PULL = 0.1, 1.0


@dataclass(frozen=True)
class StackingWeights:
    """What was learned: weights_LK and bias_L, float32."""

    weights_LK: np.ndarray
    bias_L: np.ndarray

    @classmethod
    def equal(cls, n_labels: int, n_learners: int) -> StackingWeights:
        """The same weight for every learner, before anything is learned."""
        return cls(np.full((n_labels, n_learners), 1 / n_learners, np.float32), np.zeros(n_labels, np.float32))

    def stacked(self, base_logits_nLK: np.ndarray) -> np.ndarray:
        """Stacked logits, float32 (n, L)."""
        stacked = base_logits_nLK[..., 0] * self.weights_LK[:, 0]
        for k in range(1, base_logits_nLK.shape[-1]):
            stacked += base_logits_nLK[..., k] * self.weights_LK[:, k]
        stacked += self.bias_L
        return np.asarray(stacked, dtype=np.float32)


@dataclass(frozen=True)
class CrossFittedWeights:
    """Weights for new rows, and weights by which the rows of each fold can be scored, because they never saw them.

    weights  fitted on all rows
    folds    fitted on all rows but those of each fold
    pull     the pull towards shared weights that was chosen
    """

    weights: StackingWeights
    folds: list[StackingWeights]
    pull: float


#: called now and then with the share that is done
OnShare = Callable[[float], None]


def unreported(share: float) -> None:
    """Without anyone who watches."""


def cross_fit_weights(
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    fold_n: np.ndarray,
    weights: Weights | None = None,
    report: OnShare = unreported,
) -> CrossFittedWeights:
    """Choose between shared weights and weights per label, and fit them on all rows and on all folds but each one.

    >>> random = np.random.default_rng(0)
    >>> Y = np.float32(random.random((200, 2)) < 0.3)
    >>> g = np.stack([2 * Y - 1 + random.normal(size=Y.shape), random.normal(size=Y.shape)], -1).astype(np.float32)
    >>> fitted = cross_fit_weights(g, Y, np.arange(200) % 5)
    >>> len(fitted.folds), bool((fitted.weights.weights_LK[:, 0] > 1).all())
    (5, True)
    """
    pull = choose_pull(base_logits_nLK, Y_nL, fold_n, weights, lambda share: report(0.3 * share))
    report(0.3)
    whole = fit_weights(base_logits_nLK, Y_nL, pull, weights=weights)
    folds = side_by_side(
        lambda rest, pulse: fit_weights(base_logits_nLK[rest], Y_nL[rest], pull, whole, taken(weights, rest)),
        [rest for rest, _ in parts_of(fold_n)],
        lambda share: report(0.4 + 0.6 * share),
    )
    return CrossFittedWeights(whole, folds, pull)


def better_on_new_rows(
    kept: StackingWeights,
    fitted: CrossFittedWeights,
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    fold_n: np.ndarray,
    weights: Weights | None = None,
) -> CrossFittedWeights:
    """Weights that were learned before, or those fitted on new rows: whichever has the lower log-loss on the new rows.

    Those learned before never saw the new rows; each new row is scored by the fitted ones of the other folds.
    """
    counts, losses = _counts(Y_nL, weights), np.zeros(2)
    for (_, own), of_fold in zip(parts_of(fold_n), fitted.folds, strict=True):
        for number, one in enumerate((kept, of_fold)):
            losses[number] += _log_loss(one.stacked(base_logits_nLK[own]), Y_nL[own], counts[own])
    return fitted if losses[1] < losses[0] else CrossFittedWeights(kept, [kept] * len(fitted.folds), fitted.pull)


def choose_pull(
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    fold_n: np.ndarray,
    weights: Weights | None = None,
    report: OnShare = unreported,
) -> float:
    """The pull with the least log-loss on held-out folds, for a sample of the rows."""
    rows = _sample(len(Y_nL), Y_nL.shape[1], CHOICE_ENTRIES)
    g, Y, fold_n, counted = base_logits_nLK[rows], Y_nL[rows], fold_n[rows], taken(weights, rows)
    counts = _counts(Y, counted)

    def held_out_losses(part: tuple[np.ndarray, np.ndarray], pulse: Pulse) -> np.ndarray:
        rest, own = part
        losses = np.zeros(len(PULLS))
        if not len(rest) or not len(own):
            return losses
        of_rest = taken(counted, rest)
        shared = fitted = fit_shared(g[rest], Y[rest], weights=of_rest)
        for number, pull in enumerate(PULLS):  # each solution is near the one of a stronger pull
            fitted = shared if np.isinf(pull) else _per_label(g[rest], Y[rest], pull, shared, fitted, of_rest)
            losses[number] = _log_loss(fitted.stacked(g[own]), Y[own], counts[own])
        return losses

    parts = parts_of(fold_n)[: None if Y.size <= FEW_ENTRIES else CHOICE_FOLDS]
    return PULLS[int(np.argmin(np.sum(side_by_side(held_out_losses, parts, report), axis=0)))]


def fit_weights(
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    pull: float = np.inf,
    start: StackingWeights | None = None,
    weights: Weights | None = None,
) -> StackingWeights:
    """Shared weights where the pull is infinite, else weights per label."""
    rows = _sample(len(Y_nL), Y_nL.shape[1], FIT_ENTRIES)
    if len(rows) < len(Y_nL):
        base_logits_nLK, Y_nL, weights = base_logits_nLK[rows], Y_nL[rows], taken(weights, rows)
    shared = fit_shared(base_logits_nLK, Y_nL, start, weights)
    return shared if np.isinf(pull) else _per_label(base_logits_nLK, Y_nL, pull, shared, start or shared, weights)


def fit_shared(
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    start: StackingWeights | None = None,
    weights: Weights | None = None,
) -> StackingWeights:
    """One weight per base learner, one bias per label: Newton's method with the biases eliminated.

    Weights are not negative: a learner that ranks a small sample the wrong way round is left out.
    """
    L, K = base_logits_nLK.shape[1:]
    g = [np.ascontiguousarray(base_logits_nLK[..., k], dtype=np.float32) for k in range(K)]
    y, counts, prior = _targets(Y_nL, weights)
    a = np.full(K, 1.0 / K) if start is None else start.weights_LK.mean(axis=0).astype(np.float64)
    b = prior.copy() if start is None else start.bias_L.astype(np.float64)

    def objective(a: np.ndarray, b: np.ndarray) -> float:
        z = _stacked(g, a, b)
        own = SHARED_PULL * ((a - 1 / K) ** 2).sum() + BIAS_PULL * ((b - prior) ** 2).sum()
        return _log_loss(z, y, counts) + 0.5 * float(own)

    value = objective(a, b)
    for _ in range(NEWTON_STEPS):
        p = expit(_stacked(g, a, b))
        slope, curvature = (p - y) * counts, p * (1 - p) * counts
        slope_a = np.array([float((slope * g_k).sum(dtype=np.float64)) for g_k in g]) + SHARED_PULL * (a - 1 / K)
        slope_b = slope.sum(axis=0, dtype=np.float64) + BIAS_PULL * (b - prior)
        curved = [curvature * g_k for g_k in g]
        H_aa = np.array([[float((c_k * g_j).sum(dtype=np.float64)) for g_j in g] for c_k in curved])
        H_aa += SHARED_PULL * np.eye(K)
        H_ab = np.stack([c_k.sum(axis=0, dtype=np.float64) for c_k in curved])
        H_bb = curvature.sum(axis=0, dtype=np.float64) + BIAS_PULL
        step_a = np.linalg.solve(H_aa - (H_ab / H_bb) @ H_ab.T, slope_a - H_ab @ (slope_b / H_bb))
        step_b = (slope_b - H_ab.T @ step_a) / H_bb
        length = 1.0
        while (new := objective(a - length * step_a, b - length * step_b)) > value and length > 1e-3:
            length /= 2
        if new > value:
            break
        a, b, gain, value = a - length * step_a, b - length * step_b, value - new, new
        if gain <= TOLERANCE * max(1.0, value) * 0.01:
            break
    if (a < 0).any():
        kept = np.flatnonzero(a > 0) if (a > 0).any() else np.array([int(np.argmax(a))])
        if len(kept) < K:
            fewer = fit_shared(base_logits_nLK[..., kept], Y_nL, weights=weights)
            a = np.zeros(K)
            a[kept], b = fewer.weights_LK[0], fewer.bias_L
    return StackingWeights(np.tile(a, (L, 1)).astype(np.float32), b.astype(np.float32))


def _per_label(
    base_logits_nLK: np.ndarray,
    Y_nL: np.ndarray,
    pull: float,
    shared: StackingWeights,
    start: StackingWeights,
    weights: Weights | None,
) -> StackingWeights:
    """Each label's own weights and bias, pulled towards the shared ones: one small Newton problem per label."""
    L, K = base_logits_nLK.shape[1:]
    g = [np.ascontiguousarray(base_logits_nLK[..., k], dtype=np.float32) for k in range(K)]
    y, counts, _ = _targets(Y_nL, None)
    if weights is not None:  # labels are fitted apart, so only the rows' weights count
        counts = weights.by_row(counts)
    centre, theta = (np.column_stack([s.weights_LK, s.bias_L]).astype(np.float64) for s in (shared, start))  # (L, K+1)
    strength = np.append(np.full(K, pull), BIAS_PULL)

    def objective(theta: np.ndarray) -> np.ndarray:
        z = _stacked(g, theta[:, :K].T, theta[:, K])
        rows = (_softplus(z) - y * z) * counts
        pulled = 0.5 * (strength * (theta - centre) ** 2).sum(axis=1)
        return np.asarray(rows.sum(axis=0, dtype=np.float64) + pulled)

    value = objective(theta)
    for _ in range(NEWTON_STEPS):
        p = expit(_stacked(g, theta[:, :K].T, theta[:, K]))
        slope, curvature = (p - y) * counts, p * (1 - p) * counts
        inputs: list[np.ndarray | float] = [*g, 1.0]
        gradient = np.stack([(slope * x).sum(axis=0, dtype=np.float64) for x in inputs], axis=1)
        gradient += strength * (theta - centre)
        H = np.empty((L, K + 1, K + 1))
        for i, x in enumerate(inputs):
            weighted = curvature * x
            for j in range(i, K + 1):
                H[:, i, j] = H[:, j, i] = (weighted * inputs[j]).sum(axis=0, dtype=np.float64)
        H += np.diag(strength)
        step = np.linalg.solve(H, gradient[..., None])[..., 0]
        length = np.ones((L, 1))
        for _ in range(8):
            new = objective(theta - length * step)
            worse = new > value
            if not worse.any():
                break
            length[worse] /= 2
        length[new > value] = 0.0
        theta, gain, value = theta - length * step, (value - np.minimum(new, value)).sum(), np.minimum(new, value)
        if gain <= TOLERANCE * max(1.0, float(value.sum())) * 0.01:
            break
    return StackingWeights(theta[:, :K].astype(np.float32), theta[:, K].astype(np.float32))


def _targets(Y_nL: np.ndarray, weights: Weights | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1 or 0, what each entry counts, and the logit of each label's prior."""
    prior = np.asarray(logit(label_priors(Y_nL, np.float64, rows_of(weights))))
    return np.nan_to_num(Y_nL).astype(np.float32), _counts(Y_nL, weights), prior


def _counts(Y_nL: np.ndarray, weights: Weights | None) -> np.ndarray:
    """What each entry counts, (n, L): nothing where it is unknown."""
    known = ~np.isnan(Y_nL)
    return known if weights is None else weights.entries(known)


def _stacked(g: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """g_k (n, L) under weights a (K,) or (K, L) and biases (L,), float32."""
    z = np.multiply(g[0], a[0], dtype=np.float32)
    for g_k, a_k in zip(g[1:], a[1:], strict=True):
        z += np.multiply(g_k, a_k, dtype=np.float32)
    z += b.astype(np.float32)
    return np.asarray(z)


def _softplus(z: np.ndarray) -> np.ndarray:
    """log(1 + exp(z)): np.logaddexp is several times slower."""
    return np.asarray(torch.nn.functional.softplus(torch.from_numpy(z)).numpy())


def entry_losses(logits_nL: np.ndarray, Y_nL: np.ndarray, weights: Weights | None = None) -> np.ndarray:
    """The log-loss of each entry, times what it counts: nothing where it is unknown."""
    return _entry_losses(logits_nL, Y_nL, _counts(Y_nL, weights))


def _entry_losses(z: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.asarray((_softplus(z) - np.nan_to_num(y) * z) * counts)


def _log_loss(z: np.ndarray, y: np.ndarray, counts: np.ndarray) -> float:
    return float(_entry_losses(z, y, counts).sum(dtype=np.float64))


def _sample(n: int, L: int, entries: int) -> np.ndarray:
    """All rows, or evenly spread ones where they have more entries than are looked at."""
    count = min(n, max(200, entries // max(1, L)))
    return np.arange(n) if count == n else np.unique(np.linspace(0, n - 1, count).astype(np.int64))
