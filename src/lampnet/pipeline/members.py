"""The members of the ensemble: each learns from its fold, side by side on the processor's cores.

A member's numbers do not depend on what runs beside it: each computes on its own thread with its own random bytes,
so members trained together are equal, bit by bit, to members trained one after the other.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from lampnet.config import Config, TrainingConfig
from lampnet.errors import TrainingDiverged
from lampnet.inference.examples import Examples
from lampnet.inference.logits import logits_of_views, with_priors_for_empty_rows
from lampnet.model.build import build_member, member_seed
from lampnet.model.initialise import spectral_start
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.control import Control
from lampnet.pipeline.plan import Fold, Plan
from lampnet.runtime import distributed
from lampnet.runtime.atomic_files import check_no_link
from lampnet.runtime.budget import Budget
from lampnet.runtime.torch_state import threads
from lampnet.training.checkpoint import remove_checkpoints
from lampnet.training.first_logits import match_label_priors
from lampnet.training.progress import Callback, Progress, RunContext, Stopped
from lampnet.training.trainer import Trainer

#: rows that the initialisation looks at
INITIAL_ROWS = 50_000
#: steps between two moments at which mapped pages are handed back
RELEASE_STEPS = 500
#: with fewer rows in a fold, members are trained one after another on one thread: two wait for each other's batches
#: (500 texts: a quarter of the time), and one tells already whether networks are promising
FEW_ROWS = 900


@dataclass(frozen=True)
class Member:
    """A trained network, where it ended, and its logits (n, L) of the rows it was validated on.

    is_kept  whether it scored better on these rows than the base learners it started from
    """

    number: int
    network: StackedLaMP
    progress: Progress
    held_out_logits: np.ndarray
    is_kept: bool


def train_members(
    plan: Plan, config: Config, graph: sparse.csr_matrix | None, control: Control, seconds: float
) -> list[Member]:
    """Train a member for every fold, or fewer: where the first ones do not beat their start, the others would not.

    seconds  wall time for all of them; 0 for no limit. Where a signal asks for the end, the best so far is returned.
    """
    work = _Members(plan, config, graph, control)
    numbers = list(range(len(plan.folds)))
    workers = cores(work.threads, len(numbers))
    time = _Time(control.budget, seconds, -(-len(numbers) // workers))
    members = work.side_by_side(numbers[:workers], workers, time)
    rest = numbers[workers:]
    if rest and not control.received and not time.is_over():
        if _promising(members):
            members += work.side_by_side(rest, workers, time)
        else:
            control.log(f"{len(members)} of {len(numbers)} networks trained, no better than the base learners: no more")
    if len(members) < len(numbers) and time.is_over():
        control.log(f"{len(members)} of {len(numbers)} networks trained in the time that was left")
    return sorted(members, key=lambda member: member.number)


def _promising(members: list[Member]) -> bool:
    """Whether the best epochs of these members scored better, on average, than the base learners they started from."""
    gains = [m.progress.best_score - m.progress.start_score for m in members if not math.isnan(m.progress.start_score)]
    return not gains or float(np.mean(gains)) > 0


def cores(asked: int, members: int) -> int:
    """How many members are trained at once: one per core, or per thread that was asked for."""
    if distributed.team().size > 1:
        return 1
    return max(1, min(members, asked or len(os.sched_getaffinity(0))))


class _Time:
    """The wall time that members share: what one takes longer than its part, the next ones take less.

    seconds  for all of them; 0 for no limit
    rounds   how many are trained one after the other
    """

    def __init__(self, budget: Budget, seconds: float, rounds: int) -> None:
        self.budget, self.seconds, self.rounds = budget, seconds, rounds
        self.began = budget.spent()

    def is_over(self) -> bool:
        """Whether no other member is to be begun."""
        return 0 < self.seconds <= self.budget.spent() - self.began

    def of_next(self) -> float:
        """Seconds for the next member; 0 for no limit."""
        left, rounds = self.seconds - (self.budget.spent() - self.began), self.rounds
        self.rounds = max(1, rounds - 1)
        return max(1e-3, left / rounds) if self.seconds else 0.0


class _Members:
    """What all members of one fit share."""

    def __init__(self, plan: Plan, config: Config, graph: sparse.csr_matrix | None, control: Control) -> None:
        self.plan, self.config, self.graph, self.control = plan, config, graph, control
        self.threads = 1 if len(plan.folds[0].train) < FEW_ROWS else config.training.threads
        self.lock = threading.Lock()

    def side_by_side(self, numbers: list[int], workers: int, time: _Time) -> list[Member]:
        """Train these members, `workers` at a time."""
        if workers == 1:
            made = []
            with threads(self.threads):
                for number in numbers:
                    made.append(self._train(number, time.of_next()))
                    if self.control.received or time.is_over():
                        break
            return [member for member in made if member is not None]
        seconds = time.of_next()
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = [pool.submit(self._train_unless_ended, number, seconds) for number in numbers]
            try:
                return [member for member in map(Future.result, futures) if member is not None]
            except BaseException:
                self.control.received.append(0)  # the others end at their next step
                raise

    def _train_unless_ended(self, number: int, seconds: float) -> Member | None:
        return None if self.control.received else self._train(number, seconds)

    def _train(self, number: int, seconds: float) -> Member | None:
        """One member; None where a signal came before it had an epoch of its own."""
        plan, fold = self.plan, self.plan.folds[number]
        training, began = _member_training(self.config.training, number, seconds), self.control.budget.spent()
        if plan.before is not None and plan.before.networks:
            network = copy.deepcopy(plan.before.networks[number % len(plan.before.networks)]).train()
        else:
            network = build_member(self.config, len(plan.label_names), plan.encoder, self.graph, number)
            _initialise(network, fold.train, training)
        if seconds:  # the start of the weights is a part of the member's time
            left = seconds - (self.control.budget.spent() - began)
            training = replace(training, time_budget=max(1e-3, left))
        if number == 0:
            each = f" in each of {len(plan.folds)} networks" if len(plan.folds) > 1 else ""
            self.control.log(f"training {sum(p.numel() for p in network.parameters()):,} weights{each}")
        context = RunContext(
            folder=_member_folder(self.control, number),
            callback=self._callback(),
            member=number + 1,
            members=len(plan.folds),
            received=self.control.received,
        )
        trainer = Trainer(network, training, fold.train, fold.valid[0], context)
        try:
            progress = trainer.run(resume=self.control.resume)
        except Stopped as stopped:
            progress = stopped.progress
            trainer.use_best()
        return self._member(number, fold, network, progress) if trainer.best else None

    def _member(self, number: int, fold: Fold, network: StackedLaMP, progress: Progress) -> Member:
        network.eval()
        logits = logits_of_views(lambda n_nodes: laid_out(network, n_nodes), fold.valid)
        logits = with_priors_for_empty_rows(logits, fold.valid[0].nodes, self.plan.priors)
        if not np.isfinite(logits).all():
            raise TrainingDiverged(
                f"network {number + 1} predicts values that are not numbers: its training diverged, or its checkpoint "
                "is damaged; train again with --overwrite and a lower training.learning_rate"
            )
        return Member(number, network, progress, logits, progress.beats_start())

    def _callback(self) -> Callback:
        asked, release = self.control.run.callback, self.plan.release

        def called(event: str, progress: Progress) -> None:
            if release is not None and progress.step % RELEASE_STEPS == 0:
                release()
            if asked is not None:
                with self.lock:
                    asked(event, progress)

        return called


def _initialise(network: StackedLaMP, train: Examples, training: TrainingConfig) -> None:
    sample, seed = train, training.seed
    if len(train) > INITIAL_ROWS:
        sample = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:INITIAL_ROWS]))
    if training.start == "spectral":
        spectral_start(network, sample.nodes, sample.all_targets(), seed)
    match_label_priors(network, sample, seed)


def _member_training(training: TrainingConfig, number: int, seconds: float) -> TrainingConfig:
    """A member's own seed, and its share of the time."""
    return replace(training, seed=member_seed(training.seed, number), time_budget=seconds)


def _member_folder(control: Control, number: int) -> Path | None:
    """Where a member's checkpoints go: the first's into the run's folder, the others' into folders of their own."""
    if control.folder is None or number == 0:
        return control.folder
    own = control.folder / f"network-{number + 1}"
    check_no_link(own)
    own.mkdir(parents=True, exist_ok=True)
    if not control.resume:
        remove_checkpoints(own)
    return own
