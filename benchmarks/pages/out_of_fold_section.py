"""The part of the ablations page that compares single pieces out-of-fold; from `results/ablations/trials/`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

METRICS = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")
FOLDER = Path("ablations") / "trials"
# kind -> (title, what is said of it, the pairs that are compared: what is shown, with it, without it)
SECTIONS: dict[str, tuple[str, tuple[str, ...], tuple[tuple[str, str, str], ...]]] = {}


def out_of_fold_sections(results: Path) -> list[str]:
    """A section for each kind of comparison that was run."""
    lines: list[str] = []
    for kind, (title, said, pairs) in SECTIONS.items():
        rows = []
        for path in sorted((results / FOLDER).glob(f"{kind}--*.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            rows += [_row(found, *pair) for pair in pairs]
        rows = [row for row in rows if row]
        if rows:
            heads = "| data | seeds | what is compared | ebF1 | miF1 | maF1 | ACC | log-loss |"
            lines += ["", f"## {title}", "", *said, "", heads, "|---|--:|---|--:|--:|--:|--:|--:|", *rows]
    return lines


def _row(found: dict[str, Any], shown: str, given: str, without: str) -> str:
    """Mean and standard deviation of the differences over the seeds; empty where one of both was not run."""
    seeds = [seed for seed in found["seeds"].values() if given in seed and without in seed]
    if not seeds:
        return ""
    cells = []
    for metric in METRICS:
        gains = [seed[given]["scores"][metric] - seed[without]["scores"][metric] for seed in seeds]
        spread = f" ± {statistics.stdev(gains):.3f}" if len(gains) > 1 else ""
        cells.append(f"{statistics.mean(gains):+.3f}{spread}")
    losses = [seed[given]["log_loss"] / seed[without]["log_loss"] - 1 for seed in seeds]
    cells.append(f"{100 * statistics.mean(losses):+.1f}%")
    return f"| {found['dataset']} | {len(seeds)} | {shown} | {' | '.join(cells)} |"
