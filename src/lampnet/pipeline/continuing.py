"""Learning from more rows without starting anew: a fitted model is the start, and its own rows are not needed.

A model folder holds no training rows, so each part does what it can with the new ones alone:

==================  ===========================================================================================
encoder             stays: words and columns that the model does not know are left out
linear              starts from its weights and is pulled towards them; how far the new rows may move them is
                    chosen on the new rows, out-of-fold, and not at all is one of the choices
neighbours          its stored rows stay, the new ones join them
forest              its trees stay, trees that are grown on the new rows join them
boosted trees       stay, and new trees correct what they say of the new rows; how many is chosen on these, out-of-fold
kernel              its stored rows stay, the new ones correct what they say, where that helps on these, out-of-fold
stacking weights    those it had or those fitted on the new rows, whichever have the lower log-loss there
network             its weights and label vectors are where training on the new rows starts
calibration, rules  chosen on the new rows, unless they are few
==================  ===========================================================================================

New labels are new nodes; the rows before say nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stacking_weights import StackingWeights, better_on_new_rows
from lampnet.config import Config, folds_for
from lampnet.data.dataset import Dataset
from lampnet.data.label_priors import mixed_priors
from lampnet.data.splits import Splits, parts_of
from lampnet.data.weights import LabelWeight, Weights, rows_of
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import ConfigError
from lampnet.inference.examples import Examples, examples_of_views
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.control import Control
from lampnet.pipeline.label_edits import as_one_training
from lampnet.pipeline.plan import ENCODING, Before, Fold, Plan, row_origins

#: folds of the new rows where they are too many for an ensemble of the usual size
FEWEST_FOLDS = 2
#: parameters that have one entry per label
BY_LABEL = ("W_y", "bias")


@dataclass(frozen=True)
class Start:
    """A model to learn on from.

    absent_is_false  what a label of the model is in rows that do not mention it: false (they have label sets), or
                     unknown (they have a column for each label, and none for this one)
    """

    model: FittedModel
    absent_is_false: bool = True

    def rows(self, splits: Splits) -> Splits:
        """All new rows, with the model's labels in its order and new labels behind them."""
        parts = [with_labels(part, self.model.label_names, self.absent_is_false) for part in self._parts(splits)]
        return Splits(train=Dataset.joined(parts), arranged=splits.arranged)

    def _parts(self, splits: Splits) -> list[Dataset]:
        if splits.valid is None:
            return [splits.train]
        return [splits.train, with_labels(splits.valid, splits.train.label_names, self.absent_is_false)]

    def config(self, config: Config, n_rows: int) -> Config:
        """The settings of the training as asked for, those of the model as they were."""
        made = self.model.config
        config = replace(config, input=made.input, model=made.model, known=made.known, label_graph=made.label_graph)
        folds = max(FEWEST_FOLDS, config.training.folds or folds_for(n_rows))
        return config.updated({"training.folds": folds}).resolved(self.model.encoder.kind, n_rows, 1)


def with_labels(data: Dataset, label_names: Sequence[str], absent_is_false: bool) -> Dataset:
    """The same rows with these labels first, in this order, and their other labels behind them.

    >>> labels = sparse.csr_matrix([[1.0, 1.0]])
    >>> rows = Dataset(name="x", kind="text", rows=["one"], labels=labels, label_names=("c", "b"))
    >>> moved = with_labels(rows, ("a", "b"), absent_is_false=False)
    >>> moved.label_names, moved.indicator().tolist()
    (('a', 'b', 'c'), [[nan, 1.0, 1.0]])
    """
    if data.labels is None:
        return data
    there = set(label_names)
    names = (*label_names, *(name for name in data.label_names if name not in there))
    place = {name: number for number, name in enumerate(names)}
    moved = data.labels.tocoo()
    columns = np.array([place[name] for name in data.label_names], dtype=np.int64)
    values, rows, at = [moved.data], [moved.row], [columns[moved.col]]
    absent = np.setdiff1d(np.arange(len(label_names)), columns)
    if len(absent) and not absent_is_false:
        values.append(np.full(len(data) * len(absent), np.nan, dtype=np.float32))
        rows.append(np.repeat(np.arange(len(data)), len(absent)))
        at.append(np.tile(absent, len(data)))
    entries: Any = (np.concatenate(values), (np.concatenate(rows), np.concatenate(at)))
    return replace(data, labels=sparse.csr_matrix(entries, shape=(len(data), len(names))), label_names=names)


