"""From labelled rows to a fitted model: encode, fit base learners, train the network, keep what is better.

Rows in memory and mapped rows, a single network and an ensemble take the same path: a `Plan` says which examples
each member of the ensemble learns from and which it is validated on. The stack of the base learners is a model of its
own: a network that does not score better out-of-fold does not enter the predictions.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lampnet.config import Config, folds_for
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.splits import VALIDATION_FRACTION, Splits, fold_numbers
from lampnet.data.weights import LabelWeight, Weights, check_label_weight, taken
from lampnet.errors import ConfigError
from lampnet.evaluation.calibration import Calibration, cross_fit_calibration
from lampnet.evaluation.choose_rules import Decisions, choose_decisions
from lampnet.evaluation.gain import Gain, measure_gain
from lampnet.evaluation.metrics import METRICS, five_metrics
from lampnet.evaluation.promises import Promises
from lampnet.evaluation.reliability import reliability
from lampnet.inference.conditional import Conditional
from lampnet.inference.examples import Examples
from lampnet.inference.logits import probabilities, with_priors_for_empty_rows
from lampnet.inference.predictor import FittedModel
from lampnet.model.ensemble import Ensemble
from lampnet.model.label_graph import LabelGraph, label_graph
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.base_learner_files import remove_base_learner_files
from lampnet.pipeline.continuing import Start, continued, continued_from
from lampnet.pipeline.control import IN_MEMORY, Control, FitRun, Log, no_log, no_phase
from lampnet.pipeline.hierarchy_of_rows import check_mapped, with_parents
from lampnet.pipeline.known import fit_conditional, known_rows
from lampnet.pipeline.mapped_rows import MappedRows
from lampnet.pipeline.members import Member, train_members
from lampnet.pipeline.plan import (
    Plan,
    check_training_rows,
    cross_fitted,
    mapped,
    single_split,
    warn_of_unknown_labels,
)
from lampnet.runtime import distributed
from lampnet.runtime.budget import Budget
from lampnet.runtime.folder_lock import claimed
from lampnet.training.progress import Progress, Stopped

#: a network that would get less than this share of the time budget, or these seconds, is not begun
LEAST_NETWORK_SHARE, LEAST_NETWORK_SECONDS = 0.1, 1e-3
#: of the networks' logits beside the stack's; half of both is often better than either, as ensembles are
SHARES = (1.0, 0.5)
#: how often decisions are chosen after the networks: on their own predictions, for each share, and where few or many
#: labels are known; what known labels say about the others is learned in about as long again
AFTER_NETWORKS = 5
#: each of these parts of the held-out rows is calibrated without its own rows
CALIBRATION_FOLDS = 5
#: where fewer new rows are learned from, cut-offs and calibration stay as they were chosen on the rows before
FEW_NEW_ROWS = 100


def fit(
    data: Splits | MappedRows,
    config: Config,
    *,
    label_edges: np.ndarray | None = None,
    label_weight: LabelWeight = None,
    hierarchy: LabelHierarchy | None = None,
    start: Start | None = None,
    validation_fraction: float = VALIDATION_FRACTION,
    run: FitRun = IN_MEMORY,
) -> FittedModel:
    """Train on labelled rows; choose epochs and decisions on held-out rows.

    With `training.folds` above 1 these are all training rows, each scored by the member of the ensemble that did not
    learn from it; else the rows of `splits.valid`, or a share sampled from the training rows. Where validation rows
    are given and `training.folds` is left open, choices are made on them; rows that lampnet itself sampled for
    validation are merged back where an ensemble is trained. Mapped rows train a single network.

    label_edges   int (E, 2) label numbers, for the label graphs `tree` and `given`
    label_weight  what labels count (see `lampnet.data.weights`); what rows count comes with them
    hierarchy     labels that never stand without their parents; rows that lack one are completed
    start         a model to learn on from: see `lampnet.pipeline.continuing`; its hierarchy stays
    """
    team = distributed.team()
    run = run if team.leads else replace(run, log=no_log, phase=no_phase)
    if isinstance(data, MappedRows):
        if label_weight is not None:
            raise ConfigError("rows that are mapped from disk take no label weights; give fewer rows, or parts")
        if start is not None:
            raise ConfigError("rows that are mapped from disk cannot be added to a model; give fewer rows, or parts")
        config = config_for_mapped_rows(data, config, run.log)
        if hierarchy is not None:
            check_mapped(hierarchy, data)
    else:
        data = data if start is None else start.rows(data)
        if start is not None and start.model.hierarchy is not None:
            hierarchy = start.model.hierarchy.with_labels(data.train.label_names)
        if hierarchy is not None:
            data = with_parents(data, hierarchy, run.log)
        label_weight = check_label_weight(label_weight, data.train.label_names)
        data = data.that_count()
        check_training_rows(data.train)
        if start is None:
            warn_of_unknown_labels(data.train)
        data, config = resolve(data, config) if start is None else (data, start.config(config, len(data.train)))
    with (
        claimed(run.folder if team.leads else None),
        Control(run, Budget(config.training.time_budget, run.began)) as control,
    ):
        if run.folder is not None and team.leads and not run.resume:
            remove_base_learner_files(run.folder)
        if isinstance(data, MappedRows):
            plan = mapped(data)
            control.collect_signals()
        elif start is not None:
            plan = continued(data, start, config, control, label_weight)
        elif config.training.folds > 1:
            plan = cross_fitted(data, config, control, label_weight)
        else:
            plan = single_split(data, config, validation_fraction, control, label_weight)
        return _Fit(plan, config, label_edges, control, hierarchy).model()


def resolve(splits: Splits, config: Config) -> tuple[Splits, Config]:
    """The rows as they are learned from, and settings in which nothing is left open.

    Labelled rows are divided either into folds or into training and validation rows, never twice. Where they are
    serially correlated, a single network validated on the last of them does better on later rows than an ensemble,
    most of whose members lack a block that lies nearer: docs/measurements/blocked_folds.json. Without a network no
    row needs to be held out: the base learners' logits are out-of-fold anyway.
    """
    if splits.valid is None:
        if config.training.folds == 0 and not config.model.network:
            config = config.updated({"training.folds": folds_for(0)})
        if config.training.folds == 0 and splits.serially_correlated:
            config = config.updated({"training.folds": 1})
    else:
        labelled = len(splits.train) + len(splits.valid)
        if splits.valid_is_sampled and (config.training.folds or folds_for(labelled)) > 1:
            splits = splits.merged_back()
        else:
            config = config.updated({"training.folds": config.training.folds or 1})
    train = splits.train
    return splits, config.resolved(train.kind, len(train), len(train.label_names), train.n_columns)


def config_for_mapped_rows(rows: MappedRows, config: Config, log: Log) -> Config:
    """The settings asked for, but input and base learners as the rows were prepared, and a single network."""
    made = rows.config
    changed = [f"input.{name}" for name, value in vars(made.input).items() if value != getattr(config.input, name)]
    if config.model.base_learners not in (("auto",), made.model.base_learners):
        changed.append("model.base_learners")
    if changed:
        log(f"{', '.join(changed)}: as the data was prepared (prepare again to change it)")
    if config.model.network and rows.stack is not None and rows.parts["train"].base_logits is None:
        raise ConfigError(
            "these rows were prepared for a model without a network, so they have no base logits to train one on; "
            "prepare them again with --preset fast, or train with --preset quick"
        )
    if config.training.folds > 1:
        log("training.folds: mapped rows train one network, validated on the prepared validation rows")
    model = replace(config.model, base_learners=made.model.base_learners)
    config = replace(config, input=made.input, model=model).updated({"training.folds": 1})
    return config.resolved(rows.encoder.kind, len(rows.parts["train"]), len(rows.label_names))


@dataclass(frozen=True)
class _Candidate:
    """Out-of-fold probabilities (n, L) of all held-out rows, and the decisions chosen on them.

    calibration  of new rows; each of these was calibrated without its own fold
    """

    proba: np.ndarray
    decisions: Decisions
    calibration: Calibration | None

    def scores(self, truth: np.ndarray) -> dict[str, float]:
        return {m: float(METRICS[m](truth, self.decisions.best[m].apply(self.proba))) for m in METRICS}


def _networks(members: Sequence[Member]) -> list[StackedLaMP]:
    return [member.network for member in members]


class _Fit:
    """One fit: the stack is scored, members are trained and kept where they are better."""

    def __init__(
        self,
        plan: Plan,
        config: Config,
        label_edges: np.ndarray | None,
        control: Control,
        hierarchy: LabelHierarchy | None = None,
    ) -> None:
        self.plan, self.control, self.hierarchy = plan, control, hierarchy
        learners = () if plan.stack is None else plan.stack.names  # fewer than asked for where a signal came early
        self.config = config.updated({"model.base_learners": learners})
        n_labels = len(plan.label_names)
        if plan.before is not None:
            self.graph = plan.before.graph
        else:
            self.graph = label_graph(config.label_graph, n_labels, labels=plan.labels, edges=label_edges)
        self._choose_on([fold.valid[0] for fold in plan.folds])
        self.decision_seconds = 0.0
        self.out_of_time = False  # before a network was trained
        self.stack = None if plan.stack is None else self._candidate([None] * len(plan.folds))

    def _choose_on(self, held_out: Sequence[Examples]) -> None:
        """The rows that decisions are chosen on."""
        self.truth = np.concatenate([rows.all_targets() for rows in held_out])
        self.weights = Weights.joined([rows.row_weights for rows in held_out])

    def model(self) -> FittedModel:
        members: list[Member] = []
        # A network that added nothing to the base learners before is not trained on, but stays for explanations.
        useless = self.plan.before is not None and not self.plan.before.model.network_weight
        if self.config.model.network and not useless and not self.control.received:
            self.out_of_time = not self._has_time()
            if not self.out_of_time:
                with self.control.timed("networks"):
                    members = train_members(self.plan, self.config, self.graph, self.control, self._network_seconds())
        if not members and self.stack is None:
            raise Stopped.before_training(self.control.received[0])
        model = self._finished(members)
        self.control.log_division()
        if self.control.received:
            stopped = Stopped(self.control.received[0], members[-1].progress if members else Progress())
            stopped.model = model
            raise stopped
        return model

    def _candidate(self, members: Sequence[Member | None], share: float = 1.0) -> _Candidate:
        """Predictions of all held-out rows: by the member that was validated on them or, without one, by the stack.

        share  of the member's logits; the stack's logits have the rest
        """
        parts = []
        for fold, member in zip(self.plan.folds, members, strict=True):
            if member is not None and share == 1:
                parts.append(member.held_out_logits)
                continue
            logits = self._stacked(fold.valid[0])
            if member is not None:
                logits = share * member.held_out_logits + np.float32(1 - share) * logits
            parts.append(logits)
        return self._decided([fold.valid[0] for fold in self.plan.folds], parts)

    def _stacked(self, held_out: Examples) -> np.ndarray:
        """The stack's logits of held-out rows, those of the label priors for rows without a node."""
        stacked = held_out.stacked()
        assert stacked is not None
        return with_priors_for_empty_rows(stacked, held_out.nodes, self.plan.priors)

    def _decided(self, held_out: Sequence[Examples], parts: Sequence[np.ndarray]) -> _Candidate:
        """Calibrated predictions of held-out rows, and the decisions that are best on them.

        parts  the rows' logits; rows without a node have those of the label priors, which need no calibration
        """
        with self.control.timed("decisions"):
            began = self.control.budget.spent()
            made = self._decided_on(held_out, np.concatenate(parts))
            self.decision_seconds = self.control.budget.spent() - began
        return made

    def _decided_on(self, held_out: Sequence[Examples], logits: np.ndarray) -> _Candidate:
        seed, report = self.config.training.seed, self.control.part("choosing the decisions on held-out rows")
        before = self.plan.before
        if before is not None and len(logits) < FEW_NEW_ROWS and before.knows_all(self.plan.label_names):
            proba = self._coherent(probabilities(before.model.calibrated(logits)))
            return _Candidate(proba, before.model.decisions, before.model.calibration)
        calibration = None
        if self.config.training.calibrate:
            some = np.concatenate([rows.nodes.lengths() > 0 for rows in held_out])
            if some.sum() >= CALIBRATION_FOLDS:
                fold_n = fold_numbers(int(some.sum()), CALIBRATION_FOLDS, seed)
                calibration, logits[some] = cross_fit_calibration(
                    logits[some], self.truth[some], fold_n, taken(self.weights, np.flatnonzero(some))
                )
        report(0.2)
        proba = self._coherent(probabilities(logits))
        decisions = choose_decisions(
            self.truth,
            proba,
            seed=seed,
            weights=self.weights,
            hierarchy=self.hierarchy,
            report=lambda share: report(0.2 + 0.8 * share),
        )
        return _Candidate(proba, decisions, calibration)

    def _coherent(self, proba: np.ndarray) -> np.ndarray:
        """No label more probable than its parents: decisions and promises hold for what is predicted."""
        return proba if self.hierarchy is None else self.hierarchy.lowered(proba)

    def _network_seconds(self) -> float:
        """What the budget leaves for the networks, when what follows them has its time; 0 for no limit."""
        left, after = self.control.budget.left(), AFTER_NETWORKS * self.decision_seconds + self.plan.refit_seconds
        if self.plan.every_row is not None:
            after += self.plan.every_row_seconds
            after += self.decision_seconds * sum(self.plan.rows.values()) / len(self.truth)
        return 0.0 if left == float("inf") else max(LEAST_NETWORK_SECONDS, left - after)

    def _has_time(self) -> bool:
        budget = self.control.budget
        if not budget.seconds:
            return True
        seconds, spent = self._network_seconds(), budget.spent()
        least = max(LEAST_NETWORK_SECONDS, LEAST_NETWORK_SHARE * budget.seconds)
        enough = self.stack is None or seconds > least
        rest = f"{seconds:.0f} s are left for the networks" if enough else "no network is trained in the time left"
        self.control.log(f"time budget: {spent:.0f} s of {budget.seconds:.0f} s for encoding and base learners; {rest}")
        return enough

    def _finished(self, members: list[Member]) -> FittedModel:
        kept = [member for member in members if member.is_kept]
        if self.stack is None:
            held_out = [self.plan.folds[member.number].valid[0] for member in members]
            self._choose_on(held_out)
            chosen = self._decided(held_out, [member.held_out_logits for member in members])
            return self._model(_networks(kept), 1.0, chosen, members, None)
        gain = None
        if kept:
            always = self.config.training.keep_network == "always"
            gain, share, corrected = max(
                (self._corrected(kept, share) for share in (SHARES[:1] if always else SHARES)),
                key=lambda tried: tried[0].mean,
            )
            if always or gain.is_clear(self.config.training.metric):
                self.control.log(f"the network adds to the base learners, out-of-fold: {gain.describe()}")
                weight = share * len(kept) / len(self.plan.folds)
                return self._model(_networks(kept), weight, corrected, members, gain)
        if members:
            found = f" ({gain.describe()})" if gain is not None else ""
            self.control.log(f"the network is not clearly better out-of-fold than the base learners{found}: left out")
        if self.plan.every_row is not None and not self.control.received:
            # No row was needed to score a network after all: cut-offs and calibration are chosen on all rows.
            held_out = self.plan.every_row()
            self._choose_on(held_out)
            self.stack = self._decided(held_out, [self._stacked(rows) for rows in held_out])
        # One network stays for explanations of its messages; it does not enter the predictions.
        there = [] if self.plan.before is None else self.plan.before.networks
        return self._model((_networks(members) or there)[:1], 0.0, self.stack, members, gain)

    def _corrected(self, kept: list[Member], share: float) -> tuple[Gain, float, _Candidate]:
        """What the members add to the stack where their logits have this share beside the stack's."""
        assert self.stack is not None
        by_number = {member.number: member for member in kept}
        corrected = self._candidate([by_number.get(number) for number in range(len(self.plan.folds))], share)
        before, after = ((tried.proba, tried.decisions) for tried in (self.stack, corrected))
        return measure_gain(self.truth, before, after, weights=self.weights), share, corrected

    def _model(
        self, kept: list[StackedLaMP], weight: float, chosen: _Candidate, members: list[Member], gain: Gain | None
    ) -> FittedModel:
        plan = self.plan
        model = FittedModel(
            config=self.config.updated({"training.folds": max(1, len(kept)), "model.network": bool(kept)}),
            label_names=plan.label_names,
            encoder=plan.encoder,
            stack=plan.stack,
            graph=self.graph if self.config.label_graph not in ("full", "edgeless") else None,
            network=Ensemble(kept).eval() if kept else None,
            decisions=chosen.decisions,
            label_priors=plan.priors,
            valid_truth=self.truth,
            valid_proba=chosen.proba,
            network_weight=weight,
            conditional=self._conditional(chosen, weight),
            calibration=chosen.calibration,
            promises=Promises.of(self.truth, chosen.proba),
            hierarchy=self.hierarchy,
        )
        model.metadata = {"data": plan.name, "rows": plan.rows} | self._metadata(model, members, gain)
        if plan.before is not None:
            model.metadata["continued"] = continued_from(plan.before.model)
        if plan.refit is not None:
            self.control.log("fitting the base learners again on training and validation rows")
            with self.control.timed("base learners again"):
                plan.refit()
        return model

    def _conditional(self, chosen: _Candidate, network_weight: float) -> Conditional | None:
        """What predicts where some labels are known; process 0 learns it for all."""
        before = self.plan.before
        if before is not None and before.knows_all(self.plan.label_names):
            return before.model.conditional  # the rows before are more, and say the same of the same labels
        learned = None
        if distributed.team().leads:
            calibration = None if network_weight else chosen.calibration  # it belongs to what predicts
            truth, logits = known_rows(self.plan, self.truth, chosen.proba, calibration)
            graph = LabelGraph(self.config.label_graph, self.graph, len(self.plan.label_names))
            with self.control.timed("known labels"):
                learned = fit_conditional(truth, logits, self.config, graph, self.control, self.hierarchy)
        return distributed.from_leader(learned)

    def _metadata(self, model: FittedModel, members: list[Member], gain: Gain | None) -> dict[str, Any]:
        """What the model card states about a run."""
        assert model.valid_truth is not None
        assert model.valid_proba is not None
        histories = [member.progress for member in members]
        network = () if model.network is None else model.network.parameters()
        interrupted = bool(self.control.received)
        status = histories[-1].status if histories else "interrupted" if interrupted else "finished"
        out_of_time = self.out_of_time or any(progress.status == "time budget" for progress in histories)
        if out_of_time and not interrupted:
            status = "time budget"
        return {
            "kind": model.encoder.kind,
            "labels": len(model.label_names),
            "seed": model.config.training.seed,
            "status": status,
            "networks": len(model.network.networks) if model.network is not None else 0,
            "networks_trained": len(members),
            "folds": len(self.plan.folds),
            "epochs": max((progress.epoch for progress in histories), default=0),
            "best_epoch": histories[-1].best_epoch + 1 if histories else 0,
            "minutes": round(self.control.budget.spent() / 60, 2),
            "weights": sum(p.numel() for p in network),
            "valid_scores": {
                metric: five_metrics(model.valid_truth, rule.apply(model.valid_proba))[metric]
                for metric, rule in model.decisions.paper.items()
            },
            "calibration": reliability(model.valid_truth, model.valid_proba).to_json(),
            "stack_scores": None if self.stack is None else self.stack.scores(model.valid_truth),
            "network_gain": None if gain is None else gain.to_json(),
            "history": [vars(record) for progress in histories for record in progress.history],
            "python": platform.python_version(),
        }
