"""The part of the results page that shows what was tried where a target is missed; from `results/trials/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.errors import FormatError
from lampnet.experiments.compare import SCORES
from pages.summary import table

FOLDER = "trials"
_METRICS = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")


def read_trials(folder: Path) -> dict[str, Mapping[str, Any]]:
    """What `benchmarks/trials.py` wrote, by data set."""
    found = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            found[str(data["dataset"])] = data
        except (ValueError, KeyError, TypeError) as fault:
            raise FormatError(path, f"is not a file of trials ({fault}); run benchmarks/trials.py again") from None
    return found


def trials_section(
    trials: Mapping[str, Mapping[str, Any]], datasets: Iterable[str], results: Sequence[Mapping[str, Any]]
) -> str:
    """A table for each of these data sets, best example-F1 first; empty where nothing was tried."""
    shown = [name for name in dict.fromkeys(datasets) if name in trials]
    if not shown:
        return ""
    parts = [
        "## What was tried where a target is missed",
        "Out-of-fold scores of the labelled rows (`benchmarks/trials.py`); decision rules are chosen on one half of "
        "the rows and scored on the other. No test row is used. Base learners are stacked with the weights that a "
        "network starts from. The rows in bold are LaMP's networks on their held-out rows; their rules were chosen on "
        "the same rows, so these scores are slightly optimistic. Per-label thresholds may leave a row without a label, "
        "except in the trial that is named after the rule; LaMP chooses between both. What a pretrained encoder's "
        "pooled states, its tokens as nodes, a static model and the labels' names add on GoEmotions, over three seeds, "
        "and what boosted trees and kernel regression add is on [the ablations page](ablations.md#boosted-trees). "
        "What is still missed, and what was tried, is said in words at the end of this page.",
    ]
    for name in shown:
        tried = [(what, trial["scores"]) for what, trial in trials[name]["trials"].items()]
        tried += [
            (f"**{result['title']}, seed {result['seed']}**", result["validation"]["best"])
            for result in results
            if result["dataset"] == name
            and result.get("finished")
            and result["system"].startswith("lamp")  # the paper's forms are scored on the validation rows only
        ]
        tried.sort(key=lambda pair: -pair[1]["example_f1"])
        rows = [[what, *(f"{scores[metric]:.3f}" for metric in _METRICS)] for what, scores in tried]
        parts.append(f"### {name}: {trials[name]['rows']:,} labelled rows")
        parts.append(table(["tried", *(SCORES[metric] for metric in _METRICS)], rows))
    return "\n\n".join(parts)
