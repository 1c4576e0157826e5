"""Label sets as a caller asks for them: k labels per row, a threshold, at least one label.

>>> proba = np.array([[0.9, 0.4, 0.3], [0.2, 0.1, 0.1]])
>>> AskedSets(top_k=2, threshold=0.35).rule(TopK(1)).apply(proba).astype(int).tolist()
[[1, 1, 0], [0, 0, 0]]
>>> AskedSets(at_least_one=True).completed(proba > 0.5, proba).astype(int).tolist()
[[1, 0, 0], [1, 0, 0]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lampnet.errors import ConfigError
from lampnet.evaluation.rules import Rule, Threshold, TopK, is_number, is_whole


@dataclass(frozen=True, kw_only=True)
class AskedSets:
    """What the caller asks for; by default nothing but the model's own rule.

    top_k         exactly this many labels per row or, with a threshold, at most this many
    threshold     labels at least this probable
    at_least_one  a row that would get no label gets its most probable one
    """

    top_k: int | None = None
    threshold: float | None = None
    at_least_one: bool = False

    def __post_init__(self) -> None:
        if self.top_k is not None and not is_whole(self.top_k, 1):
            raise ConfigError(f"top_k={self.top_k!r:.80} must be a whole number of at least 1")
        if self.threshold is not None and not is_number(self.threshold, 0.0, 1.0):
            raise ConfigError(f"threshold={self.threshold!r:.80} must be a number from 0 to 1")

    @property
    def anything(self) -> bool:
        """Whether the label sets are others than those of the model's rule."""
        return self != AskedSets()

    def rule(self, own: Rule) -> Rule:
        """The rule to apply where the model's would be `own`."""
        if self.threshold is None:
            return own if self.top_k is None else TopK(self.top_k)
        return Threshold(float(self.threshold)) if self.top_k is None else TopAbove(self.top_k, float(self.threshold))

    def completed(self, chosen_nL: np.ndarray, proba_nL: np.ndarray) -> np.ndarray:
        """Label sets, bool (n, L); a label that is known to be false has the probability 0 and is never added."""
        if not self.at_least_one or not chosen_nL.shape[1]:
            return chosen_nL
        none = np.flatnonzero(~chosen_nL.any(axis=1) & (proba_nL.max(axis=1) > 0))
        chosen = np.array(chosen_nL)
        chosen[none, proba_nL[none].argmax(axis=1)] = True
        return chosen


@dataclass(frozen=True)
class TopAbove:
    """At most the k most probable labels, each at least as probable as the threshold; never stored."""

    k: int
    threshold: float

    def apply(self, proba: np.ndarray) -> np.ndarray:
        return np.asarray(TopK(self.k).apply(proba) & Threshold(self.threshold).apply(proba))

    def to_json(self) -> dict[str, object]:
        return {"rule": "top_above", "k": self.k, "threshold": self.threshold}

    def describe(self) -> str:
        return f"at most {self.k}, threshold {self.threshold:g}"
