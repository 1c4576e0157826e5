"""Which parts of one row's input move a label most: words, columns, fragments, through all base learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows, NamedFeature
from lampnet.inference.predictor import FittedModel

#: parts that are named of each label
MOST_PARTS = 6
#: a shift of the log-odds this small is not shown
LEAST = 0.05


@dataclass(frozen=True, kw_only=True)
class InputPart:
    """A part of the input that moves a label.

    name    the word, column, fragment, ...
    part    the part of the row or the column that it comes from; "" where there is only one
    moved   what it adds to the stacked logit, before calibration
    places  where it lies in the input, as in `EncodedRows.node_places`
    """

    name: str
    part: str
    moved: float
    places: tuple[tuple[int, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; a name says which part of the row it comes from where there are several."""
        named = self.part in ("", self.name) or self.name.startswith((f"{self.part}=", f"{self.part} ("))
        name = self.name if named else f"{self.part}: {self.name}"
        return {"part": name, "moved": self.moved, "places": [list(place) for place in self.places]}


def input_parts(model: FittedModel, encoded: EncodedRows, row: int, labels_K: np.ndarray) -> list[list[InputPart]]:
    """For each of these labels the parts of one row that move it most.

    None where the model has no base learners, or where labels were changed since they were fitted.
    """
    if model.stack is None or model.shown is not None or not len(labels_K):
        return [[] for _ in labels_K]
    _, learners = model.stack.terms(encoded.features, np.array([row]), labels_K)
    columns, at = np.unique(np.concatenate([terms.columns_E for terms in learners]), return_inverse=True)
    sums_CK = np.zeros((len(columns), len(labels_K)))
    np.add.at(sums_CK, at, np.concatenate([terms.values_EK for terms in learners]))
    # Twice as many as are shown: features of the same place become one part.
    largest_TK = np.argsort(-np.abs(sums_CK), axis=0, kind="stable")[: 2 * MOST_PARTS]
    asked = np.unique(largest_TK)
    named = dict(zip(asked.tolist(), encoded.named_features(row, columns[asked]), strict=True))
    found = []
    for k in range(len(labels_K)):
        moved: dict[tuple[object, ...], float] = {}
        shortest: dict[tuple[object, ...], NamedFeature] = {}
        for c in largest_TK[:, k].tolist():
            key = (named[c].part, named[c].places or named[c].name)
            moved[key] = moved.get(key, 0.0) + float(sums_CK[c, k])
            if key not in shortest or len(named[c].name) < len(shortest[key].name):
                shortest[key] = named[c]  # "rome" rather than "rome (opening)"
        ranked = sorted(moved, key=lambda key: -abs(moved[key]))[:MOST_PARTS]
        found.append(
            [
                InputPart(
                    name=shortest[key].name, part=shortest[key].part, moved=moved[key], places=shortest[key].places
                )
                for key in ranked
                if abs(moved[key]) >= LEAST
            ]
        )
    return found
