"""The part of the results page that compares LaMP with other tools; from `results/other_tools/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.experiments.compare import SCORES
from lampnet.experiments.result_files import Result, read_results
from pages.summary import Summary, table

FOLDER = "other_tools"
#: The tools that `benchmarks/other_tools.py` runs, by the name of their package.
NAMES = {
    "libmultilabel": "LibMultiLabel",
    "napkinxc": "napkinXC",
    "omikuji": "Omikuji",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
}
#: Why one tool is nowhere.
PECOS = "PECOS is absent: its version 1.2.8 does not run with SciPy 1.17."
_METRICS = ("example_f1", "micro_f1", "macro_f1")


def read_other_tools(folder: Path) -> list[Result]:
    """What `benchmarks/other_tools.py` wrote."""
    return read_results(folder / FOLDER)


def tools_by_dataset(tools: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Which tools have finished on which data sets.

    >>> tools_by_dataset([{"dataset": "emotions", "system": "xgboost", "finished": True}])
    {'emotions': ['XGBoost']}
    """
    found: dict[str, list[str]] = {}
    for tool in tools:
        if tool["finished"]:
            found.setdefault(tool["dataset"], []).append(NAMES.get(tool["system"], tool["system"]))
    return found


def other_tools_section(summary: Summary, tools: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    """One table: for each data set LaMP's row, then the tools'; empty where no tool has run.

    titles  the names of data sets in tables, by name, in the order of the page
    """
    rows: list[list[str]] = []
    for dataset, title in titles.items():
        own = [tool for tool in tools if tool["dataset"] == dataset and tool["finished"]]
        lamp = [summary.score(dataset, "lamp", metric) for metric in _METRICS]
        minutes = summary.minutes(dataset, "lamp")
        if not own or minutes is None:
            continue
        rows.append([title, "**LaMP**", *(f"{score.mean:.3f}" for score in lamp if score), f"{minutes.mean:.1f}"])
        for tool in own:
            name = f"{tool['title']} ({tool['system']} {tool['tool_version']})"
            scores = (f"{tool['best'][metric]:.3f}" for metric in _METRICS)
            rows.append(["", name, *scores, f"{tool['minutes']['fit']:.1f}"])
    if not rows:
        return ""
    parts = [
        "## Compared with other tools",
        "The same rows and features as above; regularisation or the number of rounds is tuned on the validation rows "
        "(`benchmarks/other_tools.py`). For a tool with probabilities, decision rules are chosen on held-out rows as "
        f"for every baseline; LibMultiLabel chooses its label sets itself. Minutes include tuning. {PECOS}",
        table(["data", "tool", *(SCORES[metric] for metric in _METRICS), "minutes"], rows),
    ]
    return "\n\n".join(parts)
