"""The part of the results page that shows the speed table; from `results/speed.json`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.speed_table import BEAMS
from lampnet.errors import FormatError
from lampnet.experiments.result_files import SPEED_FILE
from pages.paper_tables import DATASETS, paper_speed
from pages.summary import table


def read_speed(folder: Path) -> Mapping[str, Any] | None:
    """What `lampnet reproduce --speed` wrote, or None."""
    path = folder / SPEED_FILE
    if not path.is_file():
        return None
    try:
        speed = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise FormatError(path, f"the speed table cannot be read ({fault}); delete it and measure again") from None
    return speed if isinstance(speed, dict) else None


def speed_section(speed: Mapping[str, Any]) -> str:
    """The table as Markdown, the paper's figures beside the measured ones."""
    rows = []
    for name, own in speed["datasets"].items():
        theirs = paper_speed(name) if name in DATASETS else {}
        rows.append(
            [
                DATASETS.get(name, name),
                *(
                    cell
                    for part in ("training", "testing")
                    for cell in (
                        f"{own[f'{part}_minutes_per_epoch']:.3f}",
                        f"{own[f'seq2seq_{part}_minutes_per_epoch']:.3f}",
                        f"{own[f'{part}_speedup_over_seq2seq']:.1f}x",
                        f"{theirs[f'{part}_speedup_over_seq2seq']:.1f}x" if theirs else "–",
                    )
                ),
            ]
        )
    headings = ["data"]
    for part in ("train", "test"):
        headings += [f"{part}: LaMP, min", "Seq2Seq, min", "ratio", "paper's ratio"]
    averages = {part: _mean_ratio(speed["datasets"].values(), part) for part in ("training", "testing")}
    where = speed["machine"]
    text = (
        f"Minutes per epoch, measured on a sample and scaled up: LaMP with lampnet's default settings and RNN Seq2Seq "
        f"of the same width with {BEAMS} beams, taking turns on {where['cpu']} ({where['threads']} threads). Only the "
        f"networks are timed. The mean ratio is {averages['training']:.1f}x for training and "
        f"{averages['testing']:.1f}x for testing. In the paper, on a GPU and over all its data sets, it is "
        f"{_paper_ratio('training'):.1f}x and {_paper_ratio('testing'):.1f}x: a GPU computes all labels at once while "
        "Seq2Seq waits for one label after the other. A CPU computes them in turn, and Seq2Seq only those it names."
    )
    return f"## Speed\n\n{text}\n\n{table(headings, rows)}"


def _mean_ratio(measured: Any, part: str) -> float:
    return statistics.fmean(entry[f"{part}_speedup_over_seq2seq"] for entry in measured)


def _paper_ratio(part: str) -> float:
    """The mean of the paper's own column.

    >>> round(_paper_ratio("training"), 1)
    1.7
    """
    return statistics.fmean(paper_speed(name)[f"{part}_speedup_over_seq2seq"] for name in DATASETS)