def continued(splits: Splits, start: Start, config: Config, control: Control, label_weight: LabelWeight) -> Plan:
    """New rows in folds, and what was learned before them."""
    train, model = splits.train, as_one_training(start.model)
    if train.kind != model.encoder.kind:
        raise ConfigError(
            f"the rows are of kind {train.kind!r}, but the model was trained on {model.encoder.kind!r}; give data "
            "of the same kind"
        )
    truth = train.indicator()
    counts = Weights.of(train.weights, label_weight, train.label_names, truth)
    new = train.label_names[len(model.label_names) :]
    control.log(
        f"learning on from {len(model.label_names)} labels, with {len(train)} new rows"
        + (f" and {len(new)} new labels" if new else "")
    )
    with control.timed(ENCODING):
        control.phase(0.0, ENCODING)
        encoded = model.encoder.encode(train.rows, train.row_edges)
    control.collect_signals()
    blocked = splits.serially_correlated
    fold_n = splits.folds_of(train, config.training.folds, config.training.seed, blocked)
    with control.timed("base learners"):
        stack, base_logits, weights = _stack(model, encoded, truth, fold_n, config.training.seed, counts, control)
    if stack is not None:
        stack.number_rows(row_origins(train))
    folds = []
    for (rest, own), own_weights in zip(parts_of(fold_n), weights, strict=True):
        views = examples_of_views(encoded, truth, base_logits, own_weights, counts)
        folds.append(Fold(Examples.joined([view.take(rest) for view in views]), [view.take(own) for view in views]))
    assert train.labels is not None
    graph, before = _graph(model, train.labels), model.label_priors
    assert before is not None
    return Plan(
        name=train.name,
        label_names=train.label_names,
        encoder=model.encoder,
        stack=stack,
        folds=folds,
        labels=train.labels,
        priors=mixed_priors(before, sum(model.metadata.get("rows", {}).values()), truth, rows_of(counts)),
        rows={"train": len(train), "valid": 0},
        before=Before(model, _networks(start.model, config, model.encoder, len(train.label_names), graph), graph),
    )


def continued_from(model: FittedModel) -> dict[str, Any]:
    """What the model card says about the start."""
    kept = ("data", "rows", "model_sha256", "continued")
    return {"labels": len(model.label_names)} | {key: model.metadata[key] for key in kept if key in model.metadata}


def _stack(
    model: FittedModel,
    encoded: EncodedRows,
    truth: np.ndarray,
    fold_n: np.ndarray,
    seed: int,
    counts: Weights | None,
    control: Control,
) -> tuple[Stack | None, np.ndarray | None, list[StackingWeights | None]]:
    """The base learners with the new rows, their out-of-fold logits, and the stacking weights of each fold."""
    if model.stack is None:
        return None, None, [None] * (int(fold_n.max()) + 1)
    control.log(f"base learners ({', '.join(model.stack.names)}) learn from the new rows")
    control.phase(0.0, "base learners")
    stack = Stack.restore(model.stack.names, model.stack.arrays())  # the start stays as it is
    base_logits = stack.learn_more(encoded.features, truth, seed, fold_n, counts)
    kept = stack.weights
    fitted = stack.fit_weights(base_logits, truth, fold_n, counts)
    chosen = better_on_new_rows(kept, fitted, base_logits, truth, fold_n, counts)
    unknown = np.isnan(truth).all(axis=0)[:, None]

    def as_before(own: StackingWeights) -> StackingWeights:
        """Labels of which the new rows say nothing stay as they were."""
        weights_LK = np.where(unknown, kept.weights_LK, own.weights_LK)
        return StackingWeights(weights_LK, np.where(unknown[:, 0], kept.bias_L, own.bias_L))

    stack.weights = as_before(chosen.weights)
    return stack, base_logits, [as_before(own) for own in chosen.folds]


def _graph(model: FittedModel, labels: sparse.csr_matrix) -> sparse.csr_matrix | None:
    """The model's label graph; a new label has edges to the labels that it occurs with, and to itself."""
    if model.graph is None:
        return None
    known, L = len(model.label_names), labels.shape[1]
    if known == L:
        return model.graph
    true = sparse.csr_matrix(labels > 0, dtype=np.float32)
    together = sparse.lil_matrix((true.T @ true) > 0)
    together[:known, :known] = model.graph
    together.setdiag(True)
    graph = sparse.csr_matrix(together, dtype=bool)
    graph.sort_indices()
    return graph


def _networks(
    model: FittedModel, config: Config, encoder: Encoder, n_labels: int, graph: sparse.csr_matrix | None
) -> list[StackedLaMP]:
    """The model's networks with nodes for new labels, whose vectors start at random."""
    if model.network is None:
        return []
    own = [(label,) for label in range(len(model.label_names))]
    groups: Sequence[tuple[int, ...]] = own if model.shown is None else model.shown.groups
    made = []
    for number, old in enumerate(model.network.networks):
        network = build_member(config, n_labels, encoder, graph, number)
        weights = network.state_dict()
        for name, value in old.state_dict().items():
            if name in BY_LABEL:
                for label, group in enumerate(groups):
                    if group[-1] < len(value):  # else it was added, and has no vector yet
                        weights[name][label] = value[list(group)].mean(dim=0)
            elif name in weights and weights[name].shape == value.shape:
                weights[name] = value.clone()
        network.load_state_dict(weights)
        made.append(network)
    return made
