"""A fitted model: everything needed to go from raw rows to label sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse

from lampnet.committee import Committee, heard_as_one
from lampnet.config import Config
from lampnet.dataset import Dataset
from lampnet.decision import Decisions
from lampnet.errors import DataError
from lampnet.evidence import Evidence
from lampnet.inputs.nodes import Encoder, with_edges
from lampnet.label_attention import LabelGraph
from lampnet.model import LaMP, Output
from lampnet.prediction import Examples, predict_logits, probabilities
from lampnet.torch_state import seeded

#: how far the seeds of a committee's members lie apart
MEMBER_SEEDS = 1000


@dataclass
class FittedModel:
    """Encoder, evidence, network and decisions of one training run.

    facts holds what the model card tells: data, split, seeds, scores, times.
    frequencies (L,) are the labels' shares of the training rows; a row without any node is predicted from them.
    """

    config: Config
    label_names: tuple[str, ...]
    encoder: Encoder
    evidence: Evidence | None
    graph: sparse.csr_matrix | None
    network: LaMP | Committee
    decisions: Decisions
    facts: dict[str, Any] = field(default_factory=dict)
    frequencies: np.ndarray | None = None
    #: labels and probabilities (n, L) of the rows that the decisions were chosen on, from networks and opinions
    #: that had not learned from them: the validation rows, or all labelled rows, cross-fitted; not saved
    valid_truth: np.ndarray | None = None
    valid_proba: np.ndarray | None = None

    def examples(self, rows: Any, labels: Any = None, row_edges: Sequence[np.ndarray] | None = None) -> Examples:
        """Raw rows as nodes with their opinions."""
        nodes = self.encoder.encode(rows)
        if row_edges is not None:
            nodes = with_edges(nodes, row_edges)
        opinions = self.evidence.of(self.encoder.linear_features(rows)) if self.evidence is not None else None
        return Examples(nodes=nodes, targets=labels, evidence=opinions)

    def logits(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) final logits; where the input has a second view (the other DNA strand), the mean of both."""
        views = [self.examples(v, row_edges=row_edges) for v in (rows, *other_views(self.encoder, rows))]
        return logits_of_views(self.network, views, self.frequencies)

    def proba(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) probabilities."""
        return probabilities(self.logits(rows, row_edges))

    def output(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> Output:
        """Every stage's logits and all attention weights of a few rows, in one batch."""
        examples = self.examples(rows, row_edges=row_edges)
        index = np.arange(len(examples))
        self.network.eval()
        with torch.inference_mode():
            output: Output = self.network(examples.nodes.batch(index), examples.opinions(index), record=True)
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


def other_views(encoder: Encoder, rows: Any) -> list[Any]:
    """The same rows seen otherwise, where the input has a second view (the other DNA strand)."""
    other = getattr(encoder, "other_view", None)
    view = other(rows) if other is not None else None
    return [] if view is None else [view]


def logits_of_views(network: LaMP | Committee, views: Sequence[Examples], frequencies: np.ndarray | None) -> np.ndarray:
    """(n, L) final logits, the mean over the views of the rows."""
    called = cast(LaMP, network)  # a committee is called as its members are
    logits: np.ndarray = np.mean([predict_logits(called, view) for view in views], axis=0)
    empty = views[0].nodes.lengths() == 0
    if frequencies is not None and empty.any():
        # Nothing is known of such a row; what the network says without an input is a guess far from its data.
        logits[empty] = np.log(frequencies) - np.log1p(-frequencies)
    return logits


def align_labels(data: Dataset, label_names: tuple[str, ...]) -> Dataset:
    """The same rows with their label columns in another order; a label unknown there is an error."""
    from dataclasses import replace

    assert data.labels is not None
    place = {name: i for i, name in enumerate(label_names)}
    unknown = [name for name in data.label_names if name not in place]
    if unknown:
        raise DataError(
            f"{data.name}: the label {unknown[0]!r} was never seen in training ({len(unknown)} such label(s)); "
            "train again with it or remove it"
        )
    entries = sparse.coo_matrix(data.labels)
    columns = np.array([place[name] for name in data.label_names], dtype=np.int64)[entries.col]
    shape = (len(data), len(label_names))
    labels = sparse.csr_matrix((entries.data, (entries.row, columns)), shape=shape)
    return replace(data, labels=labels, label_names=label_names)


def label_frequencies(truth: np.ndarray) -> np.ndarray:
    """The share of the known rows that have each label, float32 (L,), never quite 0 or 1."""
    known = ~np.isnan(truth)
    return np.asarray((np.nan_to_num(truth).sum(axis=0) + 0.5) / (known.sum(axis=0) + 1.0), dtype=np.float32)


def build_network(config: Config, n_labels: int, encoder: Encoder, graph: sparse.csr_matrix | None) -> LaMP | Committee:
    """An untrained network, or committee of networks, for these settings, inputs and labels."""
    members = range(max(1, config.training.folds))
    return heard_as_one([build_member(config, n_labels, encoder, graph, number) for number in members])


def build_member(
    config: Config, n_labels: int, encoder: Encoder, graph: sparse.csr_matrix | None, number: int = 0
) -> LaMP:
    """One untrained network; each number starts from other random weights."""
    seed = member_seed(config.training.seed, number)
    with seeded(seed):
        return LaMP(
            config.model,
            n_labels,
            encoder.embedding(config.model.width),
            LabelGraph(config.label_graph, graph, n_labels),
            edge_types=getattr(encoder, "edge_types", 0),
            seed=seed,
        )


def member_seed(seed: int, number: int) -> int:
    """A member's own seed; it stays in the range that every generator takes.

    >>> member_seed(1, 2), member_seed(2**32 - 1, 1)
    (2001, 999)
    """
    return (seed + MEMBER_SEEDS * number) % 2**32
