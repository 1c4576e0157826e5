"""Rows encoded and predicted once, and what the network computed for them: stages and attention.

Explanations and their checks both read from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from lampnet.data.dataset import Dataset
from lampnet.encoders.base import EncodedRows
from lampnet.errors import DataError
from lampnet.evaluation.rules import Rule
from lampnet.inference.examples import Examples
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.lamp import Output

_BATCH_BYTES = 160_000_000


@dataclass(frozen=True)
class PredictedRows:
    """n rows of a data set, encoded and predicted once.

    data      the rows, with the model's labels
    numbers   int (n,), their numbers in the data set that they were taken from
    encoded   the rows as the encoder parsed them
    views     the rows as nodes with their base logits; as given, and from the other side where the input has one
    logits    float32 (n, L), exactly what `FittedModel.logits` gives
    """

    model: FittedModel
    data: Dataset
    numbers: np.ndarray
    encoded: EncodedRows
    views: list[Examples]
    logits: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def examples(self) -> Examples:
        """The rows in the view as given."""
        return self.views[0]

    @cached_property
    def proba(self) -> np.ndarray:
        """float32 (n, L), exactly what `FittedModel.proba` gives."""
        return probabilities(self.logits)

    def truth(self) -> np.ndarray | None:
        """float32 (n, L); None for rows without labels."""
        return None if self.data.labels is None else self.data.indicator()

    def where(self, numbers: np.ndarray) -> np.ndarray:
        """Positions among these rows of the rows with these numbers in the data set."""
        position = {int(number): i for i, number in enumerate(self.numbers)}
        return np.array([position[int(number)] for number in numbers], dtype=np.int64)

    def attention_batches(self, rows: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, Output]]:
        """Positions of a few rows and the network's output for them; few at a time where attention is large.

        Without a network the output has no step: the stacked logits of stage 0, and no label exchanges messages.
        """
        if self.model.network is None:
            rows = np.arange(len(self)) if rows is None else rows
            yield rows, _no_messages(self.examples, rows)
            return
        lengths = self.examples.nodes.lengths()
        n_labels, config = len(self.model.label_names), self.model.config.model
        exchanging = min(n_labels, config.shortlist) if config.shortlist else n_labels
        rows = np.arange(len(self)) if rows is None else rows
        order = rows[np.argsort(lengths[rows], kind="stable")]
        start = 0
        while start < len(order):
            most = order[start : start + 32]
            cost = 4 * config.steps * config.heads * exchanging * (exchanging + int(lengths[most].max()) + 1)
            batch = most[: max(1, _BATCH_BYTES // cost)]
            yield batch, self.model.output(self.examples, batch)
            start += len(batch)


def predict_rows(model: FittedModel, data: Dataset, rows: Sequence[int] | np.ndarray | None = None) -> PredictedRows:
    """Encode and predict some rows of a data set; all rows by default."""
    model.check_labels_as_trained("explained")
    data = model.check(data)
    numbers = np.arange(len(data)) if rows is None else np.asarray(list(rows), dtype=np.int64)
    bad = numbers[(numbers < 0) | (numbers >= len(data))]
    if len(bad):
        raise DataError(f"{data.name}: there is no row {bad[0]}; rows are counted from 0 to {len(data) - 1}")
    part = data.take(numbers)
    encoded = model.encoder.encode(part.rows, part.row_edges)
    views = model.views(encoded)
    return PredictedRows(model, part, numbers, encoded, views, model.logits_of(views))


def _no_messages(examples: Examples, rows: np.ndarray) -> Output:
    stacked = examples.label_input(rows).stacked_BL
    return Output([], stacked, [], [], torch.zeros((len(rows), 0), dtype=torch.int64))


def decision_rule(model: FittedModel) -> Rule:
    """The rule that `lampnet predict` uses by default: the best one for example-F1."""
    return model.decisions.best["example_f1"]


class Stages(NamedTuple):
    """The G stages of a batch: "0" where there is an initial prediction, then "1.1", "1.2", ...

    proba   (B, G, L)
    logits  (B, G, L), before calibration
    """

    names: tuple[str, ...]
    proba: np.ndarray
    logits: np.ndarray

    @classmethod
    def of(cls, output: Output, model: FittedModel) -> Stages:
        """Every stage is calibrated as the model's predictions are."""
        names = [f"{t}.{part}" for t in range(1, len(output.stages) // 2 + 1) for part in (1, 2)]
        logits = output.stages
        if output.initial is not None:
            names, logits = ["0", *names], [output.initial, *logits]
        raw = [x.expand_as(logits[-1]).float().numpy() for x in logits]
        calibrated = [model.calibrated(x) for x in raw]
        return cls(tuple(names), probabilities(np.stack(calibrated, axis=1)), np.stack(raw, axis=1))


class RowAttention:
    """All attention weights of one row of a batch, among the M labels that exchanged messages."""

    def __init__(self, output: Output, b: int, n_labels: int, n_nodes: int | None = None) -> None:
        assert output.to_input is not None
        assert output.to_labels is not None
        self.labels = np.arange(n_labels) if output.shortlist is None else output.shortlist[b].numpy()  # (M,)
        self.position = np.full(n_labels, -1, dtype=np.int64)  # of each label among them; -1 for the others
        self.position[self.labels] = np.arange(len(self.labels))
        rows = [x[min(b, len(x) - 1)] for x in output.to_input]
        self._to_input = np.zeros((0, 1, 1, n_nodes or 0), dtype=np.float32)  # (T, H, M, S); T = 0 without a network
        self._to_labels = np.zeros((0, 1, 1, 1), dtype=np.float32)  # (T, H, M, M) or (.., M, 1)
        if rows:
            self._to_input = np.stack([x[:, :, :n_nodes].float().numpy() for x in rows])
            self._to_labels = np.stack([x[b].float().numpy() for x in output.to_labels])
        self.edgeless = self._to_labels.shape[-1] == 1 and len(self.labels) > 1

    def to_input(self, labels: np.ndarray) -> np.ndarray:
        """float32 (T, H, K, S); zeros for labels that exchanged no messages."""
        there = self.position[labels] >= 0
        chosen: np.ndarray = np.where(there[:, None], self._to_input[:, :, self.position[labels]], np.float32(0))
        return chosen

    def to_labels(self, labels: np.ndarray) -> np.ndarray:
        """float32 (T, H, K, K)."""
        position = self.position[labels]
        there = position >= 0
        if self.edgeless:  # every label attends to itself only
            shape = (*self._to_labels.shape[:2], len(position), len(position))
            return np.broadcast_to(np.diag(there.astype(np.float32)), shape).copy()
        open_pairs = there[:, None] & there
        chosen: np.ndarray = np.where(open_pairs, self._to_labels[:, :, position[:, None], position], np.float32(0))
        return chosen

    def to_others(self, label: int) -> np.ndarray:
        """float32 (M,): how much a label attends to each of `labels` but itself, mean over steps and heads."""
        at = self.position[label]
        if at < 0 or self.edgeless:
            return np.zeros(len(self.labels), dtype=np.float32)
        mean: np.ndarray = self._to_labels[:, :, at].mean(axis=(0, 1))
        mean[at] = 0.0
        return mean

    def strongest_sources(self, label: int, most: int) -> list[int]:
        """The other labels that a label attends to most, at most `most`."""
        weights = self.to_others(label)
        return [int(self.labels[j]) for j in np.argsort(-weights, kind="stable")[:most] if weights[j] > 0]
