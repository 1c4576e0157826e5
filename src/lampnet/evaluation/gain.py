"""What one prediction adds to another on the same rows: a difference of scores with an interval.

Both predictions have decisions of their own, chosen on these rows. Rows are resampled (a paired bootstrap), so the
interval says how far the difference depends on which rows there happened to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.weights import Weights
from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.intervals import draws, resampled

GAIN_METRICS = ("example_f1", "micro_f1", "macro_f1")
SAMPLES = 200
#: the interval holds this share of the resampled differences
SHARE = 0.9


@dataclass(frozen=True)
class Gain:
    """Differences of the three F1 scores, their mean, and the interval and standard error of that mean."""

    scores: dict[str, float]
    mean: float
    low: float
    high: float
    error: float

    def is_clear(self, metric: str) -> bool:
        """Better on average by more than a standard error, and not worse in this metric, where it is an F1."""
        return self.mean > self.error and self.scores.get(metric, 0.0) >= 0.0

    def to_json(self) -> dict[str, Any]:
        rounded = {name: round(value, 5) for name, value in self.scores.items()}
        return rounded | {"mean": round(self.mean, 5), "interval": [round(self.low, 5), round(self.high, 5)]}

    def describe(self) -> str:
        """One sentence for the log and the model card."""
        parts = ", ".join(f"{name.replace('_', '-')} {value:+.4f}" for name, value in self.scores.items())
        return f"{parts}; mean {self.mean:+.4f}, {SHARE:.0%} interval {self.low:+.4f} to {self.high:+.4f}"


def measure_gain(
    truth: np.ndarray,
    before: tuple[np.ndarray, Decisions],
    after: tuple[np.ndarray, Decisions],
    seed: int = 0,
    weights: Weights | None = None,
) -> Gain:
    """What `after` adds to `before`, each probabilities (n, L) and the decisions chosen for them.

    truth    (n, L), NaN where unknown: such entries count for nothing
    weights  what rows and labels count
    """
    known = ~np.isnan(truth)
    rows = np.flatnonzero(known.any(axis=1))
    true = (truth[rows] == 1) & known[rows]
    counts = draws(len(rows), SAMPLES, seed)
    if weights is not None:
        counts = counts * weights.row_n[rows]
    scores = []
    for proba, decisions in (before, after):
        of_metric = [
            resampled(
                metric, true, decisions.best[metric].apply(proba)[rows] & known[rows], counts, known[rows], weights
            )
            for metric in GAIN_METRICS
        ]
        scores.append(np.stack(of_metric))
    difference = scores[1] - scores[0]  # (metrics, samples)
    mean = difference.mean(axis=0)
    low, high = np.quantile(mean[1:], [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Gain(
        scores={name: float(value) for name, value in zip(GAIN_METRICS, difference[:, 0], strict=True)},
        mean=float(mean[0]),
        low=float(low),
        high=float(high),
        error=float(mean[1:].std()),
    )
