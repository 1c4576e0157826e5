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
TEXT = Path(__file__).with_name("faster_text.md")


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
    return TEXT.read_text(encoding="utf-8").format(table=table(json.loads(MEASURED.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    (DOCS / "faster.md").write_text(page(), encoding="utf-8")
