"""`Explanation`: every stage's probabilities and all attention weights of one row, as plain data.

The attention weights are those of the softmax (eq. 3), without dropout, as used in the prediction; pictures and
pages show the mean over heads unless one head is selected. Attention shows where messages came from, not what
they did: `lampnet.explain.faithfulness` checks how far it can be trusted.

Axes: T steps, G stages, H heads, K labels shown, N nodes shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.known_labels import known_value
from lampnet.explain.contributions import LogitSum
from lampnet.explain.input_view import Node


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why one row got its labels.

    row, id            the row's number in its data set, and its name
    input              the row itself as JSON data, by its kind (see `lampnet.explain.input_view`)
    nodes              the N input nodes shown, in the row's order; n_nodes is how many it has
    labels             the K labels shown; n_labels is how many the model has
    label_index        int (K,), their numbers among the model's labels
    stages             G names: "0" (the initial prediction, before any message), "1.1", "1.2", ..., "T.2"
    stage_proba        float32 (G, K)
    proba              float32 (K,), exactly what `FittedModel.proba` gives
    chosen             bool (K,), whether a label is predicted
    threshold          float32 (K,), the probability that each label had to reach in this row
    rule               the decision rule in words
    truth              float32 (K,), NaN where unknown; None for rows without labels
    to_input           float32 (T, H, K, N), label-to-feature attention of the stages t.1
    to_labels          float32 (T, H, K, K), label-to-label attention of the stages t.2; [.., i, j] is how much
                       label i attends to label j
    exchanges_messages bool (K,), False for labels outside the shortlist, which send and receive no messages
    note               anything else that a reader must know
    known              int8 (K,), 1 and -1 where a label was known to be true and false; None where nothing was. Then
                       `proba` and `chosen` are those given what was known, and the stages those of the input alone
    logit_sums         of each label shown: its logit, and the contributions that add up to it (see
                       `lampnet.explain.contributions`)
    what_if            float32 (K, 2, K), [j, 0] the probabilities if label j were known to be true, [j, 1] if false;
                       None for a model that cannot take known labels
    """

    row: int
    id: str
    data: str
    input: dict[str, Any]
    nodes: tuple[Node, ...]
    n_nodes: int
    labels: tuple[str, ...]
    n_labels: int
    label_index: np.ndarray
    stages: tuple[str, ...]
    stage_proba: np.ndarray
    proba: np.ndarray
    chosen: np.ndarray
    threshold: np.ndarray
    rule: str
    truth: np.ndarray | None
    to_input: np.ndarray
    to_labels: np.ndarray
    exchanges_messages: np.ndarray
    logit_sums: tuple[LogitSum, ...]
    note: str = ""
    known: np.ndarray | None = None
    what_if: np.ndarray | None = None

    @property
    def steps(self) -> int:
        """T."""
        return int(self.to_input.shape[0])

    @property
    def heads(self) -> int:
        """H."""
        return int(self.to_input.shape[1])

    def positive(self) -> np.ndarray:
        """Which of the labels shown are true; where the truth is unknown, which are predicted."""
        return np.flatnonzero(self.chosen if self.truth is None else np.nan_to_num(self.truth) > 0)

    def truth_json(self) -> list[bool | None] | None:
        """The truth as JSON data; None where it is unknown."""
        return None if self.truth is None else [None if np.isnan(t) else bool(t) for t in self.truth]

    def known_json(self) -> list[bool | float | None] | None:
        """What was known as JSON data, a probability where that was known; None where a label was unknown."""
        return None if self.known is None else [None if state == 0 else known_value(state) for state in self.known]

    def to_json(self) -> dict[str, Any]:
        """JSON data; attention per head and averaged over heads, rounded to five digits."""
        return {
            "row": self.row,
            "id": self.id,
            "data": self.data,
            "input": self.input,
            "nodes": [node.to_json() for node in self.nodes],
            "n_nodes": self.n_nodes,
            "labels": list(self.labels),
            "n_labels": self.n_labels,
            "label_index": self.label_index.tolist(),
            "stages": list(self.stages),
            "stage_proba": _rounded(self.stage_proba),
            "proba": [float(p) for p in self.proba],
            "chosen": self.chosen.tolist(),
            "threshold": _rounded(self.threshold),
            "rule": self.rule,
            "truth": self.truth_json(),
            "attention": {
                "to_input": {"heads": _rounded(self.to_input), "mean": _rounded(self.to_input.mean(axis=1))},
                "to_labels": {"heads": _rounded(self.to_labels), "mean": _rounded(self.to_labels.mean(axis=1))},
            },
            "exchanges_messages": self.exchanges_messages.tolist(),
            "logit_sums": [one.to_json() for one in self.logit_sums],
            "note": self.note,
            "known": self.known_json(),
            "what_if": None if self.what_if is None else _rounded(self.what_if),
        }


def strongest(to_input: np.ndarray, most: int) -> np.ndarray:
    """The nodes with most attention, float (T, K, S), of any label at any step: at most `most`, in their order.

    >>> strongest(np.array([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]]), 2).tolist()
    [0, 2]
    """
    weight = to_input.max(axis=(0, 1), initial=0.0)
    found: np.ndarray = np.sort(np.argsort(-weight, kind="stable")[:most])
    return found


def _rounded(values: np.ndarray) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 5).tolist()
