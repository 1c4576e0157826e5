"""One visible loop: epochs, validation, early stopping, checkpoints, resume.

Everything that decides the next step (weights, optimizer, averages, the position in the epoch) is in the
checkpoint, and the dropout of a step depends only on seed, step and process, so a run that was killed continues
with the same numbers. Several processes (see `runtime/distributed.py`) share every batch.
"""

from __future__ import annotations

import math
import signal
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lampnet.config import TrainingConfig
from lampnet.errors import CheckpointError, TrainingDiverged
from lampnet.evaluation.choose_rules import choose_paper_thresholds
from lampnet.evaluation.intervals import weighted_score
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits, probabilities
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime import distributed
from lampnet.runtime.allocator import kept_memory
from lampnet.runtime.random_bytes import RandomBytes
from lampnet.runtime.signals import signals_collected
from lampnet.training.batches import shuffled_batches
from lampnet.training.checkpoint import (
    Checkpoint,
    check_same_run,
    check_tensors,
    latest_checkpoint,
    remove_checkpoints,
    save_checkpoint,
)
from lampnet.training.loss import lamp_loss
from lampnet.training.optimizer import make_optimizer, warm_up
from lampnet.training.progress import ALONE, Callback, EpochRecord, Progress, RunContext, Stopped

STEPS_BACK = 3
#: Settings that may change when a run is resumed: they do not change the numbers.
FREE_SETTINGS = ("threads", "time_budget", "checkpoint_minutes")
#: what predicting a row takes, of the time of learning from it; how often validation rows are predicted once the time
#: is up: to score the epoch, and with the best weights
PREDICTING_SHARE, PREDICTED_AT_THE_END = 1 / 3, 2


