"""From data to a fitted model: encode, gather opinions, start warm, train, choose the decisions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.base_learners.protocol import FOLDS
from lampnet.base_learners.stack import Stack, vstack_features
from lampnet.config import Config, TrainingConfig, folds_for
from lampnet.data.dataset import Dataset
from lampnet.data.label_priors import label_priors
from lampnet.data.schema import align_labels
from lampnet.data.splits import VALIDATION_FRACTION, Splits, fold_numbers, parts_of
from lampnet.encoders import make_encoder
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.metrics import five_metrics
from lampnet.inference.examples import Examples, examples_of_views
from lampnet.inference.logits import logits_of_views, probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member, member_seed
from lampnet.model.ensemble import heard_as_one
from lampnet.model.initialise import match_label_priors, spectral_start
from lampnet.model.label_graph import label_graph
from lampnet.model.lamp import LaMP
from lampnet.runtime import distributed
from lampnet.runtime.folder_lock import claimed
from lampnet.runtime.torch_state import threads
from lampnet.training.checkpoint import remove_checkpoints
from lampnet.training.trainer import Callback, Progress, Stopped, Trainer

Say = Callable[[str], None]


def fit(
    splits: Splits,
    config: Config,
    *,
    label_edges: np.ndarray | None = None,
    validation_fraction: float = VALIDATION_FRACTION,
    folder: Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    say: Say = lambda sentence: None,
) -> FittedModel:
    """Train on `splits.train` and choose on rows that were not learned from.

    With `training.folds` above 1 these are all training rows, each judged by the network of the committee that
    did not see it; else the rows of `splits.valid`, or a part drawn from the training rows. Where validation
    rows are given and `training.folds` is left open, they are what choices are made on; rows that were merely
    drawn from the labelled ones go back to them where a committee is trained.

    label_edges  int (E, 2) label numbers, for the label graphs `tree` and `given`
    folder       where checkpoints go; None keeps the run in memory
    callback     told of every step and epoch; `say` hears one sentence a phase
    """
    check_training_rows(splits.train)
    splits, config = settled(splits, config)
    borrowed = threads(config.training.threads)
    with distributed.joined() as team, claimed(folder if team.leads else None), borrowed:
        say = say if team.leads else _silent
        gather = _parted if config.training.folds > 1 else _split_once
        plan = gather(splits, config, validation_fraction, say)
        return _fit(plan, config, label_edges, folder, resume, callback, say)


def settled(splits: Splits, config: Config) -> tuple[Splits, Config]:
    """The rows as they are learned from, and settings in which nothing is left open.

    Labelled rows are cut either by a committee or into training and validation rows, never twice. Where they come
    in order, a single network checked on the last of them does better on later rows than a committee, most of whose
    members lack a stretch that lies nearer: docs/measurements/parts_in_order.json.
    """
    if splits.valid is None:
        if config.training.folds == 0 and splits.serially_correlated:
            config = config.updated({"training.folds": 1})
    else:
        labelled = len(splits.train) + len(splits.valid)
        if splits.valid_is_sampled and (config.training.folds or folds_for(labelled)) > 1:
            splits = splits.merged_back()
        else:
            config = config.updated({"training.folds": config.training.folds or 1})
    train = splits.train
    return splits, config.resolved(train.kind, len(train), len(train.label_names))


def _silent(sentence: str) -> None:
    """The other processes of a run leave the talking to the first."""


@dataclass
class _Part:
    """What one network learns from and is checked on.

    views  the rows it is checked on, as each of their views shows them
    """

    learn: Examples
    views: list[Examples]


@dataclass
class _Plan:
    """Encoded rows with their opinions, and how the networks share them.

    refit  fits the opinions again on more rows, once every choice is made; None where they know all rows
    """

    train: Dataset
    truth: np.ndarray
    encoder: Encoder
    stack: Stack | None
    parts: list[_Part]
    rows: dict[str, int]
    refit: Callable[[], None] | None = None


def _fit(
    plan: _Plan,
    config: Config,
    label_edges: np.ndarray | None,
    folder: Path | None,
    resume: bool,
    callback: Callback | None,
    say: Say,
) -> FittedModel:
    train, truth, seed = plan.train, plan.truth, config.training.seed
    priors = label_priors(truth)
    graph = label_graph(config.label_graph, len(train.label_names), labels=train.labels, edges=label_edges)
    networks: list[LaMP] = []
    told: list[Progress] = []
    checked: list[tuple[np.ndarray, np.ndarray]] = []

    def keep(part: _Part, network: LaMP, progress: Progress) -> None:
        networks.append(network)
        told.append(progress)
        check = part.views[0]
        logits = logits_of_views(network, part.views, priors)
        checked.append((check.truth(np.arange(len(check))).numpy(), probabilities(logits)))

    def finished() -> FittedModel:
        say("choosing the decisions on rows that were not learned from")
        # A run that was asked to end may hand over fewer networks than it was to have.
        own = config.updated({"training.folds": len(networks)})
        known, proba = (np.concatenate(chunks) for chunks in zip(*checked, strict=True))
        model = FittedModel(
            config=own,
            label_names=train.label_names,
            encoder=plan.encoder,
            stack=plan.stack,
            graph=graph if config.label_graph not in ("full", "edgeless") else None,
            network=heard_as_one(networks),
            decisions=choose_decisions(known, proba, seed=seed),
            label_priors=priors,
        )
        model.metadata = {"data": train.name, "rows": plan.rows} | run_metadata(model, told, known, proba)
        model.valid_truth, model.valid_proba = known, proba
        if plan.refit is not None:
            say("fitting the opinions again on training and validation rows")
            plan.refit()
        return model

    for number, part in enumerate(plan.parts):
        member = _member_training(config.training, number, len(plan.parts))
        network = build_member(config, len(train.label_names), plan.encoder, graph, number)
        learned = part.learn.truth(np.arange(len(part.learn))).numpy()
        if config.training.start == "spectral":
            spectral_start(network, part.learn.nodes, learned, member.seed)
        match_label_priors(network, part.learn.nodes, learned, part.learn.base_logits, member.seed)
        if number == 0:
            several = f" in each of {len(plan.parts)} networks" if len(plan.parts) > 1 else ""
            say(f"training {sum(p.numel() for p in network.parameters()):,} weights{several}")
        own_folder = _member_folder(folder, number, resume)
        place = (number + 1, len(plan.parts))
        trainer = Trainer(network, member, part.learn, part.views[0], own_folder, callback, place)
        try:
            keep(part, network, trainer.run(resume=resume))
        except Stopped as stopped:
            # A run that was asked to end still hands over the best model it had.
            if trainer.use_best():
                keep(part, network, stopped.progress)
            if networks:
                stopped.model = finished()
            raise
    return finished()


def _member_training(training: TrainingConfig, number: int, members: int) -> TrainingConfig:
    """A member's own seed, and its share of the time."""
    return replace(training, seed=member_seed(training.seed, number), time_budget=training.time_budget / members)


