"""The example-F1 of every test row, small enough for a result file, and what the rows of two systems say about them.

>>> rows = np.array([0.0, 0.5, 1.0])
>>> bool(np.abs(unpacked(packed(rows)) - rows).max() <= 0.5 / 255)
True
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def packed(scores: np.ndarray) -> str:
    """Scores from 0 to 1 as one byte each, in base64: finer than their mean can be known."""
    return base64.b64encode(np.round(255 * scores).astype(np.uint8).tobytes()).decode("ascii")


def unpacked(text: str) -> np.ndarray:
    """What `packed` wrote, float (n,)."""
    return np.frombuffer(base64.b64decode(text), dtype=np.uint8) / 255


@dataclass(frozen=True)
class Difference:
    """The mean of first - second, and its 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        """In points of a hundredth.

        >>> str(Difference(0.012, -0.001, 0.025))
        '+1.2 (-0.1 to +2.5)'
        """
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    def in_percent(self) -> str:
        """Of a relative difference.

        >>> Difference(0.012, -0.001, 0.025).in_percent()
        '+1.2% (-0.1% to +2.5%)'
        """
        return f"{100 * self.mean:+.1f}% ({100 * self.low:+.1f}% to {100 * self.high:+.1f}%)"


def paired_difference(first: np.ndarray, second: np.ndarray, resamples: int = 4000, seed: int = 0) -> Difference:
    """Of the mean scores of the same n rows under two systems, by the paired bootstrap over rows.

    With several seeds, give the rows' means over the seeds.

    >>> paired_difference(np.array([1.0, 0.8, 0.9]), np.array([0.5, 0.3, 0.4]))
    Difference(mean=0.5, low=0.5, high=0.5)
    """
    change = np.asarray(first) - np.asarray(second)
    n = len(change)
    rng = np.random.default_rng(seed)
    means = [rng.multinomial(n, np.full(n, 1 / n)) @ change / n for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Difference(round(float(change.mean()), 6), round(float(low), 6), round(float(high), 6))


def seeds_difference(first: np.ndarray, second: np.ndarray) -> Difference | None:
    """Of the scores of two systems over the same seeds or splits, by Student's t; None for fewer than three.

    >>> seeds_difference(np.array([0.5, 0.6, 0.7]), np.array([0.4, 0.5, 0.6]))
    Difference(mean=0.1, low=0.1, high=0.1)
    """
    from scipy import stats

    change = np.asarray(first) - np.asarray(second)
    if len(change) < 3:
        return None
    spread = float(change.std(ddof=1)) / len(change) ** 0.5
    reach = float(stats.t.ppf(0.975, len(change) - 1)) * spread
    mean = float(change.mean())
    return Difference(round(mean, 6), round(mean - reach, 6), round(mean + reach, 6))


def pooled_difference(parts: Sequence[np.ndarray], resamples: int = 4000, seed: int = 0) -> Difference:
    """The mean over data sets of a mean difference, each data set with the same weight.

    parts  for each data set the differences of its independent units: test rows, or random splits

    The interval is that of a bootstrap over data sets and, in each one drawn, over its units: it holds the chance that
    other data sets would differ as much as these do. With few data sets it is rather too narrow.

    >>> pooled_difference([np.array([0.1, 0.1]), np.array([0.3, 0.3, 0.3])])
    Difference(mean=0.2, low=0.1, high=0.3)
    """
    mean = float(np.mean([part.mean() for part in parts]))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(parts), size=(resamples, len(parts)))
    values = np.empty(drawn.shape)
    for number, part in enumerate(parts):
        n, chosen = len(part), drawn == number
        counts = (rng.multinomial(n, np.full(n, 1 / n)) for _ in range(int(chosen.sum())))
        values[chosen] = [count @ part / n for count in counts]
    low, high = np.quantile(values.mean(axis=1), [0.025, 0.975])
    return Difference(round(mean, 6), round(float(low), 6), round(float(high), 6))
