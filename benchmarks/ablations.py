"""What each part of the default recipe is worth: one part is changed, everything else stays the same.

    python benchmarks/ablations.py --data-root DIR [--dataset bibtex] [--only NAME ...] [--page-only | --check]
    python benchmarks/ablations.py --data-root DIR --without-boosted

Writes results/ablations/DATASET--NAME.json, one file per run (existing ones are kept), and docs/ablations.md. With
--without-boosted, the stack without boosted trees goes to results/ablations/without_boosted/DATASET--seedK.json; the
stack with them is that of `lampnet reproduce --model stack`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
FOLDER = RESULTS / "ablations"
PAGE = ROOT / "docs" / "ablations.md"
SCORES = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")

#: One network, so that a run takes minutes; ensembles of such networks have rows of their own.
BASE = {"training.folds": 1}
# name -> (what is different, settings)
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("a single network", {}),
    "three-folds": ("an ensemble of three", {"training.folds": 3}),
    "five-folds": ("an ensemble of five", {"training.folds": 5}),
    "edgeless": ("no messages among labels", {"label_graph": "edgeless"}),
    "no-refit": ("base learners not refitted with the validation rows", {"training.refit_base_learners": False}),
    "linear-only": ("base learners: linear only", {"model.base_learners": "linear"}),
    "knn-only": ("base learners: kNN only", {"model.base_learners": "knn"}),
    "no-forest": ("base learners: linear and kNN", {"model.base_learners": "linear,knn"}),
    "no-base-learners": ("no base learners, spectral initialisation", {"model.base_learners": "none"}),
    "random-start": (
        "no base learners, random initialisation",
        {"model.base_learners": "none", "training.start": "random"},
    ),
    "no-average": ("no running average of the weights", {"training.average": 0.0}),
    "no-node-dropout": ("no node dropout", {"model.node_dropout": 0.0}),
    "one-step": ("T = 1", {"model.steps": 1}),
    "width-64": ("d = 64", {"model.width": 64}),
    "width-256": ("d = 256", {"model.width": 256}),
    "sequence": ("text: every token with its position", {"input.text_nodes": "sequence"}),
    "learning-rate-3e-3": ("learning rate 3e-3", {"training.learning_rate": 3e-3}),
    "messages-among-features": ("FMP: two steps among the input nodes", {"model.feature_steps": 2}),
}
#: The stack without boosted trees: data sets of tables and vectors, and over how many seeds.
WITHOUT_BOOSTED = FOLDER / "without_boosted"
BOOSTED_SEEDS = {"scene": 3, "emotions": 3}
#: The same runs under their names in the tables of results.
TABLED = {"default": "emb-fc", "edgeless": "emb-el", "messages-among-features": "fmp-fc"}


def run_missing(dataset: str, names: list[str]) -> None:
    """Run what has no file yet."""
    from lampnet.experiments.material import open_material
    from lampnet.experiments.protocol import run
    from lampnet.experiments.result_files import write_json
    from lampnet.readers.sources import Source

    material = open_material(Source(data=dataset, on_bad_row="skip"), 0)
    for name in names:
        path = FOLDER / f"{dataset}--{name}.json"
        if path.exists() or tabled(dataset, name).exists():
            continue
        result = run("lamp", material, settings={**BASE, **ABLATIONS[name][1]}) | {"ablation": name}
        write_json(path, result)
        print(f"{dataset} {name}: example-F1 {result['best']['example_f1']:.4f}", flush=True)


def run_without_boosted() -> None:
    """Run what has no file yet."""
    from lampnet.experiments.material import open_material
    from lampnet.experiments.protocol import run
    from lampnet.experiments.result_files import write_json
    from lampnet.readers.sources import Source

    WITHOUT_BOOSTED.mkdir(exist_ok=True)
    for dataset, seeds in BOOSTED_SEEDS.items():
        for seed in range(seeds):
            path = WITHOUT_BOOSTED / f"{dataset}--seed{seed}.json"
            if path.exists():
                continue
            material = open_material(Source(data=dataset, on_bad_row="skip"), seed)
            settings = {"model.base_learners": "linear,knn,forest"}
            write_json(path, run("stack", material, settings=settings))
            print(path.name, flush=True)


def boosted_section() -> list[str]:
    """The stack with and without boosted trees, seed by seed."""
    lines: list[str] = []
    for dataset, seeds in BOOSTED_SEEDS.items():
        for seed in range(seeds):
            paths = {
                "without": WITHOUT_BOOSTED / f"{dataset}--seed{seed}.json",
                "with": RESULTS / f"{dataset}--stack--seed{seed}.json",
            }
            if not all(path.exists() for path in paths.values()):
                continue
            for name, path in paths.items():
                row = json.loads(path.read_text())
                scores = [row["validation"]["best"][metric] for metric in SCORES[:3]]
                scores += [row["best"][metric] for metric in SCORES[:3]]
                cells = " | ".join(f"{score:.3f}" for score in scores)
                lines.append(f"| {dataset} | {seed} | {name} | {cells} |")
    if not lines:
        return []
    return [
        "",
        "## Boosted trees",
        "",
        "The stack of the base learners (no network) with boosted trees on trial, which is the default for tables and",
        "vectors, and without them. Where the trial leaves them out, the two lines are the same. Held-out scores are",
        "out-of-fold, over all labelled rows.",
        "",
        "| | | | held-out | | | test | | |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        "| **data** | **seed** | **boosted trees** | **ebF1** | **miF1** | **maF1** | **ebF1** | **miF1** | **maF1** |",
        *lines,
    ]


def tabled(dataset: str, name: str) -> Path:
    """Where `lampnet reproduce` stores the same run; a path that does not exist where it has none."""
    return RESULTS / f"{dataset}--{TABLED.get(name, 'none')}--seed0.json"


def runs_of(dataset: str) -> dict[str, dict[str, Any]]:
    """The finished runs on a data set by the ablation's name, in the order of `ABLATIONS`."""
    paths = {name: (FOLDER / f"{dataset}--{name}.json", tabled(dataset, name)) for name in ABLATIONS}
    found = {name: next((path for path in both if path.exists()), None) for name, both in paths.items()}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path is not None}


