"""From data to a fitted model: encode, gather opinions, start warm, train, choose the decisions."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lampnet import distributed
from lampnet.checkpoint import claimed
from lampnet.config import Config
from lampnet.dataset import Dataset, Splits
from lampnet.decision import choose_decisions
from lampnet.errors import DataError
from lampnet.evidence import Evidence, stacked
from lampnet.fitted import FittedModel, align_labels, build_network, label_frequencies
from lampnet.inputs import make_encoder
from lampnet.inputs.nodes import Encoder, NodeRows, with_edges
from lampnet.label_graph import label_graph
from lampnet.metrics import five_metrics
from lampnet.prediction import Examples
from lampnet.training import Callback, Progress, Stopped, Trainer
from lampnet.warm_start import match_label_frequencies, spectral_start

VALIDATION_FRACTION = 0.1
Say = Callable[[str], None]


def fit(
    splits: Splits,
    config: Config,
    *,
    label_edges: np.ndarray | None = None,
    folder: Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    say: Say = lambda sentence: None,
) -> FittedModel:
    """Train on `splits.train`, choose on `splits.valid` (drawn from train where absent).

    label_edges  int (E, 2) label numbers, for the label graphs `tree` and `given`
    folder       where checkpoints go; None keeps the run in memory
    callback     told of every step and epoch; `say` hears one sentence a phase
    """
    with distributed.joined() as team, claimed(folder if team.leads else None):
        return _fit(splits, config, label_edges, folder, resume, callback, say if team.leads else _silent)


def _silent(sentence: str) -> None:
    """The other processes of a run leave the talking to the first."""


def _fit(
    splits: Splits,
    config: Config,
    label_edges: np.ndarray | None,
    folder: Path | None,
    resume: bool,
    callback: Callback | None,
    say: Say,
) -> FittedModel:
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    splits = splits.with_validation(VALIDATION_FRACTION, config.training.seed)
    train, valid = splits.train, splits.valid
    assert valid is not None
    check_training_rows(train)
    if valid.label_names != train.label_names:
        valid = align_labels(valid, train.label_names)
    config = config.resolved(train.kind, len(train), len(train.label_names))
    truth = train.indicator()
    say(f"encoding {len(train)} {train.kind} rows")
    encoder = make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)
    evidence, opinions, valid_opinions = _gather_opinions(config, encoder, train, valid, truth, say)
    graph = label_graph(config.label_graph, len(train.label_names), labels=train.labels, edges=label_edges)
    network = build_network(config, len(train.label_names), encoder, graph)
    learn = Examples(nodes=_nodes(encoder, train), targets=truth, evidence=opinions)
    check = Examples(nodes=_nodes(encoder, valid), targets=valid.indicator(), evidence=valid_opinions)
    if config.training.start == "spectral":
        spectral_start(network, learn.nodes, truth, config.training.seed)
    match_label_frequencies(network, learn.nodes, truth, opinions, config.training.seed)
    learn = _with_other_view(encoder, train, learn, evidence)
    say(f"training {sum(p.numel() for p in network.parameters()):,} weights")
    trainer = Trainer(network, config.training, learn, check, folder, callback)

    def finished(progress: Progress) -> FittedModel:
        say("choosing the decisions on the validation rows")
        model = FittedModel(
            config=config,
            label_names=train.label_names,
            encoder=encoder,
            evidence=evidence,
            graph=graph if config.label_graph not in ("full", "edgeless") else None,
            network=network,
            decisions=None,  # type: ignore[arg-type]  # chosen on the next line, from this very model
        )
        model.frequencies = label_frequencies(truth)
        proba = model.proba(valid.rows, valid.row_edges)
        model.decisions = choose_decisions(valid.indicator(), proba, seed=config.training.seed)
        rows = {"train": len(train), "valid": len(valid)}
        model.facts = {"data": train.name, "rows": rows} | run_facts(model, progress, valid.indicator(), proba)
        model.valid_proba = proba
        if evidence is not None and config.training.refit_opinions:
            say("fitting the opinions again on training and validation rows")
            features = [encoder.linear_features(part.rows) for part in (train, valid)]
            # A label that no training row has is new to the network: its opinions stay as the network heard them.
            more = np.where(np.any(truth > 0, axis=0), valid.indicator(), np.nan)
            evidence.refit(stacked(features), np.vstack([truth, more]), config.training.seed)
        return model

    try:
        return finished(trainer.run(resume=resume))
    except Stopped as stopped:
        # A run that was asked to end still hands over the best model it had.
        if trainer.use_best():
            stopped.model = finished(stopped.progress)
        raise


def check_training_rows(train: Dataset) -> None:
    """Refuse what cannot be learned from, with a sentence that says why."""
    if train.labels is None:
        raise DataError(f"{train.name}: the training rows carry no labels; give rows with labels")
    if len(train) < 2:
        raise DataError(f"{train.name}: {len(train)} training row(s) came; at least two are needed")
    if not train.label_names:
        raise DataError(f"{train.name}: no label names were found; at least one label is needed")
    if not np.any(np.nan_to_num(train.labels.data) > 0):
        raise DataError(f"{train.name}: no training row has any label; there is nothing to learn from")


def _nodes(encoder: Encoder, data: Dataset) -> NodeRows:
    nodes = encoder.encode(data.rows)
    return nodes if data.row_edges is None else with_edges(nodes, data.row_edges)


def _gather_opinions(
    config: Config, encoder: Encoder, train: Dataset, valid: Dataset, truth: np.ndarray, say: Say
) -> tuple[Evidence | None, np.ndarray | None, np.ndarray | None]:
    if not config.model.evidence:
        return None, None, None
    say(f"gathering first opinions ({', '.join(config.model.evidence)})")
    evidence = Evidence(config.model.evidence)
    opinions = evidence.fit(encoder.linear_features(train.rows), truth, config.training.seed)
    return evidence, opinions, evidence.of(encoder.linear_features(valid.rows))


def _with_other_view(encoder: Encoder, train: Dataset, learn: Examples, evidence: Evidence | None) -> Examples:
    """Where rows have a second view with the same labels (the other DNA strand), learn from both."""
    other = getattr(encoder, "other_view", None)
    view = other(train.rows) if other is not None else None
    if view is None:
        return learn
    first, second = learn.nodes, encoder.encode(view)
    joined: dict[str, Any] = {"offsets": np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])}
    for name in ("ids", "values", "vectors", "positions"):
        if getattr(first, name) is not None:
            joined[name] = np.concatenate([getattr(first, name), getattr(second, name)])
    # k-mer opinions count both strands as one, so the second view shares the first's out-of-fold opinions.
    opinions = None if learn.evidence is None else np.concatenate([learn.evidence, learn.evidence])
    return Examples(nodes=NodeRows(**joined), targets=np.concatenate([learn.targets, learn.targets]), evidence=opinions)


def run_facts(model: FittedModel, progress: Progress, truth: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    """What the model card tells of a run; `truth` and `proba` (n, L) are of the validation rows."""
    return {
        "kind": model.encoder.kind,
        "labels": len(model.label_names),
        "seed": model.config.training.seed,
        "status": progress.status,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch + 1,
        "minutes": round(progress.seconds / 60, 2),
        "weights": sum(p.numel() for p in model.network.parameters()),
        "valid_scores": {
            metric: five_metrics(truth, rule.apply(proba))[metric] for metric, rule in model.decisions.paper.items()
        },
        "history": [vars(record) for record in progress.history],
        "python": platform.python_version(),
    }


def evaluate_fitted(model: FittedModel, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Truth and probabilities of labelled rows, both (n, L)."""
    data = model.check(data)
    return data.indicator(), model.proba(data.rows, data.row_edges)
