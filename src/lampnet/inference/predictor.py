"""A fitted model: everything needed to go from raw rows to label sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse

from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.schema import align_labels
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import DataError
from lampnet.evaluation.choose_rules import Decisions
from lampnet.inference.examples import Examples, examples_of_views
from lampnet.inference.logits import logits_of_views, probabilities
from lampnet.model.ensemble import Ensemble
from lampnet.model.lamp import LaMP, Output


@dataclass
class FittedModel:
    """Encoder, stack, network and decisions of one training run.

    metadata holds what the model card states: data, split, seeds, scores, times.
    label_priors (L,) are the labels' shares of the training rows; a row without any node is predicted from them.
    """

    config: Config
    label_names: tuple[str, ...]
    encoder: Encoder
    stack: Stack | None
    graph: sparse.csr_matrix | None
    network: LaMP | Ensemble
    decisions: Decisions
    metadata: dict[str, Any] = field(default_factory=dict)
    label_priors: np.ndarray | None = None
    #: labels and probabilities (n, L) of the rows that the decisions were chosen on, from networks and base_logits
    #: that had not learned from them: the validation rows, or all labelled rows, cross-fitted; not saved
    valid_truth: np.ndarray | None = None
    valid_proba: np.ndarray | None = None

    def examples(self, rows: Any, labels: Any = None, row_edges: Sequence[np.ndarray] | None = None) -> Examples:
        """Raw rows as nodes with their base_logits."""
        encoded = self.encoder.encode(rows, row_edges)
        return Examples(nodes=encoded.nodes, targets=labels, base_logits=self._base_logits(encoded))

    def logits(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) final logits; where the input has a second view (the other DNA strand), the mean of both."""
        return self.logits_of(self.encoder.encode(rows, row_edges))

    def logits_of(self, encoded: EncodedRows) -> np.ndarray:
        """`logits` of rows that are encoded already."""
        views = examples_of_views(encoded, None, self._base_logits(encoded))
        return logits_of_views(self.network, views, self.label_priors)

    def _base_logits(self, encoded: EncodedRows) -> np.ndarray | None:
        return None if self.stack is None else self.stack.logits(encoded.features)

    def proba(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) probabilities."""
        return probabilities(self.logits(rows, row_edges))

    def output(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> Output:
        """Every stage's logits and all attention weights of a few rows, in one batch."""
        examples = self.examples(rows, row_edges=row_edges)
        index = np.arange(len(examples))
        self.network.eval()
        with torch.inference_mode():
            output: Output = self.network(examples.nodes.batch(index), examples.base_batch(index), record=True)
        return output

    def check(self, data: Dataset) -> Dataset:
        """Rows of the kind this model was trained on, their labels in this model's order."""
        if data.kind != self.encoder.kind:
            raise DataError(
                f"{data.name}: rows of kind {data.kind!r} came to a model trained on {self.encoder.kind!r}; "
                "give data of the same kind"
            )
        if data.labels is None or data.label_names == self.label_names:
            return data
        return align_labels(data, self.label_names)
