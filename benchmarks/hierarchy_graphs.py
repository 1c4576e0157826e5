"""A label hierarchy as the label graph of the network: messages along its edges, beside all labels, beside none.

    python benchmarks/hierarchy_graphs.py goemotions      # measure, then write docs/living-labels.md
    python benchmarks/hierarchy_graphs.py                 # write the page again from the measurements
    python benchmarks/hierarchy_graphs.py --check         # fail where the page differs from the measurements

Rows and hierarchies are those of `label_hierarchies.py`, fewer of them. All models decide under the hierarchy; only
the edges of the label graph differ. Networks of the preset `fast` always enter the predictions here, whether they beat
the base learners or not. One thread.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from label_hierarchies import material
from pages.measured_section import MeasuredSection, by_seed, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("goemotions",)
SEEDS = (0, 1, 2)
#: training rows that are learned from, the first of those that the seed draws
ROWS = 600
METRICS = ("example_f1", "micro_f1", "macro_f1")
#: what is compared, as the table calls it
MODELS = {
    "stack": "no network",
    "edgeless": "no edges",
    "full": "all labels",
    "hierarchy": "children and parents",
}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Test scores of the base learners alone, and with a network for each graph."""
    from lampnet.config import Config
    from lampnet.data.splits import Splits
    from lampnet.evaluation.metrics import METRICS as SCORES
    from lampnet.evaluation.metrics import ranking_metrics
    from lampnet.pipeline.fit import fit
    from lampnet.readers.label_edges import hierarchy_graph

    rows, test, hierarchy = material(name, seed)
    rows, truth = rows.take(np.arange(min(ROWS, len(rows)))), test.indicator()
    kind, edges = hierarchy_graph(hierarchy)
    changes = {"training.threads": 1, "training.seed": seed, "known.method": "none", "training.keep_network": "always"}
    found: dict[str, Any] = {"seed": seed, "rows": len(rows), "test": len(test), "edges": len(edges), "models": {}}
    for model in MODELS:
        graph = {"stack": "full", "hierarchy": kind}.get(model, model)
        preset = "quick" if model == "stack" else "fast"
        config = Config.preset(preset).updated(changes | {"label_graph": graph})
        made = fit(Splits(train=rows), config, hierarchy=hierarchy, label_edges=edges if model == "hierarchy" else None)
        proba = made.proba(test.rows, test.row_edges)
        gain = made.metadata["network_gain"]
        found["models"][model] = {m: float(SCORES[m](truth, made.decided(m, proba))) for m in METRICS} | {
            "mean_average_precision": ranking_metrics(truth, proba)["average_precision_macro"],
            "out_of_fold_gain": None if gain is None else gain["mean"],
        }
        print(name, seed, model, found["models"][model], flush=True)
    return found


def table(measured: dict[str, Any]) -> str:
    """Markdown: mean scores over the seeds, and for each seed the difference to all labels exchanging messages."""
    lines = [
        "| data (rows, pairs) | messages among labels | example-F1 | micro-F1 | macro-F1 | mean AP | "
        "three F1 scores against all labels (each seed) | out-of-fold against no network (each seed) |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in sorted(measured.items()):
        for key, called in MODELS.items():
            own, full = ([run["models"][which] for run in runs] for which in (key, "full"))
            means = " | ".join(f"{np.mean([one[m] for one in own]):.3f}" for m in (*METRICS, "mean_average_precision"))
            gains = [float(np.mean([a[m] - b[m] for m in METRICS])) for a, b in zip(own, full, strict=True)]
            beside = "" if key == "full" else by_seed(gains)
            added = "" if key == "stack" else by_seed([one["out_of_fold_gain"] for one in own])
            data = f"{name} ({runs[0]['rows']:,}, {runs[0]['edges']})" if key == "stack" else ""
            lines.append(f"| {data} | {called} | {means} | {beside} | {added} |")
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("hierarchy_graphs", "living-labels.md", "hierarchy graphs", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, lambda name, seed: [measure(name, seed)])
