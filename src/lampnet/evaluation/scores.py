"""All scores of a model on labelled rows, by the paper's protocol and by the best decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.metrics import METRICS, five_metrics, ranking_metrics


def all_scores(truth: np.ndarray, proba: np.ndarray, decisions: Decisions) -> dict[str, Any]:
    """Plain data, as `lampnet evaluate --json` prints it.

    truth (n, L) is 1, 0, or NaN where unknown; proba (n, L); decisions were chosen on validation rows.

    Returns `metrics` and `thresholds` (the paper's protocol: each metric at its own threshold), `best` and `decisions`
    (each metric by its best rule, and which rule that was), `ranking` (None where no label has both classes).
    """
    paper = {m: five_metrics(truth, decisions.paper[m].apply(proba))[m] for m in METRICS}
    best = {m: five_metrics(truth, decisions.best[m].apply(proba))[m] for m in METRICS}
    ranking = ranking_metrics(truth, proba)
    return {
        "metrics": paper,
        "thresholds": {m: decisions.paper[m].value for m in METRICS},
        "best": best,
        "decisions": {m: decisions.best[m].describe() for m in METRICS},
        "ranking": {name: None if math.isnan(value) else value for name, value in ranking.items()},
    }
