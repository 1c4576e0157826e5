"""From labelled rows to a fitted model: encode, fit base learners, initialise, train, choose the decisions.

Rows in memory and mapped rows, a single network and an ensemble take the same path: a `Plan` says which examples
each member of the ensemble learns from and which it is validated on.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

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
from lampnet.model.ensemble import Ensemble
from lampnet.model.initialise import match_label_priors, spectral_start
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.label_graph import label_graph
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.mapped_rows import MappedRows
from lampnet.runtime import distributed
from lampnet.runtime.folder_lock import claimed
from lampnet.runtime.torch_state import threads
from lampnet.training.checkpoint import remove_checkpoints
from lampnet.training.progress import Callback, Progress, RunContext, Stopped
from lampnet.training.trainer import Trainer

#: rows that the initialisation looks at
INITIAL_ROWS = 50_000
#: steps between two moments at which mapped pages are handed back, and the mapped bytes from which on that is done
RELEASE_STEPS, RELEASE_BYTES = 500, 1 << 30
Log = Callable[[str], None]


def no_log(sentence: str) -> None:
    """Without a log, and in all processes of a run but the first, nothing is reported."""


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """How a fit reports, where it keeps its state, and whether it continues an earlier one.

    folder    where checkpoints go; None keeps the run in memory
    resume    continue from the checkpoints in the folder
    callback  called after every step and epoch
    log       called with one sentence per phase
    """

    folder: Path | None = None
    resume: bool = False
    callback: Callback | None = None
    log: Log = no_log


IN_MEMORY = FitRun()


@dataclass(frozen=True)
class Fold:
    """What one member of the ensemble learns from, and the held-out rows it is validated on, in each of their views."""

    train: Examples
    valid: list[Examples]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Encoded rows with their base logits, and how the members of the ensemble share them.

    labels    CSR (n, L) of the training rows, for the label graph
    priors    (L,) how often each label is true
    rows      how many rows there are, by part, for the model card
    refit     fits the base learners again on more rows once every choice is made; None where they know all rows
    release   hands mapped pages back to the system; None for rows in memory
    """

    name: str
    label_names: tuple[str, ...]
    encoder: Encoder
    stack: Stack | None
    folds: list[Fold]
    labels: sparse.csr_matrix
    priors: np.ndarray
    rows: dict[str, int]
    refit: Callable[[], None] | None = None
    release: Callable[[], None] | None = None


def fit(
    data: Splits | MappedRows,
    config: Config,
    *,
    label_edges: np.ndarray | None = None,
    validation_fraction: float = VALIDATION_FRACTION,
    run: FitRun = IN_MEMORY,
) -> FittedModel:
    """Train on labelled rows; choose epochs and decisions on held-out rows.

    With `training.folds` above 1 these are all training rows, each scored by the member of the ensemble that did not
    learn from it; else the rows of `splits.valid`, or a share sampled from the training rows. Where validation rows
    are given and `training.folds` is left open, choices are made on them; rows that lampnet itself sampled for
    validation are merged back where an ensemble is trained. Mapped rows train a single network.

    label_edges  int (E, 2) label numbers, for the label graphs `tree` and `given`
    """
    team = distributed.team()
    run = run if team.leads else replace(run, log=no_log)
    if isinstance(data, MappedRows):
        config = config_for_mapped_rows(data, config, run.log)
    else:
        check_training_rows(data.train)
        data, config = resolve(data, config)
    with claimed(run.folder if team.leads else None), threads(config.training.threads):
        if isinstance(data, MappedRows):
            plan = _mapped(data)
        elif config.training.folds > 1:
            plan = _cross_fitted(data, config, run.log)
        else:
            plan = _single_split(data, config, validation_fraction, run.log)
        return _Fit(plan, config, label_edges, run).model()


