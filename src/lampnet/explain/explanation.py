"""Model and rows -> `Explanation`: every stage's probabilities and all attention of a row, as plain data.

The attention shown is what the softmax gave (eq. 3), without dropout, as it was used to predict; pictures
and pages show the mean over heads unless one head is chosen. Attention says where messages came from, not
what they did: `lampnet.explain.faithfulness` checks how far it can be trusted.

Axes: T steps, G stages, H heads, K labels in play, N nodes shown, S all nodes, L all labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError, did_you_mean
from lampnet.evaluation.rules import PerLabelThreshold, Rule, Threshold
from lampnet.explain.input_view import Node, describe_input
from lampnet.inference.examples import Examples
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.lamp import Output

#: Labels shown for a row: at most, and at least where the model has so many.
MOST_LABELS, FEWEST_LABELS = 40, 14
#: Nodes kept for a row, those with most attention.
MOST_NODES = 256
_BATCH_BYTES = 160_000_000
STRANDS = (
    "Stages and attention are those of the strand as given; the probability and the decision "
    "average both strands, as every prediction of this model does."
)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why one row got its labels.

    row, id            the row's number in its data set, and its name
    input              the row itself as JSON data, by its kind (see `lampnet.explain.input_view`)
    nodes              the N input nodes shown, in the row's order; n_nodes is how many it has
    labels             the K labels in play; n_labels is how many the model has
    numbers            int (K,), their places among the model's labels
    stages             G names: "0" (the first opinion, before any message), "1.1", "1.2", ..., "T.2"
    stage_proba        float32 (G, K)
    proba              float32 (K,), exactly what `FittedModel.proba` gives
    chosen             bool (K,), the decision
    threshold          float32 (K,), the cut-off each label had to reach in this row
    rule               the decision rule in words
    truth              float32 (K,), NaN where unknown; None for rows without labels
    to_input           float32 (T, H, K, N), label-to-feature attention of the stages t.1
    to_labels          float32 (T, H, K, K), label-to-label attention of the stages t.2; [.., i, j] is how much
                       label i listened to label j
    listening          bool (K,), False for labels outside the candidates, which exchanged no messages
    note               what a reader must know besides
    """

    row: int
    id: str
    data: str
    input: dict[str, Any]
    nodes: tuple[Node, ...]
    n_nodes: int
    labels: tuple[str, ...]
    n_labels: int
    numbers: np.ndarray
    stages: tuple[str, ...]
    stage_proba: np.ndarray
    proba: np.ndarray
    chosen: np.ndarray
    threshold: np.ndarray
    rule: str
    truth: np.ndarray | None
    to_input: np.ndarray
    to_labels: np.ndarray
    listening: np.ndarray
    note: str = ""

    @property
    def steps(self) -> int:
        """T."""
        return int(self.to_input.shape[0])

    @property
    def heads(self) -> int:
        """H."""
        return int(self.to_input.shape[1])

    def positive(self) -> np.ndarray:
        """Places (among the labels in play) of the true labels; of the chosen ones where truth is unknown."""
        marked = self.chosen if self.truth is None else np.nan_to_num(self.truth) > 0
        return np.flatnonzero(marked)

    def to_json(self) -> dict[str, Any]:
        """JSON data; attention per head and averaged over heads, rounded to five digits."""
        unknown = self.truth is None
        return {
            "row": self.row,
            "id": self.id,
            "data": self.data,
            "input": self.input,
            "nodes": [node.to_json() for node in self.nodes],
            "n_nodes": self.n_nodes,
            "labels": list(self.labels),
            "n_labels": self.n_labels,
            "numbers": [int(number) for number in self.numbers],
            "stages": list(self.stages),
            "stage_proba": _rounded(self.stage_proba),
            "proba": [float(p) for p in self.proba],
            "chosen": [bool(c) for c in self.chosen],
            "threshold": _rounded(self.threshold),
            "rule": self.rule,
            "truth": None if unknown else [None if np.isnan(t) else bool(t) for t in np.asarray(self.truth)],
            "attention": {
                "to_input": {"heads": _rounded(self.to_input), "mean": _rounded(self.to_input.mean(axis=1))},
                "to_labels": {"heads": _rounded(self.to_labels), "mean": _rounded(self.to_labels.mean(axis=1))},
            },
            "listening": [bool(x) for x in self.listening],
            "note": self.note,
        }


