"""Where a training stands: what callbacks receive, checkpoints keep and a stopped run hands over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass
class EpochRecord:
    """One line of the history."""

    epoch: int
    loss: float
    score: float
    seconds: float
    rows_per_second: float
    learning_rate: float
    network: int = 1
    #: the five metrics of the validation rows, each at the best of the paper's thresholds
    scores: dict[str, float] = field(default_factory=dict)


@dataclass
class Progress:
    """Where a run stands; handed to the callback after every step and epoch."""

    #: which member of the ensemble is trained, of how many
    network: int = 1
    networks: int = 1
    epochs: int = 0
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
    #: the score of the stacked base logits on the same validation rows: what the network starts from; NaN without
    start_score: float = math.nan
    #: "running", then "finished", "early stop", "time budget" or "interrupted"
    status: str = "running"

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Progress:
        """What `dataclasses.asdict` gave; a value of another type is a `TypeError`."""
        history = [EpochRecord(**record) for record in saved["history"]]
        found = cls(**{**saved, "history": history})
        for one, parts in ((found, fields(cls)), *((record, fields(EpochRecord)) for record in history)):
            for part in parts:
                kinds = {"int": (int,), "float": (int, float), "str": (str,)}.get(str(part.type), (list, dict))
                value = getattr(one, part.name)
                if not isinstance(value, kinds) or isinstance(value, bool):
                    raise TypeError(f"{part.name} is {str(value)[:40]!r}")
        if min(found.epoch, found.batch, found.step, found.loss_rows, found.step_backs) < 0:
            raise ValueError("a count is below zero")
        return found

    def beats_start(self) -> bool:
        """Whether the best epoch scored better than the stacked base logits; True where there are none."""
        return math.isnan(self.start_score) or self.best_score > self.start_score

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
        #: the best model so far, where the run had one (set by `pipeline/fit.py`)
        self.model: Any = None

    @classmethod
    def before_training(cls, signal_number: int) -> Stopped:
        """Nothing was learned yet."""
        return cls(signal_number, Progress(status="interrupted"))


@dataclass(frozen=True)
class RunContext:
    """What a training reports to and where it keeps its state.

    folder           where checkpoints go; None keeps the run in memory
    callback         called after every step and epoch
    member, members  which member of the ensemble this is, of how many
    received         signals that ask for the end, where somebody else collects them; None to collect them here
    """

    folder: Path | None = None
    callback: Callback | None = None
    member: int = 1
    members: int = 1
    received: list[int] | None = None


ALONE = RunContext()