def _member_folder(folder: Path | None, number: int, resume: bool) -> Path | None:
    """Where a member's checkpoints go: the first's into the run's folder, the others' into folders of their own."""
    if folder is None or number == 0:
        return folder
    own = folder / f"network-{number + 1}"
    own.mkdir(parents=True, exist_ok=True)
    if not resume:
        remove_checkpoints(own)
    return own


def _parted(splits: Splits, config: Config, validation_fraction: float, say: Say) -> _Plan:
    """All labelled rows, cut into parts: each network learns from all but one and is checked on that one."""
    train = splits.train
    if splits.valid is not None:
        raise ConfigError(
            f"training.folds={config.training.folds} came together with {len(splits.valid)} validation rows; "
            "set training.folds=1 to choose on these, or give all labelled rows as training rows"
        )
    truth = train.indicator()
    encoder = _learned_encoder(train, config, say)
    serially_correlated = _told_order(splits, say)
    encoded = encoder.encode(train.rows, train.row_edges)
    stack, base_logits = _fit_base_learners(config, encoded, truth, say, serially_correlated)
    views = examples_of_views(encoded, truth, base_logits)
    parts = []
    for rest, own in parts_of(
        fold_numbers(len(train), config.training.folds, config.training.seed, serially_correlated)
    ):
        learn = Examples.joined([view.take(rest) for view in views])
        parts.append(_Part(learn, [view.take(own) for view in views]))
    return _Plan(train, truth, encoder, stack, parts, {"train": len(train), "valid": 0})


