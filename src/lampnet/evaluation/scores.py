"""All scores of a model on labelled rows, by the paper's protocol and by the best decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.intervals import score_interval
from lampnet.evaluation.metrics import METRICS, ranking_metrics
from lampnet.evaluation.rules import Rule


def all_scores(truth: np.ndarray, proba: np.ndarray, decisions: Decisions, intervals: bool = False) -> dict[str, Any]:
    """Plain data, as `lampnet evaluate --json` prints it.

    truth (n, L) is 1, 0, or NaN where unknown; proba (n, L); decisions were chosen on validation rows.

    Returns `metrics` and `thresholds` (the paper's protocol: each metric at its own threshold), `best` and `decisions`
    (each metric by its best rule, and which rule that was), `ranking` (None where no label has both classes); with
    `intervals`, those of `metrics` and of `best`, by resampling the rows.
    """
    ranking = ranking_metrics(truth, proba)
    parts: dict[str, Mapping[str, Rule]] = {"metrics": decisions.paper, "best": decisions.best}
    spread = {
        part: {m: score_interval(m, truth, rules[m].apply(proba)) for m in METRICS}
        for part, rules in (parts.items() if intervals else ())
    }
    return ({"intervals": spread} if intervals else {}) | {
        "metrics": {m: METRICS[m](truth, decisions.paper[m].apply(proba)) for m in METRICS},
        "thresholds": {m: decisions.paper[m].value for m in METRICS},
        "best": {m: METRICS[m](truth, decisions.best[m].apply(proba)) for m in METRICS},
        "decisions": {m: decisions.best[m].describe() for m in METRICS},
        "ranking": {name: None if math.isnan(value) else value for name, value in ranking.items()},
    }
