"""The part of the results page that tells what was tried where a target is missed; from `results/trials/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.errors import FormatError
from lampnet.experiments.compare import SCORES
from lampnet.experiments.result_files import table

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
            raise FormatError(path, f"is no file of trials ({fault}); run benchmarks/trials.py again") from None
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
        "Scores of labelled rows, each judged out-of-fold; decisions chosen on one half of the rows and scored on the "
        "other (`benchmarks/trials.py`). No test row is looked at here. The opinions are weighed against each other as "
        "a network does before its first step; the rows of LaMP are its networks on the rows that they did not learn "
        "from, with decisions chosen on the same rows, a little too good therefore.",
    ]
    for name in shown:
        tried = [(what, trial["scores"]) for what, trial in trials[name]["trials"].items()]
        tried += [
            (f"**{result['title']}, seed {result['seed']}**", result["validation"]["best"])
            for result in results
            if result["dataset"] == name
            and result.get("finished")
            and result["system"].startswith("lamp")  # the paper's forms are judged on validation rows, on fewer
        ]
        tried.sort(key=lambda pair: -pair[1]["example_f1"])
        rows = [[what, *(f"{scores[metric]:.3f}" for metric in _METRICS)] for what, scores in tried]
        parts.append(f"### {name}: {trials[name]['rows']:,} labelled rows")
        parts.append(table(["tried", *(SCORES[metric] for metric in _METRICS)], rows))
    return "\n\n".join(parts)
