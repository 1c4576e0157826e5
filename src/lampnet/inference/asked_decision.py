"""How label sets are decided, as a caller names it: for a metric, by a promise, or as the most probable whole set."""

from __future__ import annotations

import numpy as np

from lampnet.data.known_labels import States
from lampnet.errors import ConfigError, did_you_mean
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.promises import Promise
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import AS_CHOSEN, FittedModel

#: the decision for the set that is most probable as a whole
WHOLE_SET = "whole set"


def check_decision(decision: str) -> str:
    """The same decision, if there is one of this name.

    >>> check_decision("recall>=0.9"), check_decision("whole set")
    ('recall>=0.9', 'whole set')
    """
    if decision in METRICS or decision == WHOLE_SET:
        return decision
    if ">=" not in decision:
        close = did_you_mean(decision, [*METRICS, WHOLE_SET, "recall>=0.9", "precision>=0.8"])
        raise ConfigError(f"there is no decision {decision[:60]!r}; {close}")
    Promise.read(decision)
    return decision


def check_kept(model: FittedModel, decision: str) -> None:
    """Refuse a decision that this model cannot make, before any row is read."""
    if decision == WHOLE_SET:
        model.whole_set_rule()
    elif decision not in METRICS:
        model.promised(decision)


def label_sets(
    model: FittedModel, decision: str, logits_nL: np.ndarray, states_nL: States | None, asked: AskedSets = AS_CHOSEN
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and label sets, bool (n, L), of rows with these logits, given what is known of their labels.

    A decision other than for a metric chooses the label sets itself, so `asked` may add no more than `at_least_one`.
    """
    if decision not in METRICS and (asked.top_k is not None or asked.threshold is not None):
        raise ConfigError(f"the decision {decision} chooses the label sets; leave out top_k and threshold")
    proba = probabilities(logits_nL) if states_nL is None else model.proba_given(logits_nL, states_nL)
    if decision == WHOLE_SET:
        return proba, model.completed(model.whole_sets(logits_nL, states_nL), proba, asked)
    if decision in METRICS:
        return proba, model.decided(decision, proba, states_nL, asked)
    if states_nL is not None and states_nL.any():
        raise ConfigError("a promise holds where nothing is known of the labels; leave out what is known, or decision")
    return proba, model.completed(model.promised(decision).apply(proba), proba, asked)