class Trainer:
    """Fits a model; `run` returns when the best epoch's weights are in it."""

    def __init__(
        self,
        model: StackedLaMP,
        config: TrainingConfig,
        train: Examples,
        valid: Examples,
        context: RunContext = ALONE,
    ) -> None:
        self.model, self.config, self.train, self.valid = model, config, train, valid
        self.folder = context.folder
        self.team = distributed.team()
        reports = context.callback is not None and self.team.leads
        self.callback: Callback = context.callback if reports and context.callback else _ignore
        self.progress = Progress(network=context.member, networks=context.members, epochs=config.epochs)
        self.random = RandomBytes()
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(self.parameters, config)
        self.average = [p.detach().clone() for p in self.parameters] if config.average else []
        self.best: list[Tensor] = []
        self.received = context.received
        self.batches_an_epoch = math.ceil(len(train) / config.batch_size)
        # The same weights in the kernels for training; `model` itself stays as the paper writes it.
        self.network: torch.nn.Module = with_training_kernels(model, self.random)
        self._run_id: dict[str, Any] = {}
        self._checkpoint_at = 0.0

    def run(self, resume: bool = False) -> Progress:
        """Train to the end of the schedule, the patience or the time budget."""
        if self.folder is not None:
            self._begin_in(self.folder, resume)
        self.network = distributed.shared_network(self.network, self._idle_parameters())
        began = time.monotonic()
        self._score_start()
        self.progress.seconds += time.monotonic() - began
        collected = signals_collected() if self.received is None else nullcontext(self.received)
        with kept_memory(), collected as received:
            while self.progress.status == "running" and self.progress.epoch < self.config.epochs:
                self._epoch(received)
        if self.progress.status == "running":
            self.progress.status = "finished"
        self.use_best()
        self.model.eval()
        return self.progress

    def _score_start(self) -> None:
        """Epoch 0: the stacked base logits, which the network must beat; their loss is that of the validation rows."""
        stacked = self.valid.stacked()
        if stacked is None or self.config.keep_network == "always" or self.progress.step:
            return
        progress = self.progress
        scores = self._scores(probabilities(stacked))
        progress.start_score = scores[self.config.metric]
        truth = self.valid.truth(np.arange(len(self.valid)))
        progress.history.append(
            EpochRecord(
                epoch=-1,
                loss=float(
                    lamp_loss([torch.from_numpy(stacked)], truth, 0.0, self.valid.entry_weights(np.arange(len(truth))))
                ),
                score=progress.start_score,
                seconds=0.0,
                rows_per_second=0.0,
                learning_rate=0.0,
                network=progress.network,
                scores=scores,
            )
        )
        self.callback("epoch", progress)

    def _epoch(self, received: list[int]) -> None:
        progress = self.progress
        batches = shuffled_batches(self.train.nodes.lengths(), self.config.batch_size, self.config.seed, progress.epoch)
        progress.batches = len(batches)
        began, seconds_before = time.monotonic(), progress.seconds
        rows_before = progress.loss_rows
        self.network.train()
        for rows in batches[progress.batch :]:
            loss = self._step(rows)
            if not math.isfinite(loss):
                return self._step_back()
            progress.loss_sum += loss * len(rows)
            progress.loss_rows += len(rows)
            progress.batch += 1
            progress.seconds = seconds_before + time.monotonic() - began
            self.callback("step", progress)
            # Processes get signals and read clocks at different moments: they must agree, or one would wait for ever.
            rows_done, seconds = progress.loss_rows - rows_before, progress.seconds - seconds_before
            at_the_end = PREDICTED_AT_THE_END * PREDICTING_SHARE * len(self.valid) * seconds / rows_done
            over = self.team.leads and 0 < self.config.time_budget <= progress.seconds + at_the_end
            stops, overs = distributed.total([float(bool(received)), float(over)])
            if stops:
                self._stop(received)
            if overs:
                progress.status = "time budget"
                break
            if time.monotonic() - self._checkpoint_at > 60 * self.config.checkpoint_minutes:
                self._checkpoint()
        scores = self._validate()
        score = scores[self.config.metric]
        progress.seconds = seconds_before + time.monotonic() - began
        progress.history.append(
            EpochRecord(
                epoch=progress.epoch,
                loss=progress.loss,
                score=score,
                seconds=progress.seconds,
                rows_per_second=(progress.loss_rows - rows_before) / max(1e-9, progress.seconds - seconds_before),
                learning_rate=self.optimizer.param_groups[0]["lr"],
                network=progress.network,
                scores=scores,
            )
        )
        if score > progress.best_score:
            progress.best_score, progress.best_epoch = score, progress.epoch
            self.best = [weight.clone() for weight in self._evaluated()]
        self.callback("epoch", progress)
        progress.epoch, progress.batch, progress.loss_sum, progress.loss_rows = progress.epoch + 1, 0, 0.0, 0
        since = progress.best_epoch if progress.beats_start() else -1
        if self.config.patience and progress.epoch - 1 - since >= self.config.patience:
            progress.status = progress.status if progress.status != "running" else "early stop"
        self._checkpoint()
        if progress.status == "running" and distributed.total([float(bool(received))])[0]:
            self._stop(received)
        return None

    def _step(self, rows: np.ndarray) -> float:
        """One optimizer step on a batch (in `accumulate` parts); returns its loss, NaN where it diverged."""
        config = self.config
        self.random.reseed((config.seed, self.progress.step, self.team.rank))
        targets_BL = self.train.truth(rows)
        n_known = max(1, int((~targets_BL.isnan()).sum()))
        parts = np.array_split(np.arange(len(rows)), min(config.accumulate, len(rows)))
        local = 0.0
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            with nullcontext() if last else distributed.without_averaging(self.network):
                local += self._backward(rows, targets_BL, part, n_known)
        loss = distributed.total([local])[0]
        self._learning_rate()
        length = float(torch.nn.utils.clip_grad_norm_(self.parameters, config.clip or math.inf))
        if math.isfinite(loss) and math.isfinite(length):
            self.optimizer.step()
            self._update_average()
        else:
            loss = math.nan
        self.optimizer.zero_grad()
        self.progress.step += 1
        return loss

    def _backward(self, rows: np.ndarray, targets_BL: Tensor, part: np.ndarray, n_known: int) -> float:
        """Gradients of this process's share of a part; returns its share of the batch's loss."""
        own = distributed.share(part)
        idle = not len(own)  # fewer rows than processes: this one adds zero gradients
        own = part[:1] if idle else own
        batch = self.train.nodes.batch(rows[own])
        if self.model.config.node_dropout and self.model.embedding.allows_node_dropout:
            batch = batch.with_node_dropout(self.model.config.node_dropout, self.random)
        truth_BL = targets_BL[torch.from_numpy(own)]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            # The shortlist is chosen as for new rows. Were the true labels always on it, an unlikely one would give
            # itself away as true, and the network would learn to raise unlikely labels.
            output = self.network(batch, self.train.label_input(rows[own]))
        stages = [stage.float() for stage in output.stages]
        if self.model.config.shortlist and output.initial is not None:
            stages.insert(0, output.initial.float())
        # The loss is a mean over known labels, so each share counts by how many it has.
        weight = 0.0 if idle else int((~truth_BL.isnan()).sum()) / n_known
        counts_BL = self.train.entry_weights(rows[own])
        loss = lamp_loss(stages, truth_BL, self.config.intermediate_weight, counts_BL) * weight
        with distributed.explained_losses():
            torch.autograd.backward(loss * self.team.size)  # gradients are averaged over the processes, not summed
        return float(loss.detach())

    def _idle_parameters(self) -> bool:
        """Whether a parameter gets no gradient, from one row; only asked for by several processes."""
        if self.team.size == 1:
            return False
        row = np.arange(1)
        output = self.model.eval()(self.train.nodes.batch(row), self.train.label_input(row))
        torch.autograd.backward(lamp_loss(output.stages, self.train.truth(row), self.config.intermediate_weight))
        idle = any(parameter.grad is None for parameter in self.parameters)
        self.optimizer.zero_grad()
        return bool(self.model.config.shortlist) or idle

    def _learning_rate(self) -> None:
        config, step = self.config, self.progress.step
        steps = max(1, config.epochs * self.batches_an_epoch)
        rate = config.learning_rate * warm_up(step, steps, config.warmup_steps)
        rate *= 0.5**self.progress.step_backs
        if config.schedule == "cosine":
            done = min(1.0, step / steps)
            rate *= 0.5 * (1 + math.cos(math.pi * done))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _update_average(self) -> None:
        if not self.average:
            return
        # Early on the average follows quickly, so that the untrained weights soon count for nothing.
        decay = min(self.config.average, (1 + self.progress.step) / (10 + self.progress.step))
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    def _evaluated(self) -> list[Tensor]:
        """The weights that are scored and kept: the running average where there is one."""
        return self.average or [p.detach() for p in self.parameters]

    def _use(self, weights: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(weight)

    def use_best(self) -> bool:
        """Put the best epoch's weights into the model; False while there is none."""
        if self.best:
            self._use(self.best)
        return bool(self.best)

    def _validate(self) -> dict[str, float]:
        """The validation scores of the averaged weights, each at the best of the paper's thresholds."""
        live = [p.detach().clone() for p in self.parameters]
        self._use(self._evaluated())
        self.model.eval()
        proba = probabilities(predict_logits(laid_out(self.model, self.valid.n_nodes()), self.valid))
        self._use(live)
        return self._scores(proba)

    def _scores(self, proba: np.ndarray) -> dict[str, float]:
        truth = self.valid.truth(np.arange(len(self.valid))).numpy()
        counts = self.valid.row_weights
        rules = choose_paper_thresholds(truth, proba, counts)
        if counts is None:
            return {name: float(METRICS[name](truth, rule.apply(proba))) for name, rule in rules.items()}
        return {n: weighted_score(n, truth, rule.apply(proba), counts.row_n, counts) for n, rule in rules.items()}

    def _stop(self, received: list[int]) -> None:
        self.progress.status = "interrupted"
        self._checkpoint()
        raise Stopped(received[0] if received else signal.SIGTERM, self.progress)

    def _step_back(self) -> None:
        """The loss is no longer a number: return to the last good state with half the learning rate."""
        found, _ = self._latest()
        if found is None or self.progress.step_backs >= STEPS_BACK:
            raise TrainingDiverged(
                f"the loss is no longer a number (epoch {self.progress.epoch + 1}, step {self.progress.step}); "
                "lower training.learning_rate or set training.clip=1"
            )
        step_backs = self.progress.step_backs + 1
        self._load(found)
        self.progress.step_backs = step_backs
        self.callback("step back", self.progress)
        self._checkpoint()  # a run that is killed now must not resume at the old rate

    # What is saved, and how it comes back.

    def _begin_in(self, folder: Path, resume: bool) -> None:
        """Continue from the newest good checkpoint of the folder, or make sure that there is no run to lose."""
        resume = resume or distributed.restarted()
        self._run_id = distributed.from_leader(self._identity() if self.team.leads else {})
        found, damaged = self._latest()
        if resume and damaged and found is None:
            raise CheckpointError(f"{damaged[0]}, and no other is there; start again without --resume")
        if resume and found is not None:
            for sentence in damaged:
                self.callback(f"warning: {sentence}; the one before it is used", self.progress)
            check_same_run(folder, found.state.get("run", {}), self._run_id)
            try:
                self._load(found)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as fault:
                problem = f"the checkpoint in {folder} cannot be resumed ({str(fault)[:200]})"
                raise CheckpointError(f"{problem}; start again without --resume") from None
            self._checkpoint_at = time.monotonic()
            self.callback("resumed", self.progress)
            return
        if found is not None and found.state["progress"]["status"] in ("running", "interrupted"):
            saved = found.state["progress"]
            if saved["epoch"] < self.config.epochs and saved["step"]:
                raise CheckpointError(
                    f"{folder} holds a run that has not ended (epoch {saved['epoch'] + 1}, step {saved['step']}); "
                    "go on with --resume, or give another folder"
                )
        if self.team.leads:
            remove_checkpoints(folder)
        # Written before the first step, so that a folder that cannot be written to is reported at once.
        self._checkpoint(needed=True)

    def _latest(self) -> tuple[Checkpoint | None, list[str]]:
        """Process 0 reads for all: the folder need not be there on the other machines."""
        found: tuple[Checkpoint | None, list[str]] = (None, [])
        if self.folder is not None and self.team.leads:
            found = latest_checkpoint(self.folder)
        return distributed.from_leader(found)

    def _checkpoint(self, needed: bool = False) -> None:
        """Write the state; a full disk during a run is reported and tried again later: the run itself goes on."""
        self._checkpoint_at = time.monotonic()
        if self.folder is None or not self.team.leads:
            return
        tensors: dict[str, Tensor] = {f"weight.{i}": p for i, p in enumerate(self.parameters)}
        tensors |= {f"average.{i}": a for i, a in enumerate(self.average)}
        tensors |= {f"best.{i}": b for i, b in enumerate(self.best)}
        for i, parameter in enumerate(self.parameters):
            for name, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{i}"] = value
        state = {"progress": asdict(self.progress), "run": self._run_id}
        try:
            save_checkpoint(self.folder, self.progress.step, tensors, state)
        except CheckpointError as fault:
            if needed:
                raise
            self.callback(f"warning: {fault}", self.progress)

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        settings = {f"training.{k}": v for k, v in asdict(self.config).items() if k not in FREE_SETTINGS}
        settings |= {f"model.{k}": v for k, v in asdict(self.model.config).items()}
        settings |= {"label_graph": self.model.graph.kind, "weights": sum(p.numel() for p in self.parameters)}
        return {"settings": settings, "data": self.train.digest()}

    def _load(self, found: Checkpoint) -> None:
        tensors = found.tensors
        check_tensors(tensors, self.parameters)
        self._use([tensors[f"weight.{i}"] for i in range(len(self.parameters))])
        self.average = [tensors[f"average.{i}"] for i in range(len(self.average))]
        self.best = [tensors[f"best.{i}"] for i in range(len(self.parameters)) if f"best.{i}" in tensors]
        self.optimizer.state.clear()
        for i, parameter in enumerate(self.parameters):
            names = [key.split(".")[1] for key in tensors if key.startswith("optimizer.") and key.endswith(f".{i}")]
            if names:
                self.optimizer.state[parameter] = {name: tensors[f"optimizer.{name}.{i}"] for name in names}
        self.progress = Progress.from_json(found.state["progress"])
        self.progress.epochs = self.config.epochs
        budget = self.config.time_budget
        more_time = self.progress.status == "time budget" and not 0 < budget <= self.progress.seconds
        if self.progress.status == "interrupted" or more_time:
            self.progress.status = "running"


def _ignore(event: str, progress: Progress) -> None:
    """Without a callback, nothing is reported."""
