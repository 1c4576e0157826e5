"""Writes docs/faster.md from docs/measurements/whole_fits.json: `python benchmarks/faster_page.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measurements" / "whole_fits.json"
TITLES = {
    "synthetic": "300 rows x 40 numbers x 7 labels",
    "reuters500": "500 Reuters texts x 10 labels",
    "emotions": "Emotions",
    "scene": "Scene",
    "reuters21578": "Reuters-21578",
    "bibtex": "Bibtex",
    "delicious": "Delicious",
}

TEXT = """# How to go faster

`benchmarks/faster_page.py` writes this page from `docs/measurements/whole_fits.json`; measure again with
`lampnet bench --whole-fits all --out docs/measurements/whole_fits.json`.

## What a fit does

1. **Base learners** (linear, kNN and, for numbers, word sets, molecules and pictures, a forest) are fitted, with out-of-fold logits
   for all rows. Their weighted sum, the stack, is a model already: the preset `quick` stops here.
2. **Networks** correct the stack, one per fold, side by side on the cores. If the first ones do not beat the stack on rows that they
   did not learn from, no more are trained, and the model is the stack.
3. **Decisions** (thresholds and rules) are chosen on the out-of-fold probabilities.

## Whole fits, measured

Seconds of processor time, and in brackets by the clock, of one fit in a process of its own; *x logistic* is the ratio to one-vs-rest
logistic regression on tf-idf or numbers with tuned C, fitted in the same run. The clock was that of a shared machine.
F1 scores (example / micro / macro) are on test rows with the decision that each system chose itself.

{table}

## Choices

- `preset="quick"` (`--preset quick`): no network. It predicts fastest too.
- `time_budget="60s"` (`--time-budget 60s`): the whole fit keeps to it; the log says how it was divided. At least one base learner is
  fitted, however long that takes.
- `base_learners="linear"`: forests cost most on wide word sets, kNN on many rows.
- `n_jobs`: networks are trained one per core by default. On a machine that other programs use, `n_jobs=1` wastes least.
- `model.shortlist`: how many labels of a row exchange messages; the cost grows with its square.
- A grid search over settings of the network needs no new base learners: `lampnet tune` fits them once.
- `lampnet prepare` encodes rows once for several trainings, and for data larger than memory.
"""


def table(measured: dict[str, Any]) -> str:
    """One row per case."""
    head = "| data | logistic, s | quick, s | x logistic | fast, s | x logistic | logistic F1 | quick F1 | fast F1 |\n"
    lines = [head + "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, title in TITLES.items():
        if name not in measured:
            continue
        own = measured[name]
        cells = [title, _seconds(own["logistic"])]
        for system in ("quick", "fast"):
            cells += [_seconds(own[system]), f"{own[system]['times_logistic']:.1f}"]
        cells += [_scores(own[system]) for system in ("logistic", "quick", "fast")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _seconds(run: dict[str, Any]) -> str:
    return f"{run['cpu_seconds']:.1f} ({run['seconds']:.0f})"


def _scores(run: dict[str, Any]) -> str:
    return " / ".join(f"{run[metric]:.3f}" for metric in ("example_f1", "micro_f1", "macro_f1"))


def page() -> str:
    return TEXT.format(table=table(json.loads(MEASURED.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    (DOCS / "faster.md").write_text(page(), encoding="utf-8")