def page() -> str:
    """docs/ablations.md."""
    lines = [
        "# What each part is worth",
        "",
        "`benchmarks/ablations.py` writes this page from the files in `results/ablations/`. Each row is a single",
        "network of the default recipe with one part changed, or an ensemble of such networks, on the same labelled",
        "and test rows and with the same seed. The default is an ensemble of five; on Reuters, whose rows are serially",
        "correlated, it is a single network. All rows are of the recipe before the stack became the floor: networks",
        "twice as wide, without calibration, and kept in any case.",
        "",
        "Scores are those of the best decision rule for each metric, chosen on held-out rows. Choices were made by the",
        "scores on the held-out rows, which come first: the validation rows of a single network, all labelled rows of",
        "an ensemble, so the two are not comparable with each other. Differences below about half a point are within",
        "the noise of one seed. Minutes are wall-clock time on a shared machine. Scores over several seeds are in",
        "[results.md](results.md).",
    ]
    for dataset in sorted({path.name.partition("--")[0] for path in FOLDER.glob("*.json")}):
        lines += ["", f"## {dataset}", "", "| | held-out | | | test | | | | | |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
        heads = ["ebF1", "miF1", "maF1", "ebF1", "miF1", "maF1", "ACC", "maAUC", "minutes"]
        lines += ["| **what is different** | " + " | ".join(f"**{head}**" for head in heads) + " |"]
        for name, row in runs_of(dataset).items():
            own = [row["validation"]["best"][metric] for metric in SCORES[:3]]
            tested = [row["best"][metric] for metric in SCORES] + [row["ranking"]["roc_auc_macro"]]
            cells = " | ".join(f"{score:.3f}" for score in own + tested)
            lines.append(f"| {ABLATIONS[name][0]} | {cells} | {row['minutes']['fit']:.1f} |")
    return "\n".join([*lines, *boosted_section()]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    parser.add_argument("--dataset", default="bibtex")
    parser.add_argument("--only", action="append", choices=list(ABLATIONS))
    parser.add_argument("--without-boosted", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is out of date")
    options = parser.parse_args()
    if options.check:
        sys.exit(None if PAGE.read_text() == page() else "docs/ablations.md is out of date; run with --page-only")
    if not options.page_only:
        if options.data_root:
            os.environ["LAMPNET_DATA"] = options.data_root
        if options.without_boosted:
            run_without_boosted()
        else:
            run_missing(options.dataset, options.only or list(ABLATIONS))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
