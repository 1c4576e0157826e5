"""What known labels are worth: scores of labels that were not revealed, on test rows, and the table of the page.

    python benchmarks/known_labels.py emotions mediamill     # measure, then write docs/known-labels.md
    python benchmarks/known_labels.py                        # write the page again from the measurements
    python benchmarks/known_labels.py --check                # fail where the page differs from the measurements

Models are those of the preset `quick`, whose known labels work in closed form. Labels are revealed by three seeds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
MEASURED, PAGE = DOCS / "measurements" / "known_labels.json", DOCS / "known-labels.md"
BEGIN, END = "<!-- scores: written by benchmarks/known_labels.py -->", "<!-- end of scores -->"
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


def page(measured: dict[str, Any]) -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table(measured)}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    if arguments == ["--check"]:
        if page(measured) != PAGE.read_text(encoding="utf-8"):
            raise SystemExit(f"{PAGE} differs from {MEASURED}; run: python benchmarks/known_labels.py")
        return
    for name in arguments:
        measured[name] = measure(name)
        MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
