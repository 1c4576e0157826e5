"""What each part of the default recipe is worth: leave one out, everything else the same.

    python benchmarks/ablations.py --data-root DIR [--dataset bibtex] [--epochs 3] [--page-only]

Writes results/ablations/DATASET--NAME.json, one a run (those that exist are kept), and docs/ablations.md.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "ablations"
SCORES = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")

# name -> (what is different, settings)
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("the default recipe", {}),
    "edgeless": ("no messages among labels", {"label_graph": "edgeless"}),
    "no-refit": ("opinions not fitted again on the validation rows", {"training.refit_opinions": False}),
    "linear-only": ("the linear opinion alone", {"model.evidence": "linear"}),
    "neighbours-only": ("the neighbours' opinion alone", {"model.evidence": "neighbours"}),
    "no-evidence": ("no first opinions: spectral start only", {"model.evidence": "none"}),
    "random-start": ("no first opinions, random start", {"model.evidence": "none", "training.start": "random"}),
    "no-average": ("no running average of the weights", {"training.average": 0.0}),
    "no-node-dropout": ("no node dropout", {"model.node_dropout": 0.0}),
    "one-step": ("T = 1", {"model.steps": 1}),
    "width-64": ("d = 64", {"model.width": 64}),
    "width-256": ("d = 256", {"model.width": 256}),
    "forest-too": ("a forest's opinion as well", {"model.evidence": "linear,neighbours,forest"}),
    "no-forest": ("no forest's opinion", {"model.evidence": "linear,neighbours"}),
    "sequence": ("text: every token with its place", {"input.text_nodes": "sequence"}),
    "louder": ("learning rate 3e-3", {"training.learning_rate": 3e-3}),
    "messages-among-features": ("FMP: two steps among the input nodes", {"model.feature_steps": 2}),
}


def run_missing(dataset: str, epochs: int, names: list[str]) -> None:
    """Run what has no file yet."""
    from lampnet.data_source import Source
    from lampnet.experiments.material import open_material
    from lampnet.experiments.protocol import run
    from lampnet.experiments.result_files import write_whole

    material = open_material(Source(data=dataset), 0)
    for name in names:
        path = FOLDER / f"{dataset}--{name}.json"
        if path.exists():
            continue
        result = run("lamp", material, settings={"training.epochs": epochs, **ABLATIONS[name][1]})
        result["ablation"], result["epochs"] = name, epochs
        write_whole(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
        print(f"{dataset} {name}: example-F1 {result['best']['example_f1']:.4f}", flush=True)


def page() -> str:
    """docs/ablations.md."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.json")):
        result = json.loads(path.read_text())
        found.setdefault(result["dataset"], {})[result["ablation"]] = result
    lines = [
        "# What each part is worth",
        "",
        "Made by `benchmarks/ablations.py`: the default recipe with one part changed, the same split, seed and (few)",
        "epochs for each row, so that rows can be compared with each other; the headline scores, with the full number",
        "of epochs and several seeds, are in [results.md](results.md). Test scores under the best decision chosen on",
        "validation rows; differences below about half a point are within the noise of one seed.",
    ]
    for dataset, runs in found.items():
        epochs = next(iter(runs.values()))["epochs"]
        lines += ["", f"## {dataset}, {epochs} epochs", ""]
        lines += [
            "| what is different | example-F1 | micro-F1 | macro-F1 | subset accuracy | macro ROC-AUC | minutes |"
        ]
        lines += ["|---|---|---|---|---|---|---|"]
        for name, (title, _) in ABLATIONS.items():
            if name in runs:
                row = runs[name]
                scores = " | ".join(f"{row['best'][metric]:.3f}" for metric in SCORES)
                auc, minutes = row["ranking"]["roc_auc_macro"], row["minutes"]["fit"]
                lines.append(f"| {title} | {scores} | {auc:.3f} | {minutes:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    parser.add_argument("--dataset", default="bibtex")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(ABLATIONS))
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    if not options.page_only:
        if options.data_root:
            os.environ["LAMPNET_DATA"] = options.data_root
        run_missing(options.dataset, options.epochs, options.only or list(ABLATIONS))
    (ROOT / "docs" / "ablations.md").write_text(page())


if __name__ == "__main__":
    main()
