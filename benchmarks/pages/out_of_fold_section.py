"""The part of the ablations page that compares single pieces out-of-fold; from `results/ablations/trials/`."""

from __future__ import annotations

import json
import statistics
import textwrap
from pathlib import Path
from typing import Any

METRICS = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")
FOLDER = Path("ablations") / "trials"
# kind -> (title, what is said of it, the pairs that are compared: what is shown, with it, without it)
SECTIONS: dict[str, tuple[str, tuple[str, ...], tuple[tuple[str, str, str], ...]]] = {
    "stacking": (
        "Stacking weights per label",
        (
            "Linear model, kNN and, where it is the default, forest, stacked by weights that all labels share, by",
            "weights per label in any case (a pull of 30 towards the shared ones), and as lampnet does: per label",
            "where held-out log-loss is lower so. The choice is made without the fold that is scored.",
        ),
        (
            ("the choice, beside shared weights", "chosen", "shared"),
            ("weights per label in any case, beside shared weights", "per label", "shared"),
        ),
    ),
    "at_least_one": (
        "At least one label beside per-label thresholds",
        (
            "The same stacks with shared weights. Rows that reach no per-label threshold may get their most probable",
            "label where held-out rows say so (the default), beside per-label thresholds that may leave them without",
            "one. Where another rule wins or the choice falls on no label, both are the same.",
        ),
        (("at least one label where it is better", "chosen", "may be empty"),),
    ),
    "networks": (
        "Ways of training the network",
        (
            "Five networks on the default base learners, kept in any case, so that their differences show; lampnet",
            "itself keeps them only where they are better than the stack. Snapshots are the predictions of each",
            "network's last three epochs, averaged.",
        ),
        (
            ("the network, beside the stack", "default", "no network"),
            ("T = 1 instead of 2", "T = 1", "default"),
            ("batches of 128 rows instead of 32", "batches of 128 rows", "default"),
            (
                "the same with the learning rate doubled",
                "batches of 128 rows, learning rate doubled",
                "default",
            ),
            ("three snapshots averaged", "the last three epochs averaged", "default"),
        ),
    ),
    "names": (
        "The labels' names as the start of label vectors",
        (
            "Networks on the encoder's tokens beside base learners that read tf-idf, the encoder and the labels'",
            "names; two of five folds. A label's vector starts from its training rows (the default), from its name",
            "as the encoder reads it, or from both, the name counting as fifty rows.",
        ),
        (
            ("the network, beside the stack", "rows", "no network"),
            ("from names instead of rows", "names", "rows"),
            ("from rows and names", "rows and names", "rows"),
        ),
    ),
    "int8": (
        "The text encoder in int8",
        (
            "Pooled states of MiniLM beside tf-idf, linear model and kNN on both; its linear layers in float32 (the",
            "default) and in int8, by torch's dynamic quantisation with a scale per row of a matrix.",
        ),
        (
            ("the encoder in float32, beside tf-idf alone", "float32", "no encoder"),
            ("int8 instead of float32", "int8", "float32"),
        ),
    ),
}


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
            lines += [
                "",
                f"## {title}",
                "",
                *textwrap.wrap(" ".join(said), 118),
                "",
                heads,
                "|---|--:|---|--:|--:|--:|--:|--:|",
                *rows,
            ]
    return lines + _boosters_section(results)


def _boosters_section(results: Path) -> list[str]:
    """Boosted trees of other libraries: scores beside the other base learners, and time as a ratio to lampnet's."""
    rows = []
    for path in sorted((results / FOLDER).glob("boosters--*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        seeds = list(found["seeds"].values())
        for library in ("lampnet", "LightGBM", "XGBoost", "CatBoost"):
            cells = []
            for way in (f"{library} alone", f"linear, kNN, forest and {library}"):
                means = [statistics.mean(seed[way]["scores"][metric] for seed in seeds) for metric in METRICS[:3]]
                cells += [f"{mean:.3f}" for mean in means]
            minutes = [[seed[f"{name} alone"]["processor_minutes"] for seed in seeds] for name in (library, "lampnet")]
            ratio = sum(minutes[0]) / sum(minutes[1])
            rows.append(f"| {found['dataset']} | {len(seeds)} | {library} | {' | '.join(cells)} | {ratio:.0f} |")
    if not rows:
        return []
    return [
        "",
        "## Boosted trees of other libraries",
        "",
        *textwrap.wrap(
            "In the place of lampnet's boosted trees: alone, and stacked beside linear model, kNN and forest. All fit "
            "the same five folds and all rows once more, library by library within each fold, on one thread, with a "
            "learning rate of 0.1 and at most 300 rounds; the others end when the fold that scores them says so, "
            "which favours them. LightGBM fits each label apart, XGBoost and CatBoost all labels at once. Time is the "
            "processor's, loading the library included, as a multiple of lampnet's. Out-of-fold, means over n seeds.",
            118,
        ),
        "",
        "| | | | alone | | | beside the others | | | |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|",
        "| **data** | **n** | **trees** | **ebF1** | **miF1** | **maF1** | **ebF1** | **miF1** | **maF1** | **time** |",
        *rows,
    ]


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
