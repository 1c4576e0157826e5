"""A line of text with a bar, redrawn in place: in terminals and in notebooks, which need no widgets for it."""

from __future__ import annotations

import shutil
import sys
import time

from lampnet.runtime.durations import duration

BAR_WIDTH, MOST_WORDS = 20, 48
#: seconds between two drawings
REDRAW_SECONDS = 0.2
#: no time left is stated before this share of a stage is done
LEAST_DONE = 0.02


class ProgressLine:
    """Sentences, and below them a bar for what is being done. Into a file or a pipe only the sentences go.

    shown  False prints nothing at all
    """

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self.redraws = shown and (sys.stdout.isatty() or _is_notebook())
        #: of each stage: when it began, at which share, and the last share (networks are trained side by side)
        self._stages: dict[str, tuple[float, float, float]] = {}
        self._drawn, self._width = 0.0, 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *fault: object) -> None:
        self._clear()

    def log(self, sentence: str) -> None:
        """One sentence, which stays."""
        if self.shown:
            self._clear()
            print(sentence)

    def phase(self, share: float, doing: str) -> None:
        """The share of a stage that is done; what stands before a colon names the stage."""
        now, stage = time.monotonic(), doing.partition(":")[0]
        began, first, last = self._stages.get(stage, (now, share, share))
        is_new = stage not in self._stages or share < last
        if is_new:
            began, first = now, share
        self._stages[stage] = began, first, share
        if self.redraws and (is_new or now - self._drawn >= REDRAW_SECONDS):
            self._drawn, done = now, share - first
            self._draw(share, doing, (now - began) / done * (1 - share) if done > LEAST_DONE else None)

    def _draw(self, share: float, doing: str, seconds_left: float | None) -> None:
        left = "" if seconds_left is None else f"  about {duration(seconds_left)} left"
        full = round(BAR_WIDTH * min(1.0, share))
        line = f"{doing[:MOST_WORDS]} [{'#' * full}{'.' * (BAR_WIDTH - full)}] {share:4.0%}{left}"
        line = line[: shutil.get_terminal_size().columns - 1]  # a longer line could not be drawn over
        print(f"\r{line.ljust(self._width)}", end="", flush=True)
        self._width = len(line)

    def _clear(self) -> None:
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", flush=True)
            self._width = 0


def _is_notebook() -> bool:
    return type(sys.stdout).__module__.startswith("ipykernel")
