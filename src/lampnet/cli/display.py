"""What a person sees while a model trains, and tables of scores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from lampnet.runtime.durations import duration

if TYPE_CHECKING:
    from lampnet.config import TrainingConfig


class TrainingDisplay:
    """A live bar with loss, score, speed and time left; plain lines where there is no terminal.

    Use it as a context manager and pass `event` to the training as its callback.
    """

    def __init__(self, config: TrainingConfig, quiet: bool = False) -> None:
        self.config, self.quiet = config, quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._network, self._steps_here = 0, 0
        self._seconds_before: float | None = None
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.fields[which]}epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}  best {task.fields[score]}"),
            TextColumn(" {task.fields[speed]} rows/s  {task.fields[left]}"),
            console=self.console,
        )
        self._task = self._bar.add_task(
            "", start=False, which="", epoch=0, epochs=config.epochs, loss="-", score="-", speed="-", left=""
        )

    def __enter__(self) -> TrainingDisplay:
        return self

    def __exit__(self, *fault: object) -> None:
        self._end_live()

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def log(self, sentence: str) -> None:
        """One sentence per phase."""
        if not self.quiet:
            self.console.print(sentence, markup=False)

    def warn(self, sentence: str) -> None:
        """A message that is shown even when quiet."""
        self._end_live()
        self.console.print(f"lampnet: {sentence}", markup=False)

    def event(self, event: str, progress: Any) -> None:
        """The training's callback."""
        if event == "step":
            self._step(progress)
        elif event == "epoch":
            self._epoch(progress)
        elif event.startswith("warning: "):
            self.warn(event)
        elif event == "resumed":
            self.log(f"resumed in {_which(progress)}epoch {progress.epoch + 1} at step {progress.step}")
        elif event == "step back":
            self.warn("warning: the loss was not finite; back to the last checkpoint with half the learning rate")

    def _step(self, progress: Any) -> None:
        self._steps_here += 1
        if self._seconds_before is None or progress.network != self._network:
            self._network, self._steps_here = progress.network, 1
            self._seconds_before = progress.seconds
            return
        if self.quiet or not self.console.is_terminal:
            return
        if self._live is None:
            self._live = Live(self._bar, console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        self._bar.update(
            self._task,
            total=max(1, progress.batches),
            completed=progress.batch,
            which=_which(progress),
            epoch=progress.epoch + 1,
            epochs=progress.epochs,
            loss=f"{progress.loss:.4f}",
            score=f"{progress.best_score:.4f}" if math.isfinite(progress.best_score) else "-",
            speed=f"{self._speed(progress):.0f}",
            left=self._left(progress),
        )

    def _speed(self, progress: Any) -> float:
        seconds = progress.seconds - (self._seconds_before or 0.0)
        return float(self._steps_here * self.config.batch_size / max(1e-9, seconds))

    def _left(self, progress: Any) -> str:
        seconds = (progress.seconds - (self._seconds_before or 0.0)) / max(1, self._steps_here)
        steps = (progress.epochs - progress.epoch) * progress.batches - progress.batch
        steps += (progress.networks - progress.network) * progress.epochs * progress.batches
        left = seconds * max(0, steps)
        if self.config.time_budget:
            left = min(left, max(0.0, self.config.time_budget - progress.seconds))
        return f"at most {duration(left)} left"

    def _epoch(self, progress: Any) -> None:
        record = progress.history[-1]
        best = "  (best)" if progress.best_epoch == record.epoch else ""
        self.log(
            f"{_which(progress)}epoch {record.epoch + 1:>3}/{progress.epochs}  loss {record.loss:.4f}  "
            f"{self.config.metric} {record.score:.4f}  {record.rows_per_second:.0f} rows/s  "
            f"{duration(record.seconds)}{best}"
        )


def _which(progress: Any) -> str:
    return f"network {progress.network}/{progress.networks}  " if progress.networks > 1 else ""


def score_table(title: str, scores: dict[str, Any]) -> Table:
    """The five metrics: at the paper's thresholds and with the best decision rule."""
    table = Table(title=title, title_justify="left")
    for heading in ("metric", "score", "threshold", "best score", "best decision"):
        table.add_column(heading, justify="left" if heading in ("metric", "best decision") else "right")
    for metric, score in scores["metrics"].items():
        at, best = scores["thresholds"][metric], scores["best"][metric]
        table.add_row(metric.replace("_", " "), f"{score:.4f}", f"{at:g}", f"{best:.4f}", scores["decisions"][metric])
    return table