def _split_once(splits: Splits, config: Config, validation_fraction: float, say: Say) -> _Plan:
    """One network that learns from the training rows and is checked on the validation rows."""
    serially_correlated = _told_order(splits, say)
    splits = splits.with_validation(validation_fraction, config.training.seed)
    train, valid = splits.train, splits.valid
    assert valid is not None
    check_training_rows(train)
    if valid.label_names != train.label_names:
        valid = align_labels(valid, train.label_names)
    truth, more = train.indicator(), valid.indicator()
    encoder = _learned_encoder(train, config, say)
    encoded = encoder.encode(train.rows, train.row_edges)
    stack, base_logits = _fit_base_learners(config, encoded, truth, say, serially_correlated)
    held_out = encoder.encode(valid.rows, valid.row_edges)
    valid_base_logits = None if stack is None else stack.logits(held_out.features)
    seen = examples_of_views(encoded, truth, base_logits)
    views = examples_of_views(held_out, more, valid_base_logits)

    def refit() -> None:
        assert stack is not None
        # A label that no training row has is new to the network: its opinions stay as the network heard them.
        known = np.where(np.any(truth > 0, axis=0), more, np.nan)
        stack.refit(
            vstack_features([encoded.features, held_out.features]), np.vstack([truth, known]), config.training.seed
        )

    again = refit if stack is not None and config.training.refit_base_learners else None
    rows = {"train": len(train), "valid": len(valid)}
    return _Plan(train, truth, encoder, stack, [_Part(Examples.joined(seen), views)], rows, again)


def _told_order(splits: Splits, say: Say) -> bool:
    if splits.serially_correlated:
        say("rows that follow each other are alike: parts are cut in their order")
    return splits.serially_correlated


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


def _learned_encoder(train: Dataset, config: Config, say: Say) -> Encoder:
    say(f"encoding {len(train)} {train.kind} rows")
    return make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)


def _fit_base_learners(
    config: Config, encoded: EncodedRows, truth: np.ndarray, say: Say, serially_correlated: bool
) -> tuple[Stack | None, np.ndarray | None]:
    """The opinions, and what they say of the training rows, out-of-fold (n, L, K)."""
    if not config.model.base_learners:
        return None, None
    fold_n = fold_numbers(len(truth), FOLDS, config.training.seed, serially_correlated) if serially_correlated else None
    say(f"gathering first opinions ({', '.join(config.model.base_learners)})")
    stack = Stack(config.model.base_learners)
    return stack, stack.fit(encoded.features, truth, config.training.seed, fold_n)


def run_metadata(model: FittedModel, told: Sequence[Progress], truth: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    """What the model card tells of a run, from where each network ended.

    truth, proba  (n, L) of the rows that the decisions were chosen on
    """
    return {
        "kind": model.encoder.kind,
        "labels": len(model.label_names),
        "seed": model.config.training.seed,
        "status": told[-1].status,
        "networks": len(told),
        "epochs": max(progress.epoch for progress in told),
        "best_epoch": told[-1].best_epoch + 1,
        "minutes": round(sum(progress.seconds for progress in told) / 60, 2),
        "weights": sum(p.numel() for p in model.network.parameters()),
        "valid_scores": {
            metric: five_metrics(truth, rule.apply(proba))[metric] for metric, rule in model.decisions.paper.items()
        },
        "history": [vars(record) for progress in told for record in progress.history],
        "python": platform.python_version(),
    }
