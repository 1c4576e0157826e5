"""How a fit reports, where it keeps its state, how long it may take and whether it was asked to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lampnet.runtime.budget import Budget
from lampnet.runtime.durations import duration
from lampnet.runtime.signals import handling
from lampnet.training.progress import Callback, Stopped

Log = Callable[[str], None]
OnPhase = Callable[[float, str], None]


def no_log(sentence: str) -> None:
    """Without a log, and in all processes of a run but the first, nothing is reported."""


def no_phase(share: float, doing: str) -> None:
    """Nobody watches the phases."""


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """What a caller of `fit` may ask for besides the model.

    folder    where checkpoints go; None keeps the run in memory
    resume    continue from the checkpoints in the folder
    callback  called after every step and epoch of a network
    log       called with one sentence per phase
    began     time.monotonic() when the caller began, from when the time budget counts; None for now
    phase     called at least about once a second outside the networks: the share that is done, and what is being done
    """

    folder: Path | None = None
    resume: bool = False
    callback: Callback | None = None
    log: Log = no_log
    phase: OnPhase = no_phase
    began: float | None = None


IN_MEMORY = FitRun()


@dataclass(frozen=True)
class Control:
    """One fit while it goes on: what was asked for, the time left, and the signals that ask for its end."""

    run: FitRun
    budget: Budget
    received: list[int] = field(default_factory=list)
    #: of each stage that has been timed
    seconds: dict[str, float] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *fault: object) -> None:
        self._open.close()

    def collect_signals(self) -> None:
        """From now on SIGINT and SIGTERM are collected: what is being done ends with the best model so far."""
        self._open.enter_context(handling(lambda number, _: self.received.append(number)))

    @property
    def folder(self) -> Path | None:
        return self.run.folder

    @property
    def resume(self) -> bool:
        return self.run.resume

    def log(self, sentence: str) -> None:
        self.run.log(sentence)

    def phase(self, share: float, doing: str) -> None:
        self.run.phase(share, doing)

    def part(self, doing: str, first: float = 0.0, last: float = 1.0) -> Callable[[float], None]:
        """Reports shares of one part of what is being done; its beginning at once."""
        self.phase(first, doing)
        return lambda share: self.phase(first + (last - first) * share, doing)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the time of a stage."""
        began = self.budget.spent()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + self.budget.spent() - began

    def check_signals(self) -> None:
        """End where a signal asked for it and there is no model yet."""
        if self.received:
            raise Stopped.before_training(self.received[0])

    def log_division(self) -> None:
        """Say what a time budget was spent on."""
        if not self.budget.seconds:
            return
        spent = self.budget.spent()
        parts = self.seconds | {"the rest": max(0.0, spent - sum(self.seconds.values()))}
        listed = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in parts.items())
        self.log(f"time: {duration(spent)} of {duration(self.budget.seconds)}: {listed}")

    def report(self, share: float, doing: str) -> None:
        """Progress of the base learners when they are fitted again."""
        self.run.phase(share, f"base learners again, on all rows: {doing}")
