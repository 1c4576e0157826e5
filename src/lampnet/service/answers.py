"""What requests are answered: label sets with scores, suggestions, questions, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States
from lampnet.errors import ConfigError, DataError, did_you_mean
from lampnet.evaluation.metrics import METRICS
from lampnet.inference import labelling
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel

#: labels beside the predicted ones whose scores are given
NEXT_LABELS = 5


def check_decision(decision: str) -> str:
    """The metric whose best rule decides, if there is one of this name."""
    if decision not in METRICS:
        raise ConfigError(f"there is no decision {decision[:60]!r}; {did_you_mean(decision, METRICS)}")
    return decision


def predictions(
    model: FittedModel, data: Dataset, logits: np.ndarray, states: States | None, decision: str, top_k: int | None
) -> list[dict[str, Any]]:
    """For each row {"id", "labels", "scores"}; by `top_k` the k most probable labels, known false ones left out."""
    proba = probabilities(logits) if states is None else model.proba_given(logits, states)
    chosen = model.decided(decision, proba, states) if top_k is None else None
    order = np.argsort(-proba, axis=1, kind="stable")
    ids = data.ids or tuple(map(str, range(len(data))))
    answers = []
    for row, name in enumerate(ids):
        ranked = [int(label) for label in order[row] if states is None or states[row, label] >= 0]
        if chosen is None:
            taken, shown = ranked[:top_k], ranked[:top_k]
        else:
            taken = [label for label in ranked if chosen[row, label]]
            others = [label for label in ranked[: len(taken) + NEXT_LABELS] if not chosen[row, label]]
            shown = [*taken, *others[:NEXT_LABELS]]
        names = model.label_names
        scores = {names[label]: round(float(proba[row, label]), 6) for label in shown}
        answers.append({"id": name, "labels": [names[label] for label in taken], "scores": scores})
    return answers


def suggestions(model: FittedModel, logits: np.ndarray, states: States, most: int) -> list[list[dict[str, Any]]]:
    """For each row the labels to add next, most probable first, each with what moved it."""
    names = model.label_names
    if model.label_priors is None:
        raise DataError("this model has no label priors, by which suggestions are explained; train it again")
    found = []
    for row in range(len(logits)):
        ranked = labelling.suggest(model.given_known(), logits[row], states[row], model.label_priors, most)
        found.append(
            [
                {
                    "label": names[one.label],
                    "proba": round(one.proba, 6),
                    "input": round(one.from_input, 4),
                    "known": {names[j]: round(moved, 4) for j, moved in one.from_known.items()},
                }
                for one in ranked
            ]
        )
    return found


def questions(model: FittedModel, logits: np.ndarray, states: States) -> list[dict[str, Any] | None]:
    """For each row the label whose answer would tell most about its others, and how many bits; None where none is."""
    conditional, names = model.given_known(), model.label_names
    found = [labelling.next_question(conditional, logits[row], states[row]) for row in range(len(logits))]
    return [None if one is None else {"label": names[one[0]], "bits": round(one[1], 6)} for one in found]
