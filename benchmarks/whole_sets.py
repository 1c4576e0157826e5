"""Subset accuracy of deciding whole label sets, beside the best rule that decides label by label, on test rows.

    python benchmarks/whole_sets.py emotions scene     # measure, then write docs/known-labels.md
    python benchmarks/whole_sets.py                    # write the page again from the measurements
    python benchmarks/whole_sets.py --check            # fail where the page differs from the measurements

Models are those of the preset `quick`, fitted with three seeds; both rules are chosen on held-out rows of the same fit.
Where the publisher has no test part, the seed also draws the test rows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "corel5k", "emotions", "mediamill", "scene", "sider")
SEEDS = (0, 1, 2)


def measure(name: str, seed: int) -> dict[str, Any]:
    """One fit: the subset accuracy of both rules on test rows, and which was chosen on held-out rows."""
    from lampnet.config import Config
    from lampnet.evaluation.choose_rules import choose_best
    from lampnet.evaluation.metrics import subset_accuracy
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    material = open_material(name, seed=seed)
    changes = {"training.threads": 1, "training.seed": seed, "known.method": "none"}
    model = fit(material.labelled, Config.preset("quick").updated(changes))
    test = material.part("test")
    truth, proba = test.indicator(), model.proba(test.rows, test.row_edges)
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    by_label = choose_best(model.valid_truth, model.valid_proba, seed=seed)["subset_accuracy"]
    whole = model.decisions.whole_set
    return {
        "seed": seed,
        "rows": len(test),
        "labels": len(model.label_names),
        "by_label": float(subset_accuracy(truth, by_label.apply(proba))),
        "whole_set": None if whole is None else float(subset_accuracy(truth, whole.apply(proba))),
        "chosen": "whole_set" if model.decisions.best["subset_accuracy"] is whole else "by_label",
        "rules": [by_label.describe(), None if whole is None else whole.describe()],
    }


def table(measured: dict[str, Any]) -> str:
    """Markdown: means over the seeds, and the gain of each seed."""
    lines = [
        "| data | test rows | labels | label by label | whole set | gain (each seed) | chosen on held-out rows |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in sorted(measured.items()):
        before, after = (np.array([run[key] for run in runs]) for key in ("by_label", "whole_set"))
        gains = ", ".join(f"{gain:+.3f}" for gain in after - before)
        chosen = sum(run["chosen"] == "whole_set" for run in runs)
        cells = f"{before.mean():.3f} | {after.mean():.3f} | {(after - before).mean():+.3f} ({gains})"
        lines.append(f"| {name} | {runs[0]['rows']} | {runs[0]['labels']} | {cells} | {chosen} of {len(runs)} |")
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("whole_sets", "known-labels.md", "whole sets", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, lambda name, seed: [measure(name, seed)])
