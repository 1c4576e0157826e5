"""One visible loop: epochs, validation, early stop, checkpoints, resume.

Everything that decides the next step (weights, optimiser, averages, random streams, the place in
the epoch) is in the checkpoint, so a run that was killed continues with the same numbers.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lampnet.batching import shuffled_batches
from lampnet.checkpoint import latest_checkpoint, save_checkpoint
from lampnet.config import TrainingConfig
from lampnet.decision import choose_paper_thresholds
from lampnet.errors import TrainingDiverged
from lampnet.loss import lamp_loss
from lampnet.metrics import METRICS
from lampnet.model import LaMP
from lampnet.prediction import Examples, predict_logits, probabilities

STEPS_BACK = 3


@dataclass
class EpochRecord:
    """One line of the history."""

    epoch: int
    loss: float
    score: float
    seconds: float
    rows_per_second: float
    learning_rate: float


@dataclass
class Progress:
    """Where a run stands; handed to the callback after every step and epoch."""

    epoch: int = 0
    batch: int = 0
    batches: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_rows: int = 0
    seconds: float = 0.0
    best_score: float = -math.inf
    best_epoch: int = -1
    step_backs: int = 0
    history: list[EpochRecord] = field(default_factory=list)
    #: "running", then "finished", "early stop", "time budget" or "interrupted"
    status: str = "running"

    @property
    def loss(self) -> float:
        """Mean training loss of the epoch so far."""
        return self.loss_sum / max(1, self.loss_rows)


Callback = Callable[[str, Progress], None]


class Stopped(BaseException):
    """A signal asked the run to end; its state is on disk."""

    def __init__(self, signal_number: int, progress: Progress) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.progress = progress
        #: the best model so far, where the run had one (set by `lampnet.fitting.fit`)
        self.model: Any = None


class Trainer:
    """Fits a model; `run` returns when the best epoch's weights are in it."""

    def __init__(
        self,
        model: LaMP,
        config: TrainingConfig,
        train: Examples,
        valid: Examples,
        folder: Path | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.model, self.config, self.train, self.valid = model, config, train, valid
        self.folder = folder
        self.callback = callback or (lambda event, progress: None)
        self.progress = Progress()
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = _optimiser(self.parameters, config)
        self.average = [p.detach().clone() for p in self.parameters] if config.average else []
        self.best: list[Tensor] = []
        self.batches_an_epoch = math.ceil(len(train) / config.batch_size)
        self._checkpoint_at = 0.0
        model.random.reseed(config.seed)

    def run(self, resume: bool = False) -> Progress:
        """Train to the end of the schedule, the patience or the time budget."""
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        torch.manual_seed(self.config.seed)
        if resume and self.folder is not None:
            self._restore()
        with _signals() as received:
            while self.progress.status == "running" and self.progress.epoch < self.config.epochs:
                self._epoch(received)
        if self.progress.status == "running":
            self.progress.status = "finished"
        self._use(self.best)
        return self.progress

    def _epoch(self, received: list[int]) -> None:
        progress = self.progress
        batches = shuffled_batches(
            self.train.nodes.lengths(), self.config.batch_size, self.config.seed, progress.epoch
        )
        progress.batches = len(batches)
        began, seconds_before = time.monotonic(), progress.seconds
        rows_before = progress.loss_rows
        self.model.train()
        for rows in batches[progress.batch :]:
            loss = self._step(rows)
            if not math.isfinite(loss):
                return self._step_back()
            progress.loss_sum += loss * len(rows)
            progress.loss_rows += len(rows)
            progress.batch += 1
            progress.seconds = seconds_before + time.monotonic() - began
            self.callback("step", progress)
            if received:
                self._stop(received[0])
            if self.config.time_budget and progress.seconds >= self.config.time_budget:
                progress.status = "time budget"
                break
            if time.monotonic() - self._checkpoint_at > 60 * self.config.checkpoint_minutes:
                self._checkpoint()
        score = self._validate()
        progress.seconds = seconds_before + time.monotonic() - began
        progress.history.append(
            EpochRecord(
                epoch=progress.epoch,
                loss=progress.loss,
                score=score,
                seconds=progress.seconds,
                rows_per_second=(progress.loss_rows - rows_before) / max(1e-9, progress.seconds - seconds_before),
                learning_rate=self.optimiser.param_groups[0]["lr"],
            )
        )
        if score > progress.best_score or not self.best:
            progress.best_score, progress.best_epoch = score, progress.epoch
            self.best = [weight.clone() for weight in self._evaluated()]
        self.callback("epoch", progress)
        progress.epoch, progress.batch, progress.loss_sum, progress.loss_rows = progress.epoch + 1, 0, 0.0, 0
        if self.config.patience and progress.epoch - 1 - progress.best_epoch >= self.config.patience:
            progress.status = progress.status if progress.status != "running" else "early stop"
        self._checkpoint()
        if received:
            self._stop(received[0])
        return None

    def _step(self, rows: np.ndarray) -> float:
        """One optimiser step on a batch (in `accumulate` parts); returns its loss."""
        config, total = self.config, 0.0
        for part in np.array_split(rows, min(config.accumulate, len(rows))):
            batch = self.train.nodes.batch(part)
            if self.model.config.node_dropout and getattr(self.model.embedding, "thin_before", True):
                batch = batch.thinned(self.model.config.node_dropout, self.model.random)
            targets_BL = self.train.truth(part)
            must_BL = targets_BL > 0 if self.model.config.candidates else None
            with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "bfloat16"):
                output = self.model(batch, self.train.opinions(part), must_BL=must_BL)
            stages = [stage.float() for stage in output.stages]
            if self.model.config.candidates and output.opinion is not None:
                stages.insert(0, output.opinion.float())
            loss = lamp_loss(stages, targets_BL, config.intermediate_weight) * (len(part) / len(rows))
            loss.backward()
            total += float(loss.detach())
        self._learning_rate()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, config.clip)
        if math.isfinite(total):
            self.optimiser.step()
            self._update_average()
        self.optimiser.zero_grad(set_to_none=True)
        self.progress.step += 1
        return total

    def _learning_rate(self) -> None:
        config, step = self.config, self.progress.step
        rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
        if config.schedule == "cosine":
            done = min(1.0, step / max(1, config.epochs * self.batches_an_epoch))
            rate *= 0.5 * (1 + math.cos(math.pi * done))
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def _update_average(self) -> None:
        if not self.average:
            return
        # Early on the average follows quickly, so that it never rests on the untrained weights.
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

    def _validate(self) -> float:
        """The validation score of the averaged weights, at the best of the paper's thresholds."""
        live = [p.detach().clone() for p in self.parameters]
        self._use(self._evaluated())
        proba = probabilities(predict_logits(self.model, self.valid))
        self._use(live)
        truth = self.valid.truth(np.arange(len(self.valid))).numpy()
        rule = choose_paper_thresholds(truth, proba)[self.config.metric]
        return float(METRICS[self.config.metric](truth, rule.apply(proba)))

    def _stop(self, signal_number: int) -> None:
        self.progress.status = "interrupted"
        if self.folder is not None:
            self._checkpoint()
        raise Stopped(signal_number, self.progress)

    def _step_back(self) -> None:
        """The loss is no longer a number: return to the last good state with half the learning rate."""
        found = latest_checkpoint(self.folder)[0] if self.folder is not None else None
        if found is None or self.progress.step_backs >= STEPS_BACK:
            raise TrainingDiverged(
                f"the loss is no longer a number (epoch {self.progress.epoch + 1}, step {self.progress.step}); "
                "lower training.learning_rate or set training.clip=1"
            )
        step_backs = self.progress.step_backs + 1
        self._load(found.tensors, found.state)
        self.progress.step_backs = step_backs
        self.config = _with_half_rate(self.config)
        self.callback("step back", self.progress)

    # What is saved, and how it comes back.

    def _checkpoint(self) -> None:
        self._checkpoint_at = time.monotonic()
        if self.folder is None:
            return
        tensors = {f"weight.{i}": p for i, p in enumerate(self.parameters)}
        tensors |= {f"average.{i}": a for i, a in enumerate(self.average)}
        tensors |= {f"best.{i}": b for i, b in enumerate(self.best)}
        for i, parameter in enumerate(self.parameters):
            for name, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser.{name}.{i}"] = value
        save_checkpoint(self.folder, self.progress.step, tensors, self._state())

    def _state(self) -> dict[str, Any]:
        return {"progress": asdict(self.progress), "random": self.model.random.state(), "config": asdict(self.config)}

    def _restore(self) -> None:
        assert self.folder is not None
        found, damaged = latest_checkpoint(self.folder)
        for sentence in damaged:
            self.callback(f"warning: {sentence}", self.progress)
        if found is not None:
            self._load(found.tensors, found.state)
            self.callback("resumed", self.progress)

    def _load(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        self._use([tensors[f"weight.{i}"] for i in range(len(self.parameters))])
        self.average = [tensors[f"average.{i}"] for i in range(len(self.average))]
        self.best = [tensors[f"best.{i}"] for i in range(len(self.parameters)) if f"best.{i}" in tensors]
        for i, parameter in enumerate(self.parameters):
            names = [key.split(".")[1] for key in tensors if key.startswith("optimiser.") and key.endswith(f".{i}")]
            if names:
                self.optimiser.state[parameter] = {name: tensors[f"optimiser.{name}.{i}"] for name in names}
        saved = dict(state["progress"])
        history = [EpochRecord(**record) for record in saved.pop("history")]
        self.progress = Progress(**saved, history=history)
        if self.progress.status == "interrupted":
            self.progress.status = "running"
        self.model.random.restore(state["random"])


def _with_half_rate(config: TrainingConfig) -> TrainingConfig:
    from dataclasses import replace

    return replace(config, learning_rate=config.learning_rate / 2)


def _optimiser(parameters: list[torch.nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    # Vectors and biases (norms, gates) are not decayed: only matrices grow without need.
    matrices = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return kind([g for g in groups if g["params"]], lr=config.learning_rate, betas=(0.9, 0.999), eps=1e-8, fused=True)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying, so that the step in hand is finished first."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
