"""Every logit of explained rows as a sum: base learners by feature and neighbour, messages, calibration, known labels.

Axes: K labels shown of one row, U labels shown of several, L all labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.base_learners.label_dependence import SHIFTS
from lampnet.data.known_labels import UNKNOWN, is_soft
from lampnet.explain.attention import PredictedRows
from lampnet.explain.contributions import CALIBRATION, HIERARCHY, HOW_MUCH, START, Contribution, LogitSum, Term
from lampnet.explain.given_known import GivenKnown

#: terms listed of a source, the largest
MOST_TERMS = 12
#: labels listed of a neighbour
MOST_NEIGHBOUR_LABELS = 8
#: logits that differ by less are the same
ROUNDING = 1e-4
#: rows whose terms are computed at once
_ROWS = 8


@dataclass(frozen=True)
class StageLogits:
    """What the network made of one row: its logits before calibration, the mean over the views of the row.

    names      G stages
    logits_GK  of the labels shown
    bias_K     what the readout adds to every stage from 1.1 on, whatever the messages
    """

    names: tuple[str, ...]
    logits_GK: np.ndarray
    bias_K: np.ndarray


def logit_sums(
    predicted: PredictedRows,
    labels: Mapping[int, np.ndarray],
    stages: Mapping[int, StageLogits],
    given: GivenKnown,
) -> dict[int, tuple[LogitSum, ...]]:
    """The logits of the labels shown of each row, by position.

    labels  the labels shown of each row, by number
    stages  of each row, where the network counts
    """
    rows = np.array(sorted(labels), dtype=np.int64)
    sums: dict[int, tuple[LogitSum, ...]] = {}
    for first in range(0, len(rows), _ROWS):
        some = rows[first : first + _ROWS]
        of_learners = _learner_contributions(predicted, some, labels)
        for row, learners in zip(some.tolist(), of_learners, strict=True):
            whole = _whole(predicted, row, labels[row], learners, stages.get(row), given)
            sums[row] = tuple(
                LogitSum(
                    label=predicted.model.label_names[label],
                    logit=float(given.given_logits[row, label]),
                    contributions=tuple(of_label),
                )
                for label, of_label in zip(labels[row], whole, strict=True)
            )
    return sums


def _whole(
    predicted: PredictedRows,
    row: int,
    labels: np.ndarray,
    learners: list[list[Contribution]],
    stages: StageLogits | None,
    given: GivenKnown,
) -> list[list[Contribution]]:
    """The contributions to each label shown of one row."""
    before = predicted.logits[row, labels].astype(np.float64)  # with nothing known
    if not predicted.examples.nodes.lengths()[row] and predicted.model.label_priors is not None:
        found = [[Contribution(source=START, value=float(value))] for value in before]  # only the label priors count
    else:
        found = [list(of_label) for of_label in learners]
        if stages is not None:
            weight = predicted.model.network_weight
            for source, values in _message_steps(stages, predicted.model.stack is not None):
                _add(found, source, weight * values)
        sums = np.array([sum(one.value for one in of_label) for of_label in found])
        if predicted.model.calibration is not None:
            _add(found, CALIBRATION, predicted.model.calibration.moved(sums, labels))
        if predicted.model.hierarchy is not None:
            sums = np.array([sum(one.value for one in of_label) for of_label in found])
            _add(found, HIERARCHY, np.where(before < sums - ROUNDING, before - sums, 0.0))
    for source, values in _known_steps(predicted, row, labels, given):
        _add(found, source, values)
    return found


def _add(found: list[list[Contribution]], source: str, values: Sequence[float] | np.ndarray) -> None:
    for of_label, value in zip(found, values, strict=False):
        of_label.append(Contribution(source=source, value=float(value)))


def _message_steps(stages: StageLogits, has_stack: bool) -> Iterator[tuple[str, np.ndarray]]:
    """What each step of the messages adds, (K,) each, on top of the stacked logits where there are any."""
    names, logits = stages.names, stages.logits_GK.astype(np.float64)
    last = np.zeros(logits.shape[1])
    if names[0] == "0":
        if not has_stack:
            yield "comparison with label vectors", logits[0]
        last, names, logits = logits[0], names[1:], logits[1:]
    yield "bias of the readout", stages.bias_K
    last = last + stages.bias_K
    for name, reached in zip(names, logits, strict=True):
        step, _, part = name.partition(".")
        yield f"messages from {'the input' if part == '1' else 'labels'}, step {step}", reached - last
        last = reached


def _known_steps(
    predicted: PredictedRows, row: int, labels: np.ndarray, given: GivenKnown
) -> Iterator[tuple[str, np.ndarray]]:
    """What is known of the row's labels adds, (K,) each; nothing where nothing is known."""
    conditional = predicted.model.conditional
    if conditional is None or not given.any_known(row):
        return
    logits, states = given.logits[row][None], given.states[row][None]
    if is_soft(states).any():  # a mean over what may be true has no single sum of shifts
        yield "known labels", np.asarray(given.given_logits[row, labels] - logits[0, labels], dtype=np.float64)
        return
    free = np.asarray(conditional.free_logits(logits, states)[0, labels], dtype=np.float64)
    shifts = conditional.dependence.shifts(logits, states)
    parts = conditional.shift_weights.parts(logits, shifts, states)[0, labels].astype(np.float64)
    for name, values in zip((HOW_MUCH, *SHIFTS), parts.T, strict=False):
        yield f"known labels: {name}", values
    rest = free - logits[0, labels] - parts.sum(axis=1)
    if conditional.members:
        yield "known labels: messages", rest
    stated = given.states[row, labels] != UNKNOWN
    if stated.any():
        yield "known", np.where(stated, given.given_logits[row, labels] - free, 0.0)
    if conditional.hierarchy is not None:
        below = given.given_logits[row, labels] - free
        yield f"known labels: {HIERARCHY}", np.where(stated | (below > -ROUNDING), 0.0, below)


