"""Intervals of scores: how far they depend on which rows there happened to be.

Rows are resampled with replacement (the bootstrap); a sample is the number of times that each row was drawn, so all
samples are counted at once.

>>> truth, chosen = np.array([[1.0, 0], [1, 1], [0, 1], [1, 0]]), np.array([[1, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
>>> low, high = score_interval("micro_f1", truth, chosen)
>>> bool(low <= 0.8 <= high)
True
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lampnet.data.weights import Weights

SAMPLES = 400
#: the interval holds this share of the resampled scores
SHARE = 0.95


def draws(n: int, samples: int, seed: int = 0) -> np.ndarray:
    """How often each of n rows is drawn, (1 + samples, n); the first are the rows as they are."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / max(1, n)), samples)
    return np.vstack([np.ones(n), drawn])


def score_interval(metric: str, truth_nL: np.ndarray, chosen_nL: np.ndarray, seed: int = 0) -> list[float]:
    """Low and high end for one of the five metrics of label sets; truth is 1, 0, or NaN where unknown."""
    known = ~np.isnan(truth_nL)
    rows = np.flatnonzero(known.any(axis=1))
    true, given = (truth_nL[rows] == 1) & known[rows], chosen_nL[rows].astype(bool) & known[rows]
    scores = resampled(metric, true, given, draws(len(rows), SAMPLES, seed), known[rows])[1:]
    return [round(float(end), 5) for end in np.quantile(scores, [(1 - SHARE) / 2, (1 + SHARE) / 2])]


def resampled(
    metric: str,
    true: np.ndarray,
    given: np.ndarray,
    counts: np.ndarray,
    known: np.ndarray,
    weights: Weights | None = None,
) -> np.ndarray:
    """The metric on every sample, (samples,); labels that no row knows are left out of macro-F1.

    true, given, known  bool (n, L); unknown entries are neither true nor given
    counts              (samples, n), how often each row is there: any weights
    weights             of labels; all equal by default
    """
    hits = true & given
    wrong = (true != given).any(axis=1)
    row_hits, row_true, row_given, row_known = (
        part.sum(axis=1) if weights is None else part @ weights.entry_L for part in (hits, true, given, known)
    )
    row_size = row_true + row_given
    if metric == "example_f1":
        return np.asarray(counts @ _ratio(2 * row_hits, row_size) / counts.sum(axis=1))
    if metric == "subset_accuracy":
        return np.asarray(counts @ ~wrong / counts.sum(axis=1))
    if metric == "hamming_accuracy":
        return np.asarray(1 - _ratio(counts @ (row_size - 2 * row_hits), counts @ row_known))
    if metric == "micro_f1":
        return _ratio(2 * (counts @ row_hits), counts @ row_size)
    assert metric == "macro_f1", metric
    label_hits, label_size = (
        np.asarray((sparse.csr_matrix(part, dtype=np.float64).T @ counts.T).T)  # (samples, L)
        for part in (hits, true.astype(np.int64) + given)
    )
    some = known.any(axis=0)
    own = None if weights is None else weights.label_L[some]
    return np.asarray(np.average(_ratio(2 * label_hits, label_size)[:, some], axis=1, weights=own))


def weighted_score(
    metric: str, truth_nL: np.ndarray, chosen_nL: np.ndarray, weight_n: np.ndarray, weights: Weights | None = None
) -> float:
    """The metric of rows that count so much each; a weight of two is the row twice. `weights` are those of labels.

    >>> truth, chosen = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1, 0], [1, 0]], dtype=bool)
    >>> weighted_score("subset_accuracy", truth, chosen, np.array([3.0, 1.0]))
    0.75
    """
    known = ~np.isnan(truth_nL)
    rows = np.flatnonzero(known.any(axis=1) & (weight_n > 0))
    true, given = (truth_nL[rows] == 1) & known[rows], chosen_nL[rows].astype(bool) & known[rows]
    return float(resampled(metric, true, given, weight_n[None, rows], known[rows], weights)[0])


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 where there is nothing."""
    return np.asarray(np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) > 0))
