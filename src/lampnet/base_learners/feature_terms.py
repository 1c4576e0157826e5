"""What each feature adds to a base learner's logit, adding up to it exactly.

Every base learner is a sum that goes through one rising function per label: the linear model's sum is bounded, those of
neighbours and trees are shares that become logits. A sum's terms are brought to logits by the slope of the straight
line from where the sum starts to where it ends, so that they add up whatever the function does in between.

Axes: n rows, K labels asked for, E (row, feature) pairs, J neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

#: a step this small says nothing about a slope
_STEP = 1e-9


@dataclass(frozen=True)
class Neighbours:
    """The training rows that speak for or against each label.

    index_nJ       int64, their numbers among the rows that the learner was fitted on, the nearest first
    similarity_nJ  their cosine similarity to the row
    shares_nJK     what each adds to the logit; the features' terms are the same amounts, divided otherwise
    """

    index_nJ: np.ndarray
    similarity_nJ: np.ndarray
    shares_nJK: np.ndarray


@dataclass(frozen=True)
class FeatureTerms:
    """Logits of n rows as sums: start + the row's terms.

    start_nK   where each sum starts: what the learner says of a row without features
    offsets    int64 (n + 1,), row r has the pairs offsets[r]:offsets[r + 1]
    columns_E  int64, the feature of each pair
    values_EK  what it adds to the logit
    neighbours see `Neighbours`; None for a learner that compares with no rows

    >>> terms = FeatureTerms(np.array([[0.5]]), np.array([0, 2]), np.array([3, 7]), np.array([[1.0], [-2.0]]))
    >>> terms.logits().tolist()
    [[-0.5]]
    """

    start_nK: np.ndarray
    offsets: np.ndarray
    columns_E: np.ndarray
    values_EK: np.ndarray
    neighbours: Neighbours | None = None

    def rows_E(self) -> np.ndarray:
        """The row of each pair."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def logits(self) -> np.ndarray:
        """The sums, float64 (n, K)."""
        sums = np.array(self.start_nK, dtype=np.float64)
        np.add.at(sums, self.rows_E(), self.values_EK)
        return sums

    def scaled(self, scale_K: np.ndarray, centre_K: np.ndarray) -> FeatureTerms:
        """The terms of (logit - centre) * scale."""
        near = self.neighbours
        return replace(
            self,
            start_nK=(self.start_nK - centre_K) * scale_K,
            values_EK=self.values_EK * scale_K,
            neighbours=None if near is None else replace(near, shares_nJK=near.shares_nJK * scale_K),
        )


def through(link: Callable[[np.ndarray], np.ndarray], start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The slope that turns terms of a sum from start to end into terms of link(end) - link(start).

    >>> float(through(lambda x: np.clip(x, -1, 1), np.array([0.0]), np.array([4.0]))[0])
    0.25
    """
    step = end - start
    small = np.abs(step) < _STEP
    step = np.where(small, _STEP, step)
    return np.asarray((link(start + step) - link(start)) / step)
