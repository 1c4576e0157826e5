"""What matters over a whole set of rows: the mean size of each contribution, by feature, part and label.

Every base learner's terms are taken by feature, also those of the neighbours: a neighbour's vote is divided by what
each feature has of its similarity. The network's messages are not divided by feature; they count as parts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.encoders.base import NamedFeature
from lampnet.errors import DataError, did_you_mean
from lampnet.explain.attention import PredictedRows, Stages
from lampnet.inference.predictor import FittedModel

#: rows whose terms are computed at once
_ROWS = 16
#: features listed of a label, of all labels together, and labels that are shown, the most frequent
MOST_FEATURES, MOST_OVERALL, MOST_LABELS = 10, 30, 60
MESSAGES_FROM_INPUT, MESSAGES_FROM_LABELS = "messages from the input", "messages from labels"
THE_INPUT = "the input"


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Mean absolute contributions to the logits, over n rows, of the K labels looked at.

    labels      their names
    features    F features that any label has a contribution of, each with its part
    by_feature  float64 (F, K)
    parts       P parts of the rows, or "the input" where there is one; then the messages, where they count
    by_part     float64 (P, K): of a row the contributions of a part are added up before their size is taken
    by_learner  name -> float64 (K,): of each base learner as a whole, beyond where its sum starts
    n_rows      n
    """

    labels: tuple[str, ...]
    features: tuple[NamedFeature, ...]
    by_feature: np.ndarray
    parts: tuple[str, ...]
    by_part: np.ndarray
    by_learner: dict[str, np.ndarray]
    n_rows: int

    def top(self, label: Any = None, most: int = MOST_FEATURES) -> list[tuple[str, str, float]]:
        """(feature, part, mean size) of the most important features of a label, or of all labels on average."""
        size = self.by_feature.mean(axis=1) if label is None else self.by_feature[:, self._number(label)]
        order = np.argsort(-size, kind="stable")[:most]
        return [(self.features[i].name, self.features[i].part, float(size[i])) for i in order if size[i] > 0]

    def _number(self, label: Any) -> int:
        if str(label) not in self.labels:
            raise DataError(f"the importance has no label {str(label)[:80]!r}; {did_you_mean(str(label), self.labels)}")
        return self.labels.index(str(label))

    def to_json(self) -> dict[str, Any]:
        """Plain data: what is most important, rounded."""

        def listed(found: list[tuple[str, str, float]]) -> list[dict[str, Any]]:
            return [{"name": name, "part": part, "size": round(size, 5)} for name, part, size in found]

        return {
            "rows": self.n_rows,
            "labels": list(self.labels),
            "parts": [
                {"part": part, "mean": round(float(sizes.mean()), 5), "by_label": np.round(sizes, 5).tolist()}
                for part, sizes in zip(self.parts, self.by_part, strict=True)
            ],
            "learners": {name: np.round(sizes, 5).tolist() for name, sizes in self.by_learner.items()},
            "features": listed(self.top(most=MOST_OVERALL)),
            "by_label": {label: listed(self.top(label)) for label in self.labels},
        }


def importance_of(
    predicted: PredictedRows, rows: np.ndarray | None = None, labels: np.ndarray | None = None
) -> Importance:
    """What matters in rows that are predicted already, all by default, for labels by number.

    By default the labels are those with the highest probabilities over these rows, at most `MOST_LABELS`.
    """
    model = predicted.model
    rows = np.arange(len(predicted)) if rows is None else rows
    if labels is None:
        labels = np.sort(np.argsort(-predicted.proba[rows].mean(axis=0), kind="stable")[:MOST_LABELS])
    n_features, K = model.encoder.n_features, len(labels)
    by_feature = np.zeros((n_features if model.stack is not None else 0, K))
    learners = {} if model.stack is None else {name: np.zeros(K) for name in model.stack.names}
    part_of, parts = _parts(model)
    by_part = np.zeros((len(parts), K))
    filled = rows[predicted.examples.nodes.lengths()[rows] > 0]  # the others are predicted from the label priors
    for first in range(0, len(filled) if model.stack is not None else 0, _ROWS):
        some = filled[first : first + _ROWS]
        assert model.stack is not None
        _, terms_of = model.stack.terms(predicted.encoded.features, some, labels)
        keys, values = [], []
        for name, terms in zip(model.stack.names, terms_of, strict=True):
            whole = np.zeros((len(some), K))
            np.add.at(whole, terms.rows_E(), terms.values_EK)
            learners[name] += np.abs(whole).sum(axis=0)
            keys.append(terms.rows_E() * n_features + terms.columns_E)
            values.append(terms.values_EK)
        pairs, which = np.unique(np.concatenate(keys), return_inverse=True)  # of a row and a feature
        joined = np.zeros((len(pairs), K))
        np.add.at(joined, which, np.concatenate(values))
        np.add.at(by_feature, pairs % n_features, np.abs(joined))
        of_parts = np.zeros((len(some), len(parts), K))
        np.add.at(of_parts, (pairs // n_features, part_of[pairs % n_features]), joined)
        by_part += np.abs(of_parts).sum(axis=0)
    messages = _message_sizes(predicted, filled, labels)
    n = max(1, len(rows))
    there = np.flatnonzero(by_feature.any(axis=1))
    return Importance(
        labels=tuple(model.label_names[label] for label in labels),
        features=tuple(model.encoder.name_features(there)) if len(there) else (),
        by_feature=by_feature[there] / n,
        parts=(*(parts if model.stack is not None else ()), *messages),
        by_part=np.vstack([by_part[: len(parts) if model.stack is not None else 0], *messages.values()]) / n,
        by_learner={name: sizes / n for name, sizes in learners.items()},
        n_rows=len(rows),
    )


def _parts(model: FittedModel) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each feature's part, and the parts' names."""
    named = model.encoder.name_features(np.arange(model.encoder.n_features))
    names = [feature.part or THE_INPUT for feature in named]
    parts = tuple(dict.fromkeys(names))
    place = {name: number for number, name in enumerate(parts)}
    return np.array([place[name] for name in names], dtype=np.int64), parts


def _message_sizes(predicted: PredictedRows, rows: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Sums over the rows of the size of what messages add, (1, K) each; nothing where the network does not count."""
    model = predicted.model
    if model.network is None or model.network_weight == 0:
        return {}
    sizes = {name: np.zeros((1, len(labels))) for name in (MESSAGES_FROM_INPUT, MESSAGES_FROM_LABELS)}
    for batch, output in predicted.attention_batches(rows):
        views = [Stages.of(output, model), *(Stages.of(model.output(v, batch), model) for v in predicted.views[1:])]
        logits = np.mean([stages.logits[:, :, labels] for stages in views], axis=0)
        steps = np.diff(logits, axis=1)
        if views[0].names[0] != "0":  # the first stage has no stage before it: it is all from the input
            steps = np.concatenate([logits[:, :1], steps], axis=1)
        for number, name in enumerate(sizes):
            sizes[name] += model.network_weight * np.abs(steps[:, number::2].sum(axis=1)).sum(axis=0)
    return sizes
