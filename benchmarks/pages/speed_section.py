"""The part of the reproduction that shows the speed table; from `results/speed.json`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lampnet.errors import FormatError
from lampnet.experiments.result_files import SPEED_FILE
from pages.paper_tables import DATASETS, paper_speed
from pages.summary import table

#: Mean speedups over Seq2Seq in the paper's text; those of its table have other means.
STATED = {"training": 1.7, "testing": 5.0}
#: What is timed, in the order of the table, and what the table calls it.
TRAINED = {"paper": "the paper's network", "single": "lampnet's single network"}
TESTED = TRAINED | {
    "single_shortlist": "the same, {shortlist} labels shortlisted",
    "ensemble": "lampnet's ensemble",
    "base_learners": "base learners alone",
    "default": "default as shipped",
}


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
    """The table as Markdown, the paper's ratios beside the measured ones."""
    sets, where = speed["datasets"], speed["machine"]
    rows, operations = [], []
    for name, own in sets.items():
        for part, systems in (("training", TRAINED), ("testing", TESTED)):
            base = own[f"{part}_minutes"]["seq2seq"]
            for key, title in systems.items():
                minutes = own[f"{part}_minutes"].get(key)
                if minutes is None:
                    continue
                theirs = f"{paper_speed(name)[f'{part}_speedup_over_seq2seq']:.1f}x" if name in DATASETS else "–"
                rows.append(
                    [
                        DATASETS.get(name, name),
                        part,
                        title.format(**own),
                        f"{minutes:.3f}",
                        f"{base:.3f}",
                        f"{base / minutes:.2f}x",
                        theirs if key == "paper" else "",
                    ]
                )
        counted, millions = own["operations"], 1e6
        operations.append(
            [
                DATASETS.get(name, name),
                f"{own['labels_true']:.2f}",
                f"{own['labels_named']:.2f}",
                *(f"{counted[key] / millions:,.1f}" for key in ("seq2seq", "paper", "single")),
                f"{counted['seq2seq'] / counted['paper']:.2f}x",
            ]
        )
    ratios = {part: _mean_ratio(sets.values(), part) for part in ("training", "testing")}
    first = next(iter(sets.values()))
    about = (
        "Processor minutes of one epoch and of the test rows, measured on a sample and scaled up, all with "
        f"d = {first['width']}, taking turns on {where['cpu']}. Seq2Seq has {first['beams']} beams and was trained "
        "until it names as many labels as validation rows have (second table). The ratio is Seq2Seq's time over the "
        "other's: above 1, Seq2Seq is slower. The last two rows of each data set start from the rows as they come, "
        "encoding included."
    )
    verdict = (
        f"On {', '.join(DATASETS.get(name, name) for name in sets)}, the paper's network is on average "
        f"{ratios['training']:.2f} times as fast as Seq2Seq in training and "
        f"{ratios['testing']:.2f} times in testing; the paper's text states {STATED['training']:.1f}x and "
        f"{STATED['testing']:.1f}x (the mean of its table: {_paper_ratio('training'):.1f}x and "
        f"{_paper_ratio('testing'):.2f}x), on a GPU and over all its data sets."
    )
    headings = ["data", "part", "system", "minutes", "Seq2Seq, minutes", "ratio", "paper's ratio"]
    counted_headings = [
        "data",
        "labels per row",
        "named by Seq2Seq",
        "Seq2Seq",
        "paper's network",
        "lampnet's",
        "ratio",
    ]
    return "\n\n".join(
        [
            "## Speed",
            verdict,
            about,
            table(headings, rows),
            "Millions of floating-point operations to predict one row (products only):",
            table(counted_headings, operations),
        ]
    )


def operations_section(counted: Mapping[str, Any]) -> str:
    """Why the published ratios do not hold on a processor; from what `benchmarks/paper_operations.py` counted."""
    rows, more = [], []
    for name, own in counted["datasets"].items():
        operations, steps, theirs = own["operations"], own["dependent_steps"], paper_speed(name)
        ratios = {part: operations["paper"] / operations[f"seq2seq_{part}"] for part in ("training", "testing")}
        more += [ratios["training"], ratios["testing"]]
        rows.append(
            [
                DATASETS[name],
                f"{own['labels']} ({own['labels_per_row']:.1f})",
                str(own["nodes"]),
                *(f"{operations[key] / 1e6:,.0f}" for key in ("paper", "seq2seq_training", "seq2seq_testing")),
                *(f"{ratios[part]:.1f}x / {theirs[f'{part}_speedup_over_seq2seq']:.1f}x" for part in ratios),
                f"{steps['paper']} / {steps['seq2seq']}",
            ]
        )
    about = (
        "Why the published ratios do not hold on a processor: LaMP updates every label in every step, Seq2Seq computes "
        f"only the labels that it names. At the published width LaMP needs {min(more):.1f} to {max(more):.1f} times as "
        "many operations per row, yet only a few steps that wait for one another, where Seq2Seq reads word by word and "
        "names label by label. A GPU is idle while Seq2Seq waits, so that LaMP's operations cost little there; a "
        "processor core has to compute them all. Counted for a row of mean size with as many labels as test rows have, "
        f"Emb + LaMP_fc against Seq2Seq with {counted['beams']} beams in testing "
        "(`python benchmarks/paper_operations.py`):"
    )
    headings = [
        "data",
        "labels (per row)",
        "nodes",
        "LaMP, millions",
        "Seq2Seq training, millions",
        "Seq2Seq testing, millions",
        "training: operations / paper's speedup",
        "testing: operations / paper's speedup",
        "steps that wait: LaMP / Seq2Seq",
    ]
    return f"{about}\n\n{table(headings, rows)}"


def _mean_ratio(measured: Iterable[Mapping[str, Any]], part: str) -> float:
    minutes = [entry[f"{part}_minutes"] for entry in measured]
    return statistics.fmean(entry["seq2seq"] / entry["paper"] for entry in minutes)


def _paper_ratio(part: str) -> float:
    """The mean of the paper's own column.

    >>> round(_paper_ratio("training"), 1)
    1.7
    """
    return statistics.fmean(paper_speed(name)[f"{part}_speedup_over_seq2seq"] for name in DATASETS)
