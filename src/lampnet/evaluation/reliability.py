"""Reliability: how often labels are true that are predicted with a probability p.

>>> p = np.array([[0.1, 0.9], [0.1, 0.9]])
>>> found = reliability(np.array([[0.0, 1.0], [0.0, 1.0]]), p)
>>> round(found.ece, 3), round(found.brier, 3)
(0.1, 0.01)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BINS = 15
#: most (row, label) pairs of many labels are near zero and make any error look small; those above count apart
ABOVE = 0.01


@dataclass(frozen=True)
class Reliability:
    """Over (row, label) pairs whose truth is known.

    ece          the mean distance of the probabilities from the share that is true, over BINS bins of equal width
    ece_above    the same of the pairs with p > ABOVE
    by_chance    what ece_above would be, on average, were every probability exact (independent pairs): few rows, or
                 labels that come together in a row, make it no smaller than this
    brier        the mean squared distance of the probabilities from the truth
    bins         of the pairs with p > ABOVE: count, mean probability and share true of each bin that is not empty
    """

    ece: float
    ece_above: float
    by_chance: float
    brier: float
    bins: tuple[tuple[int, float, float], ...]

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"expected error of the probabilities {self.ece:.4f}, of those above {ABOVE:g} {self.ece_above:.4f} "
            f"({self.by_chance:.4f} by chance alone), Brier score {self.brier:.4f}"
        )

    def to_json(self) -> dict[str, Any]:
        numbers = {"ece": self.ece, "ece_above_.01": self.ece_above, "ece_by_chance": self.by_chance}
        rounded = {name: round(value, 5) for name, value in (numbers | {"brier": self.brier}).items()}
        return rounded | {
            "bins": [{"pairs": n, "mean_p": round(p, 5), "true": round(share, 5)} for n, p, share in self.bins]
        }


def reliability(truth_nL: np.ndarray, proba_nL: np.ndarray) -> Reliability:
    """Of probabilities (n, L); truth is 1, 0, or NaN where unknown."""
    known = ~np.isnan(truth_nL)
    y, p = truth_nL[known], np.asarray(proba_nL[known], dtype=np.float64)
    above = p > ABOVE
    count, mean, true = _bins(p[above], y[above])
    n = max(1, int(above.sum()))
    spread = np.bincount(_bin_of(p[above]), p[above] * (1 - p[above]), BINS)
    some = np.flatnonzero(count)
    return Reliability(
        ece=_error(*_bins(p, y)),
        ece_above=_error(count, mean, true),
        by_chance=float(np.sqrt(2 / np.pi * spread).sum() / n),
        brier=float(np.mean((p - y) ** 2)) if len(p) else 0.0,
        bins=tuple((int(count[i]), float(mean[i] / count[i]), float(true[i] / count[i])) for i in some),
    )


def _bin_of(p: np.ndarray) -> np.ndarray:
    return np.minimum((p * BINS).astype(np.int64), BINS - 1)


def _bins(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, sum of probabilities and number of true pairs of each bin."""
    of = _bin_of(p)
    return np.bincount(of, minlength=BINS), np.bincount(of, p, BINS), np.bincount(of, y, BINS)


def _error(count: np.ndarray, mean: np.ndarray, true: np.ndarray) -> float:
    return float(np.abs(mean - true).sum() / max(1, count.sum()))
