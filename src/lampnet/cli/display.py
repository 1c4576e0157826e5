"""What a person sees while a model trains, and tables of scores."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from lampnet.runtime.durations import duration

if TYPE_CHECKING:
    from lampnet.config import TrainingConfig


class TrainingDisplay:
    """A live bar with loss, score, speed and time left; plain lines where there is no terminal.

    Use it as a context manager and pass `event` to the training as its callback.
    """

    def __init__(self, config: TrainingConfig, quiet: bool = False) -> None:
        self.config, self.quiet, self._began = config, quiet, time.monotonic()
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        #: of each network that is being trained: the steps seen here, and its seconds before the first of them
        self._steps: dict[int, int] = {}
        self._before: dict[int, float] = {}
        self._live: Live | None = None
        self._shown: Progress | None = None
        self._phase, self._phase_share, self._phase_began, self._phase_from = "", 0.0, 0.0, 0.0
        self._phases = Progress(
            TextColumn("{task.fields[doing]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[left]}"),
            console=self.console,
        )
        self._phase_task = self._phases.add_task("", doing="", left="")
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

    def phase(self, share: float, doing: str) -> None:
        """Progress outside the networks: encoding, base learners, decisions."""
        now = time.monotonic()
        if doing.partition(":")[0] != self._phase.partition(":")[0] or share < self._phase_share:
            self._phase_began, self._phase_from = now, share
        self._phase, self._phase_share = doing, share
        if self.quiet or not self.console.is_terminal:
            return
        done = share - self._phase_from
        left = (now - self._phase_began) / done * (1 - share) if done > 0.02 else None
        self._show(self._phases)
        self._phases.update(
            self._phase_task,
            total=1.0,
            completed=share,
            doing=doing,
            left="" if left is None else f"about {duration(left)} left",
        )

    def _show(self, bar: Progress) -> None:
        """One live bar at a time."""
        if self._live is not None and self._shown is not bar:
            self._end_live()
        if self._live is None:
            self._live, self._shown = Live(bar, console=self.console, refresh_per_second=4, transient=True), bar
            self._live.start()

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
        if progress.network not in self._before:
            self._steps[progress.network], self._before[progress.network] = 0, progress.seconds
            return
        self._steps[progress.network] += 1
        if self.quiet or not self.console.is_terminal:
            return
        self._show(self._bar)
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
        seconds = progress.seconds - self._before[progress.network]
        return float(self._steps[progress.network] * self.config.batch_size / max(1e-9, seconds))

    def _left(self, progress: Any) -> str:
        seconds = (progress.seconds - self._before[progress.network]) / max(1, self._steps[progress.network])
        steps = (progress.epochs - progress.epoch) * progress.batches - progress.batch
        steps += (progress.networks - progress.network) * progress.epochs * progress.batches
        left = seconds * max(0, steps)
        if self.config.time_budget:
            left = min(left, max(0.0, self.config.time_budget - (time.monotonic() - self._began)))
        return f"at most {duration(left)} left"

    def _epoch(self, progress: Any) -> None:
        record = progress.history[-1]
        if record.epoch < 0:
            self.log(f"{_which(progress)}start: the base learners' {self.config.metric} {record.score:.4f}")
            return
        best = "  (best)" if progress.best_epoch == record.epoch else ""
        self.log(
            f"{_which(progress)}epoch {record.epoch + 1:>3}/{progress.epochs}  loss {record.loss:.4f}  "
            f"{self.config.metric} {record.score:.4f}  {record.rows_per_second:.0f} rows/s  "
            f"{duration(record.seconds)}{best}"
        )


def _which(progress: Any) -> str:
    return f"network {progress.network}/{progress.networks}  " if progress.networks > 1 else ""


def score_table(title: str, scores: dict[str, Any]) -> Table:
    """The five metrics: at the paper's thresholds and with the best decision rule, with its interval where known."""
    table = Table(title=title, title_justify="left")
    spread = scores.get("intervals", {}).get("best", {})
    headings = ("metric", "score", "threshold", "best score", *(["95% interval"] if spread else []), "best decision")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("metric", "best decision") else "right")
    for metric, score in scores["metrics"].items():
        at, best = scores["thresholds"][metric], scores["best"][metric]
        interval = [f"{spread[metric][0]:.4f} to {spread[metric][1]:.4f}"] if spread else []
        shown = (f"{score:.4f}", f"{at:g}", f"{best:.4f}", *interval)
        table.add_row(metric.replace("_", " "), *shown, scores["decisions"][metric])
    return table


def label_table(labels: list[dict[str, Any]], label_sets: str) -> Table:
    """Support, precision, recall, F1 and AUC of every label; a star where there are too few rows to say much."""
    table = Table(
        title=f"label by label, label sets by {label_sets} (* too few rows to say much)", title_justify="left"
    )
    for heading in ("label", "true rows", "predicted", "precision", "recall", "f1", "auc"):
        table.add_column(heading, justify="left" if heading == "label" else "right")
    for one in sorted(labels, key=lambda one: -one["support"]):
        values = (one[name] for name in ("precision", "recall", "f1", "auc"))
        cells = ["-" if value is None else f"{value:.3f}" for value in values]
        support = f"{one['support']}{'*' if one['few'] else ''}"
        table.add_row(Text(one["label"]), support, str(one["predicted"]), *cells)
    return table


def known_table(scores: list[dict[str, Any]]) -> Table:
    """How well unknown labels are predicted where others are known."""
    table = Table(title="labels that were not revealed, given the others", title_justify="left")
    for heading in ("revealed", "rows", "map", "map without", "example f1", "example f1 without"):
        table.add_column(heading, justify="left" if heading == "revealed" else "right")
    for found in scores:
        values = (found[name] for name in ("map", "map_without", "example_f1", "example_f1_without"))
        table.add_row(found["regime"], str(found["rows"]), *("-" if v is None else f"{v:.4f}" for v in values))
    return table
