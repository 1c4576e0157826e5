"""What requests are answered: label sets with scores, suggestions, questions, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States
from lampnet.errors import DataError
from lampnet.evaluation.asked_sets import AskedSets
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