def _learner_contributions(
    predicted: PredictedRows, rows: np.ndarray, labels: Mapping[int, np.ndarray]
) -> list[list[list[Contribution]]]:
    """For each row and each of its labels: the start, and what each base learner adds."""
    stack = predicted.model.stack
    if stack is None:
        return [[[] for _ in labels[row]] for row in rows.tolist()]
    union = np.unique(np.concatenate([labels[row] for row in rows.tolist()]))
    bias_U, learners = stack.terms(predicted.encoded.features, rows, union)
    found = []
    for at, row in enumerate(rows.tolist()):
        own = np.searchsorted(union, labels[row])
        start_K = bias_U[own] + sum(terms.start_nK[at, own] for terms in learners)
        of_labels = [[Contribution(source=START, value=float(value))] for value in start_K]
        for name, terms in zip(stack.names, learners, strict=True):
            added = _RowTerms(predicted, row, at, terms, own)
            for k, of_label in enumerate(of_labels):
                of_label.append(added.contribution(name, k))
        found.append(of_labels)
    return found


class _RowTerms:
    """The terms of one learner in one row."""

    def __init__(self, predicted: PredictedRows, row: int, at: int, terms: FeatureTerms, own: np.ndarray) -> None:
        self.predicted, self.row = predicted, row
        span = slice(int(terms.offsets[at]), int(terms.offsets[at + 1]))
        self.columns, self.values_EK = terms.columns_E[span], terms.values_EK[span][:, own]
        near = terms.neighbours
        self.neighbours = None if near is None else (near.index_nJ[at], near.similarity_nJ[at])
        if near is not None:
            self.values_EK = near.shares_nJK[at][:, own]

    def contribution(self, source: str, k: int) -> Contribution:
        values = self.values_EK[:, k]
        there = np.flatnonzero(values)
        largest = there[np.argsort(-np.abs(values[there]), kind="stable")[:MOST_TERMS]]
        total = float(values.sum())
        return Contribution(
            source=source,
            value=total,
            terms=self._neighbours(source, largest, values) if self.neighbours else self._features(largest, values),
            n_terms=len(there),
            others=total - float(values[largest].sum()),
        )

    def _features(self, largest: np.ndarray, values: np.ndarray) -> tuple[Term, ...]:
        named = self.predicted.encoded.named_features(self.row, self.columns[largest])
        return tuple(
            Term(name=feature.name, part=feature.part, value=float(value), places=feature.places)
            for feature, value in zip(named, values[largest], strict=True)
        )

    def _neighbours(self, learner: str, largest: np.ndarray, values: np.ndarray) -> tuple[Term, ...]:
        assert self.neighbours is not None
        index, similarity = self.neighbours
        names, stack = self.predicted.model.label_names, self.predicted.model.stack
        assert stack is not None
        found = []
        for j in largest:
            name, own = stack.neighbour(learner, int(index[j]))
            found.append(
                Term(
                    name=name,
                    value=float(values[j]),
                    labels=tuple(names[label] for label in own[:MOST_NEIGHBOUR_LABELS]),
                    similarity=float(similarity[j]),
                )
            )
        return tuple(found)
