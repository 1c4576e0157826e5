"""What requests are answered: label sets with scores, suggestions, questions, explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import UNKNOWN, States, as_dicts
from lampnet.errors import DataError
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.explain.attention import predict_rows
from lampnet.explain.explain_rows import Shown, explain_predicted, label_numbers
from lampnet.explain.explanation import Explanation
from lampnet.explain.input_parts import input_parts
from lampnet.inference import labelling
from lampnet.inference.asked_decision import label_sets
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.prediction_formats import PredictedChunk, json_rows

#: suggested labels of a row whose input parts are named
MOST_WITH_PARTS = 20


def predictions(
    model: FittedModel, data: Dataset, logits: np.ndarray, states: States | None, decision: str, asked: AskedSets
) -> list[dict[str, Any]]:
    """For each row {"id", "labels", "scores"}, as `lampnet predict` writes them."""
    proba, chosen = label_sets(model, decision, logits, states, asked)
    ids = data.ids or tuple(map(str, range(len(data))))
    return list(json_rows(PredictedChunk(ids, model.label_names, proba, chosen)))


def suggestions(
    model: FittedModel, data: Dataset, logits: np.ndarray, states: States, most: int
) -> list[list[dict[str, Any]]]:
    """For each row the labels to add next, most probable first, each with what moved it.

    The parts of the input that moved them are named for the first labels of each row.
    """
    names = model.label_names
    if model.label_priors is None:
        raise DataError("this model has no label priors, by which suggestions are explained; train it again")
    encoded = model.encoder.encode(data.rows, data.row_edges)
    found = []
    for row in range(len(logits)):
        ranked = labelling.suggest(model.given_known(), logits[row], states[row], model.label_priors, most)
        first = np.array([one.label for one in ranked[:MOST_WITH_PARTS]], dtype=np.int64)
        parts = dict(zip(first.tolist(), input_parts(model, encoded, row, first), strict=True))
        found.append(
            [
                {
                    "label": names[one.label],
                    "proba": round(one.proba, 6),
                    "input": round(one.from_input, 4),
                    "parts": [part.to_json() | {"moved": round(part.moved, 4)} for part in parts.get(one.label, ())],
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


def explanations(
    model: FittedModel, data: Dataset, states: States | None, labels: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Each row as `lampnet explain` writes it; where labels are known, also how far each of them moved the others."""
    shown = Shown(labels=label_numbers(model.label_names, labels or ()))
    if states is not None:
        data = replace(data, known=as_dicts(states, model.label_names))
    predicted = predict_rows(model, data)
    explained = explain_predicted(predicted, shown=shown)
    if states is None:
        return [one.to_json() for one in explained]
    return [
        one.to_json() | {"known_shifts": _known_shifts(model, one, predicted.logits[row], states[row])}
        for row, one in enumerate(explained)
    ]


def _known_shifts(
    model: FittedModel, explained: Explanation, logits: np.ndarray, states: np.ndarray
) -> dict[str, dict[str, float]]:
    """How far each known label moved the log-odds of each shown label that is open: {label: {known label: shift}}."""
    known = np.flatnonzero(states != UNKNOWN)
    if not len(known):
        return {}
    conditional, names = model.given_known(), model.label_names
    open_labels = conditional.implied(states[None])[0] == UNKNOWN
    without = conditional.without_each(logits, states)
    return {
        names[i]: {names[j]: round(float(without[0, i] - without[k, i]), 4) for k, j in enumerate(known, start=1)}
        for i in explained.label_index.tolist()
        if open_labels[i]
    }