def explain(
    model: FittedModel,
    data: Dataset,
    rows: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    *,
    rule: Rule | None = None,
    max_labels: int = MOST_LABELS,
    max_nodes: int = MOST_NODES,
) -> list[Explanation]:
    """Explain rows of a data set.

    Parameters
    ----------
    model : FittedModel
    data : Dataset
        Rows of the kind the model was trained on, with or without labels.
    rows : sequence of int, optional
        Row numbers; all rows by default.
    labels : sequence of str, optional
        Labels to show whether or not they are in play.
    rule : Rule, optional
        What decides; by default the best rule for example-F1.
    max_labels, max_nodes : int
        What a row may show: true and chosen labels, those they listened to, and those that moved most;
        the nodes with most attention.
    """
    data = model.check(data)
    index = checked_rows(data, rows)
    wanted = label_numbers(model.label_names, labels or ())
    part = data.take(index)
    views = model.views(model.encoder.encode(part.rows, part.row_edges))
    proba = model.proba_of(views)
    rule = decision_rule(model) if rule is None else rule
    chosen = rule.apply(proba)
    truth = part.indicator() if part.labels is not None else None
    explained: list[Explanation | None] = [None] * len(index)
    limits = (max(1, max_labels), max(1, max_nodes))
    for places, output in recorded_batches(model, views[0]):
        for b, place in enumerate(places):
            one = part.take(np.array([place]))
            row_truth = None if truth is None else truth[place]
            explained[place] = replace(
                _explain_row(model, one, output, b, proba[place], chosen[place], row_truth, rule, wanted, limits),
                row=int(index[place]),
                id=part.ids[place] if part.ids is not None else f"row {index[place]}",
            )
    return [explanation for explanation in explained if explanation is not None]


def decision_rule(model: FittedModel) -> Rule:
    """The rule that `lampnet predict` decides with unless it is told a metric: the best one for example-F1."""
    return model.decisions.best["example_f1"]


