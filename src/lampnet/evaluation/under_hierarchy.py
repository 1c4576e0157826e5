"""A decision rule under a label hierarchy: no child without its parents.

The probabilities are lowered first, so that no child is more probable than its parents; labels that are then level
count parents first. Most rules choose no child alone from these; what a rule lacks still is added.

>>> from lampnet.evaluation.rules import PerLabelThreshold, TopK
>>> tree = LabelHierarchy.of([("dog", "animal")], ("dog", "animal"))
>>> UnderHierarchy(TopK(1), tree).apply(np.array([[0.9, 0.4]])).astype(int).tolist()
[[0, 1]]
>>> UnderHierarchy(PerLabelThreshold((0.2, 0.6)), tree).apply(np.array([[0.3, 0.4]])).astype(int).tolist()
[[1, 1]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.evaluation.rules import Rule


@dataclass(frozen=True)
class UnderHierarchy:
    """Label sets by a rule, with the parents of their labels; stored as the rule alone."""

    rule: Rule
    hierarchy: LabelHierarchy

    def apply(self, proba: np.ndarray) -> np.ndarray:
        return self.hierarchy.with_parents(self.rule.apply(self.hierarchy.ranked(proba)))

    def to_json(self) -> dict[str, Any]:
        return self.rule.to_json()

    def describe(self) -> str:
        return f"{self.rule.describe()}, with parents"


def plain_rule(rule: Rule) -> Rule:
    """The rule without its hierarchy."""
    return rule.rule if isinstance(rule, UnderHierarchy) else rule