def resolve(splits: Splits, config: Config) -> tuple[Splits, Config]:
    """The rows as they are learned from, and settings in which nothing is left open.

    Labelled rows are divided either into folds or into training and validation rows, never twice. Where they are
    serially correlated, a single network validated on the last of them does better on later rows than an ensemble,
    most of whose members lack a block that lies nearer: docs/measurements/blocked_folds.json.
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


def config_for_mapped_rows(mapped: MappedRows, config: Config, log: Log) -> Config:
    """The settings asked for, but input and base learners as the rows were prepared, and a single network."""
    made = mapped.config
    changed = [f"input.{name}" for name, value in vars(made.input).items() if value != getattr(config.input, name)]
    if config.model.base_learners not in (("auto",), made.model.base_learners):
        changed.append("model.base_learners")
    if changed:
        log(f"{', '.join(changed)}: as the data was prepared (prepare again to change it)")
    if config.training.folds > 1:
        log("training.folds: mapped rows train one network, validated on the prepared validation rows")
    model = replace(config.model, base_learners=made.model.base_learners)
    config = replace(config, input=made.input, model=model).updated({"training.folds": 1})
    return config.resolved(mapped.encoder.kind, len(mapped.parts["train"]), len(mapped.label_names))


class _Fit:
    """One fit: the members of the ensemble are trained one after the other."""

    def __init__(self, plan: Plan, config: Config, label_edges: np.ndarray | None, run: FitRun) -> None:
        self.plan, self.config, self.run = plan, config, run
        n_labels = len(plan.label_names)
        self.graph = label_graph(config.label_graph, n_labels, labels=plan.labels, edges=label_edges)
        self.networks: list[StackedLaMP] = []
        self.histories: list[Progress] = []
        self.held_out: list[tuple[np.ndarray, np.ndarray]] = []

    def model(self) -> FittedModel:
        for number, fold in enumerate(self.plan.folds):
            self._train(number, fold)
        return self._finished()

    def _train(self, number: int, fold: Fold) -> None:
        plan, training = self.plan, _member_training(self.config.training, number, len(self.plan.folds))
        network = build_member(self.config, len(plan.label_names), plan.encoder, self.graph, number)
        self._initialise(network, fold.train, training)
        if number == 0:
            each = f" in each of {len(plan.folds)} networks" if len(plan.folds) > 1 else ""
            self.run.log(f"training {sum(p.numel() for p in network.parameters()):,} weights{each}")
        context = RunContext(
            folder=_member_folder(self.run, number),
            callback=self._callback(),
            member=number + 1,
            members=len(plan.folds),
        )
        trainer = Trainer(network, training, fold.train, fold.valid[0], context)
        try:
            self._keep(fold, network, trainer.run(resume=self.run.resume))
        except Stopped as stopped:
            # A run that was asked to end still hands over the best model it had.
            if trainer.use_best():
                self._keep(fold, network, stopped.progress)
            if self.networks:
                stopped.model = self._finished()
            raise

    def _initialise(self, network: StackedLaMP, train: Examples, training: TrainingConfig) -> None:
        sample, seed = train, training.seed
        if len(train) > INITIAL_ROWS:
            sample = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:INITIAL_ROWS]))
        targets = sample.all_targets()
        if training.start == "spectral":
            spectral_start(network, sample.nodes, targets, seed)
        match_label_priors(network, sample.nodes, targets, sample.base_logits, seed)

    def _callback(self) -> Callback | None:
        asked, release = self.run.callback, self.plan.release
        if release is None:
            return asked

        def called(event: str, progress: Progress) -> None:
            if progress.step % RELEASE_STEPS == 0:
                release()
            if asked is not None:
                asked(event, progress)

        return called

    def _keep(self, fold: Fold, network: StackedLaMP, progress: Progress) -> None:
        self.networks.append(network.eval())
        self.histories.append(progress)
        logits = logits_of_views(lambda n_nodes: laid_out(network, n_nodes), fold.valid, self.plan.priors)
        self.held_out.append((fold.valid[0].all_targets(), probabilities(logits)))

    def _finished(self) -> FittedModel:
        plan = self.plan
        self.run.log("choosing the decisions on held-out rows")
        truth, proba = (np.concatenate(parts) for parts in zip(*self.held_out, strict=True))
        model = FittedModel(
            # A run that was asked to end may hand over fewer networks than it was to have.
            config=self.config.updated({"training.folds": len(self.networks)}),
            label_names=plan.label_names,
            encoder=plan.encoder,
            stack=plan.stack,
            graph=self.graph if self.config.label_graph not in ("full", "edgeless") else None,
            network=Ensemble(self.networks).eval(),
            decisions=choose_decisions(truth, proba, seed=self.config.training.seed),
            label_priors=plan.priors,
            valid_truth=truth,
            valid_proba=proba,
        )
        model.metadata = {"data": plan.name, "rows": plan.rows} | _run_metadata(model, self.histories)
        if plan.refit is not None:
            self.run.log("fitting the base learners again on training and validation rows")
            plan.refit()
        return model


def _member_training(training: TrainingConfig, number: int, members: int) -> TrainingConfig:
    """A member's own seed, and its share of the time."""
    return replace(training, seed=member_seed(training.seed, number), time_budget=training.time_budget / members)


def _member_folder(run: FitRun, number: int) -> Path | None:
    """Where a member's checkpoints go: the first's into the run's folder, the others' into folders of their own."""
    if run.folder is None or number == 0:
        return run.folder
    own = run.folder / f"network-{number + 1}"
    own.mkdir(parents=True, exist_ok=True)
    if not run.resume:
        remove_checkpoints(own)
    return own


def _cross_fitted(splits: Splits, config: Config, log: Log) -> Plan:
    """All labelled rows in folds: each member learns from all folds but one and is validated on that one."""
    train = splits.train
    if splits.valid is not None:
        raise ConfigError(
            f"training.folds={config.training.folds} came together with {len(splits.valid)} validation rows; "
            "set training.folds=1 to choose on these, or give all labelled rows as training rows"
        )
    truth = train.indicator()
    encoder, encoded = _encode(train, config, log)
    blocked = _blocked(splits, log)
    stack, base_logits = _fit_base_learners(config, encoded, truth, blocked, log)
    views = examples_of_views(encoded, truth, base_logits)
    folds = []
    for rest, own in parts_of(fold_numbers(len(train), config.training.folds, config.training.seed, blocked)):
        folds.append(Fold(Examples.joined([view.take(rest) for view in views]), [view.take(own) for view in views]))
    return _plan(train, truth, encoder, stack, folds, {"train": len(train), "valid": 0})