def stage_names(output: Output) -> tuple[str, ...]:
    """ "0" where there is a first opinion, then "1.1", "1.2", ..."""
    names = tuple(f"{t}.{part}" for t in range(1, len(output.stages) // 2 + 1) for part in (1, 2))
    return names if output.initial is None else ("0", *names)


def stage_probabilities(output: Output) -> np.ndarray:
    """float32 (B, G, L) of a batch."""
    logits = output.stages if output.initial is None else [output.initial, *output.stages]
    like = output.stages[-1]
    return probabilities(np.stack([x.expand_as(like).float().numpy() for x in logits], axis=1))


def recorded_batches(model: FittedModel, examples: Examples) -> Iterator[tuple[np.ndarray, Output]]:
    """Places of a few rows and what the network recorded of them; few at a time where attention is large."""
    lengths = examples.nodes.lengths()
    n_labels, config = len(model.label_names), model.config.model
    heard = min(n_labels, config.shortlist) if config.shortlist else n_labels
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        most = order[start : start + 32]
        cost = 4 * config.steps * config.heads * heard * (heard + int(lengths[most].max()) + 1)
        places = most[: max(1, _BATCH_BYTES // cost)]
        yield places, model.output(examples, places)
        start += len(places)


class RowAttention:
    """All attention of one row of a recorded batch, kept among the M labels that took part."""

    def __init__(self, output: Output, b: int, n_labels: int, n_nodes: int | None = None) -> None:
        assert output.to_input is not None
        assert output.to_labels is not None
        own = np.arange(n_labels) if output.shortlist is None else output.shortlist[b].numpy()
        self.own = own  # (M,) label numbers
        self.place = np.full(n_labels, -1, dtype=np.int64)  # where a label stands among them
        self.place[own] = np.arange(len(own))
        rows = [x[min(b, len(x) - 1)] for x in output.to_input]
        self._to_input = np.stack([x[:, :, :n_nodes].float().numpy() for x in rows])  # (T, H, M, S)
        self._to_labels = np.stack([x[b].float().numpy() for x in output.to_labels])  # (T, H, M, M) or (.., M, 1)
        self.edgeless = self._to_labels.shape[-1] == 1 and len(own) > 1

    def to_input(self, labels: np.ndarray) -> np.ndarray:
        """float32 (T, H, K, S); zeros for labels that took no part."""
        there = self.place[labels] >= 0
        chosen: np.ndarray = np.where(there[:, None], self._to_input[:, :, self.place[labels]], np.float32(0))
        return chosen

    def to_labels(self, labels: np.ndarray) -> np.ndarray:
        """float32 (T, H, K, K)."""
        place = self.place[labels]
        there = place >= 0
        if self.edgeless:  # every label hears only itself
            steps, heads = self._to_labels.shape[:2]
            return np.broadcast_to(np.diag(there.astype(np.float32)), (steps, heads, len(place), len(place))).copy()
        open_pairs = there[:, None] & there
        chosen: np.ndarray = np.where(open_pairs, self._to_labels[:, :, place[:, None], place], np.float32(0))
        return chosen

    def heard(self, label: int) -> np.ndarray:
        """float32 (M,): how much a label listened to each of `own` but itself, mean over steps and heads."""
        at = self.place[label]
        if at < 0 or self.edgeless:
            return np.zeros(len(self.own), dtype=np.float32)
        mean: np.ndarray = self._to_labels[:, :, at].mean(axis=(0, 1))
        mean[at] = 0.0
        return mean


def checked_rows(data: Dataset, rows: Sequence[int] | None) -> np.ndarray:
    """Row numbers as an array; an error that says what is allowed for one that does not exist."""
    index = np.arange(len(data)) if rows is None else np.asarray(list(rows), dtype=np.int64)
    bad = index[(index < 0) | (index >= len(data))]
    if len(bad):
        raise DataError(f"{data.name}: there is no row {bad[0]}; rows are counted from 0 to {len(data) - 1}")
    return index


def label_numbers(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Places of labels by name.

    >>> label_numbers(("red", "blue"), ["blue"])
    [1]
    """
    place = {name: i for i, name in enumerate(names)}
    for label in labels:
        if label not in place:
            raise DataError(f"the model has no label {label!r}; {did_you_mean(label, names)}")
    return [place[label] for label in labels]


def _explain_row(
    model: FittedModel,
    one: Dataset,
    output: Output,
    b: int,
    proba: np.ndarray,
    chosen: np.ndarray,
    truth: np.ndarray | None,
    rule: Rule,
    wanted: list[int],
    limits: tuple[int, int],
) -> Explanation:
    nodes, shown = describe_input(model.encoder, one.rows)
    stages = stage_probabilities(output)[b]
    attention = RowAttention(output, b, len(model.label_names), len(nodes))
    positive = chosen if truth is None else chosen | (np.nan_to_num(truth) > 0)
    play = labels_in_play(stages, proba, positive, attention, wanted, limits[0])
    to_input = attention.to_input(play)
    # The nodes that matter to any label in play at any step, in the row's own order.
    weight = to_input.mean(axis=1).max(axis=(0, 1), initial=0.0)
    kept = np.sort(np.argsort(-weight, kind="stable")[: limits[1]])
    two_views = model.encoder.encode(one.rows).other_view is not None
    return Explanation(
        row=0,
        id="",
        data=one.name,
        input=shown,
        nodes=tuple(nodes[i] for i in kept),
        n_nodes=len(nodes),
        labels=tuple(model.label_names[i] for i in play),
        n_labels=len(model.label_names),
        numbers=play,
        stages=stage_names(output),
        stage_proba=stages[:, play],
        proba=proba[play],
        chosen=chosen[play],
        threshold=_cut_offs(rule, proba, chosen)[play],
        rule=rule.describe(),
        truth=None if truth is None else truth[play],
        to_input=to_input[..., kept],
        to_labels=attention.to_labels(play),
        listening=attention.place[play] >= 0,
        note=STRANDS if two_views else "",
    )


def labels_in_play(
    stages: np.ndarray,
    proba: np.ndarray,
    positive: np.ndarray,
    attention: RowAttention,
    wanted: Sequence[int],
    most: int,
) -> np.ndarray:
    """Which labels a row shows, int (K,), by falling probability.

    Asked-for labels come first, then the true and chosen ones, then those they listened to most, then
    those whose probability moved most between stages.

    Parameters
    ----------
    stages : float (G, L)
    proba : float (L,)
    positive : bool (L,)
    attention : RowAttention
    wanted : label numbers
    most : int
    """
    n_labels = len(proba)
    by_proba = np.argsort(-proba, kind="stable")
    marked = [int(i) for i in by_proba if positive[i]]
    enough = min(n_labels, most, max(FEWEST_LABELS, len(marked) + 6))
    spoke = []
    for label in marked[:most]:
        heard = attention.heard(label)
        loudest = np.argsort(-heard, kind="stable")[:2]
        spoke += [int(attention.own[j]) for j in loudest if heard[j] > 0]
    moved = np.abs(np.diff(stages, axis=0)).max(axis=0, initial=0.0) if len(stages) > 1 else proba
    order = [*wanted, *marked, *spoke, *(int(i) for i in np.argsort(-moved, kind="stable"))]
    chosen = list(dict.fromkeys(order))[: max(enough, min(len(set(wanted)), most))]
    rank = np.argsort(by_proba)
    return np.array(sorted(chosen, key=lambda i: rank[i]), dtype=np.int64)


def _cut_offs(rule: Rule, proba: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """float32 (L,): what each label's probability had to reach in this row."""
    lowest = proba[chosen].min() if chosen.any() else 1.0
    if isinstance(rule, Threshold):  # a row that must have a label may have taken one from below
        return np.full(len(proba), min(rule.value, lowest), dtype=np.float32)
    if isinstance(rule, PerLabelThreshold):
        return np.asarray(rule.values, dtype=np.float32)
    # Rules about the whole set: the row's cut lies at its least probable chosen label.
    return np.full(len(proba), lowest, dtype=np.float32)


def _rounded(values: np.ndarray) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 5).tolist()
