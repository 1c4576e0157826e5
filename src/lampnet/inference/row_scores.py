"""What `lampnet evaluate` and `LaMPClassifier.evaluate` say of rows whose labels are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lampnet.evaluation.by_label import by_label, confused_pairs
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.promises import Promises
from lampnet.evaluation.reliability import Reliability, reliability
from lampnet.evaluation.scores import all_scores
from lampnet.inference.asked_decision import WHOLE_SET, label_sets
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel


def row_scores(
    model: FittedModel, truth_nL: np.ndarray, logits_nL: np.ndarray, metric: str, decision: str | None = None
) -> tuple[dict[str, Any], Reliability]:
    """All scores with intervals as plain data, and how far the probabilities can be trusted.

    Scores by label and confused pairs are those of the label sets for `decision`, by default of the best rule
    for `metric`.
    """
    proba, names = probabilities(logits_nL), model.label_names
    calibration = reliability(truth_nL, proba)
    _, chosen = label_sets(model, decision or metric, logits_nL, None)
    scores = all_scores(truth_nL, proba, model.decisions, intervals=True) | {
        "calibration": calibration.to_json(),
        "label_sets": f"the best rule for {metric.replace('_', '-')}" if decision is None else decision,
        "by_label": by_label(names, truth_nL, proba, chosen),
        "confused_pairs": confused_pairs(names, truth_nL, chosen),
    }
    if decision is not None and decision not in METRICS and decision != WHOLE_SET:
        scores["promise"] = _promise(decision, model.promised(decision).value, truth_nL, proba)
    return scores, calibration


def _promise(decision: str, threshold: float, truth_nL: np.ndarray, proba_nL: np.ndarray) -> dict[str, Any]:
    """What these rows measure at the promised threshold."""
    rows = Promises.of(truth_nL, proba_nL)
    measured = {name: round(rows.reached(name, threshold), 6) for name in ("recall", "precision")}
    return {"decision": decision, "threshold": threshold} | {
        name: None if math.isnan(value) else value for name, value in measured.items()
    }
