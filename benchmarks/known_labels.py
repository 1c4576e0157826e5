"""What known labels are worth: scores of labels that were not revealed, on test rows, and the table of the page.

    python benchmarks/known_labels.py emotions mediamill     # measure, then write docs/known-labels.md
    python benchmarks/known_labels.py                        # write the page again from the measurements
    python benchmarks/known_labels.py --check                # fail where the page differs from the measurements

Models are those of the preset `quick`, whose known labels work in closed form. Labels are revealed by three seeds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection

REGIMES = ("positives:1", "positives:3", "share:25", "share:50", "share:75")
SEEDS = 3


def measure(name: str) -> dict[str, Any]:
    """One fit, and its scores for every regime and seed."""
    from lampnet.config import Config
    from lampnet.evaluation.known_regimes import Regime
    from lampnet.experiments.material import open_material
    from lampnet.inference.known_labels import scores_given_known
    from lampnet.pipeline.fit import fit

    material = open_material(name)
    model = fit(material.labelled, Config.preset("quick").updated({"training.threads": 1}))
    test = material.part("test")
    truth, logits = test.indicator(), model.logits(test.rows, test.row_edges)
    found = [
        scores_given_known(model, Regime.read(regime), truth, logits, seed) | {"seed": seed}
        for regime in REGIMES
        for seed in range(SEEDS)
    ]
    return {"rows": len(test), "labels": len(model.label_names), "scores": found}


def table(measured: dict[str, Any]) -> str:
    """Markdown: the mean over seeds of the mean average precision, without and with known labels."""
    lines = ["| data | test rows | labels | " + " | ".join(REGIMES) + " |", "|---|--:|--:|" + "--:|" * len(REGIMES)]
    for name, one in sorted(measured.items()):
        cells = []
        for regime in REGIMES:
            some = [s for s in one["scores"] if s["regime"] == regime and s["rows"]]
            without, informed = (np.mean([s[key] for s in some]) if some else None for key in ("map_without", "map"))
            cells.append("–" if without is None else f"{without:.3f} → {informed:.3f}")
        lines.append(f"| {name} | {one['rows']} | {one['labels']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SECTION = MeasuredSection("known_labels", "known-labels.md", "scores", table)


if __name__ == "__main__":
    SECTION.run(sys.argv[1:], measure)