def _single_split(splits: Splits, config: Config, validation_fraction: float, log: Log) -> Plan:
    """One network that learns from the training rows and is validated on the validation rows."""
    blocked = _blocked(splits, log)
    splits = splits.with_validation(validation_fraction, config.training.seed)
    train, valid = splits.train, splits.valid
    assert valid is not None
    check_training_rows(train)
    if valid.label_names != train.label_names:
        valid = align_labels(valid, train.label_names)
    truth, valid_truth = train.indicator(), valid.indicator()
    encoder, encoded = _encode(train, config, log)
    held_out = encoder.encode(valid.rows, valid.row_edges)
    stack, base_logits = _fit_base_learners(config, encoded, truth, blocked, log)
    fold = Fold(
        Examples.joined(examples_of_views(encoded, truth, base_logits)),
        examples_of_views(held_out, valid_truth, None if stack is None else stack.logits(held_out.features)),
    )

    def refit() -> None:
        assert stack is not None
        # A label that no training row has is new to the network: its base logits stay as the network knew them.
        known = np.where(np.any(truth > 0, axis=0), valid_truth, np.nan)
        stack.refit(
            vstack_features([encoded.features, held_out.features]), np.vstack([truth, known]), config.training.seed
        )

    again = refit if stack is not None and config.training.refit_base_learners else None
    plan = _plan(train, truth, encoder, stack, [fold], {"train": len(train), "valid": len(valid)})
    return replace(plan, refit=again)


def _mapped(mapped: MappedRows) -> Plan:
    """One network that learns from mapped training rows and is validated on the prepared validation rows."""
    train, names = mapped.parts["train"], mapped.label_names
    stored = train.targets
    return Plan(
        name=mapped.name,
        label_names=names,
        encoder=mapped.encoder,
        stack=mapped.stack,
        folds=[Fold(train, [part for name, part in mapped.parts.items() if name != "train"])],
        labels=sparse.csr_matrix((stored.values, stored.ids, stored.offsets), shape=(len(train), len(names))),
        priors=stored.label_priors(),
        rows={"train": len(train), "valid": len(mapped.parts["valid"])},
        release=mapped.release if mapped.mapped_bytes() > RELEASE_BYTES else None,
    )


def _plan(
    train: Dataset, truth: np.ndarray, encoder: Encoder, stack: Stack | None, folds: list[Fold], rows: dict[str, int]
) -> Plan:
    assert train.labels is not None
    return Plan(
        name=train.name,
        label_names=train.label_names,
        encoder=encoder,
        stack=stack,
        folds=folds,
        labels=train.labels,
        priors=label_priors(truth),
        rows=rows,
    )


def _blocked(splits: Splits, log: Log) -> bool:
    if splits.serially_correlated:
        log("rows that follow each other are alike: folds are blocks of consecutive rows")
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


def _encode(train: Dataset, config: Config, log: Log) -> tuple[Encoder, EncodedRows]:
    log(f"encoding {len(train)} {train.kind} rows")
    encoder = make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)
    return encoder, encoder.encode(train.rows, train.row_edges)


def _fit_base_learners(
    config: Config, encoded: EncodedRows, truth: np.ndarray, blocked: bool, log: Log
) -> tuple[Stack | None, np.ndarray | None]:
    """The base learners, and their out-of-fold logits of the training rows (n, L, K)."""
    if not config.model.base_learners:
        return None, None
    fold_n = fold_numbers(len(truth), FOLDS, config.training.seed, blocked) if blocked else None
    log(f"fitting base learners ({', '.join(config.model.base_learners)})")
    stack = Stack(config.model.base_learners)
    return stack, stack.fit(encoded.features, truth, config.training.seed, fold_n)


def _run_metadata(model: FittedModel, histories: Sequence[Progress]) -> dict[str, Any]:
    """What the model card states about a run, from where each network ended."""
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    return {
        "kind": model.encoder.kind,
        "labels": len(model.label_names),
        "seed": model.config.training.seed,
        "status": histories[-1].status,
        "networks": len(histories),
        "epochs": max(progress.epoch for progress in histories),
        "best_epoch": histories[-1].best_epoch + 1,
        "minutes": round(sum(progress.seconds for progress in histories) / 60, 2),
        "weights": sum(p.numel() for p in model.network.parameters()),
        "valid_scores": {
            metric: five_metrics(model.valid_truth, rule.apply(model.valid_proba))[metric]
            for metric, rule in model.decisions.paper.items()
        },
        "history": [vars(record) for progress in histories for record in progress.history],
        "python": platform.python_version(),
    }
