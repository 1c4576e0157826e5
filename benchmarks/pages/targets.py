"""lampnet's targets (`targets.json`), and whether its results reach them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from lampnet.baselines import REGISTRY
from pages.summary import Cell, Summary


@dataclass(frozen=True)
class Target:
    """One target: what was asked, what was measured, and whether it was `reached` (None without a result)."""

    dataset: str
    score: str
    asked: str
    measured: str
    reached: bool | None


@cache
def targets() -> dict[str, Any]:
    """The content of `targets.json`: `reach`, `order` and `above_every_baseline`."""
    text = Path(__file__).with_name("targets.json").read_text(encoding="utf-8")
    whole: dict[str, Any] = json.loads(text)
    return whole


def check_targets(summary: Summary) -> list[Target]:
    """All targets against the results, each score under the decision rule chosen on held-out rows."""
    given = targets()
    checked = [
        _reached(summary, target["dataset"], target["system"], score, value)
        for target in given["reach"]
        for score, value in target["scores"].items()
    ]
    checked += [_ordered(summary, target["dataset"], target["score"], target["systems"]) for target in given["order"]]
    above = given["above_every_baseline"]
    checked += [
        _above(summary, dataset, above["system"], score) for dataset in above["datasets"] for score in above["scores"]
    ]
    return checked


def best_baseline(summary: Summary, dataset: str, score: str) -> tuple[str, Cell] | None:
    """The baseline with the highest score, and that score; None without a result."""
    rivals = [(name, cell) for name in REGISTRY if (cell := summary.score(dataset, name, score)) is not None]
    return max(rivals, key=lambda pair: pair[1].mean, default=None)


def _reached(summary: Summary, dataset: str, system: str, score: str, value: float) -> Target:
    found = summary.score(dataset, system, score)
    asked = f"{system} at least {value:g}"
    if found is None:
        return Target(dataset, score, asked, "no result yet", None)
    measured = f"{found} ({found.mean - value:+.4f})"  # so that no reader finds 0.620 called a miss of 0.62
    stack = summary.score(dataset, system.replace("lamp", "stack"), score)
    rival = best_baseline(summary, dataset, score)
    beside = [] if stack is None else [f"stack {stack}"]
    beside += [] if rival is None else [f"{rival[0]} {rival[1]}"]
    return Target(dataset, score, asked, "; ".join([measured, *beside]), found.mean >= value)


def _ordered(summary: Summary, dataset: str, score: str, systems: Sequence[str]) -> Target:
    asked = " above ".join(systems)
    found = [summary.score(dataset, system, score) for system in systems]
    known = [cell for cell in found if cell is not None]
    if len(known) < len(systems):
        return Target(dataset, score, asked, "no result yet", None)
    falling = all(first.mean > second.mean for first, second in pairwise(known))
    return Target(dataset, score, asked, ", ".join(str(cell) for cell in known), falling)


def _above(summary: Summary, dataset: str, system: str, score: str) -> Target:
    asked = f"{system} above every baseline"
    own, rival = summary.score(dataset, system, score), best_baseline(summary, dataset, score)
    if own is None or rival is None:
        return Target(dataset, score, asked, "no result yet", None)
    name, best = rival
    measured = f"{own}; {name} {best} ({own.mean - best.mean:+.3f})"
    return Target(dataset, score, asked, measured, own.mean > best.mean)
