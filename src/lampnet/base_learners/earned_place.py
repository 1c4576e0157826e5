"""Whether a base learner earns its place in the stack: out-of-fold, beside the others.

Linear model, neighbours and forest are quick and always stay; stacking weights say how much each counts. Boosted trees
cost more than the others together, when they are fitted and with every prediction, and a kernel stores all rows, so
they stay only where the stack has a clearly lower log-loss with them: first the trees beside all others, then the
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lampnet.base_learners.stacking_weights import entry_losses, fit_shared
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.data.weights import Weights, taken

#: learners that have to earn their place beside others
ON_TRIAL = ("boosted", "kernel")
#: the log-loss must be lower by this share of it, and by more than a standard error over the rows
LEAST_GAIN = 0.005
TRIAL_FOLDS = 5


@dataclass(frozen=True)
class Trial:
    """Mean log-loss of an entry out-of-fold, with the learner and without it, and whether the learner stays."""

    with_it: float
    without: float
    stays: bool


def on_trial(
    base_logits_nLK: np.ndarray,
    learner: int,
    Y_nL: np.ndarray,
    seed: int,
    fold_n: np.ndarray | None = None,
    weights: Weights | None = None,
) -> Trial:
    """Stack scaled out-of-fold logits with and without one of the K learners, each row by weights that never saw it.

    >>> random = np.random.default_rng(0)
    >>> Y = np.float32(random.random((400, 2)) < 0.3)
    >>> weak, strong, noise = (a * Y + random.normal(size=Y.shape) for a in (1, 2, 0))
    >>> on_trial(np.stack([weak, strong], -1), 1, Y, 0).stays, on_trial(np.stack([weak, noise], -1), 1, Y, 0).stays
    (True, False)
    """
    folds = parts_of(fold_numbers(len(Y_nL), TRIAL_FOLDS, seed) if fold_n is None else fold_n)
    others = [k for k in range(base_logits_nLK.shape[-1]) if k != learner]
    losses = np.zeros((2, len(Y_nL)))
    for rest, own in folds:
        for number, used in enumerate((base_logits_nLK, base_logits_nLK[..., others])):
            fitted = fit_shared(used[rest], Y_nL[rest], weights=taken(weights, rest))
            losses[number, own] = entry_losses(fitted.stacked(used[own]), Y_nL[own], taken(weights, own)).sum(axis=1)
    gain_n = losses[1] - losses[0]
    gain, error = float(gain_n.mean()), float(gain_n.std()) / len(gain_n) ** 0.5
    entries = max(1, int((~np.isnan(Y_nL)).sum())) / len(Y_nL)
    with_it, without = (float(mean) / entries for mean in losses.mean(axis=1))
    return Trial(with_it, without, gain > error and gain > LEAST_GAIN * float(losses[1].mean()))
