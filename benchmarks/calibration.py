"""How far probabilities can be taken at their word: calibration on test rows, and the table of the page.

    python benchmarks/calibration.py emotions scene      # measure, then write docs/calibration.md
    python benchmarks/calibration.py                     # write the page again from the measurements
    python benchmarks/calibration.py --check             # fail where the page differs from the measurements

Models are those of the preset `quick`. The interval resamples the test rows, whose pairs depend on each other.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection

SAMPLES, SHARE = 200, 0.9


def measure(name: str) -> dict[str, Any]:
    """One fit; the calibration of its held-out rows and, with and without it, of the test rows."""
    from lampnet.config import Config
    from lampnet.evaluation.reliability import reliability
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    material = open_material(name)
    model = fit(material.labelled, Config.preset("quick").updated({"training.threads": 1, "known.method": "none"}))
    test = material.part("test")
    truth, proba = test.indicator(), model.proba(test.rows, test.row_edges)
    before = replace(model, calibration=None).proba(test.rows, test.row_edges)
    random = np.random.default_rng(0)
    drawn = [random.integers(len(test), size=len(test)) for _ in range(SAMPLES)]
    errors = [reliability(truth[rows], proba[rows]).ece_above for rows in drawn]
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    return {
        "rows": len(test),
        "labels": len(model.label_names),
        "calibrated": model.calibration is not None,
        "held_out": reliability(model.valid_truth, model.valid_proba).to_json(),
        "test": reliability(truth, proba).to_json(),
        "test_uncalibrated": reliability(truth, before).to_json(),
        "test_interval": [  # quantiles of the error of resampled rows
            round(float(q), 5) for q in np.quantile(errors, [(1 - SHARE) / 2, (1 + SHARE) / 2])
        ],
        "labels_predicted_for_one_true": round(float(proba[~np.isnan(truth)].sum() / np.nansum(truth)), 4),
    }


def table(measured: dict[str, Any]) -> str:
    head = "| data | test rows | labels | calibrated | held-out rows | test rows, before | test rows | 90% interval | "
    lines = [head + "by chance | Brier | predicted per true label |", "|---|--:|--:|---|" + "--:|" * 7]
    for name, one in sorted(measured.items()):
        held_out, before, after = (one[part]["ece_above_.01"] for part in ("held_out", "test_uncalibrated", "test"))
        # Resampled rows look worse than the rows themselves: the interval is mirrored at what was measured.
        low, high = max(0.0, 2 * after - one["test_interval"][1]), 2 * after - one["test_interval"][0]
        lines.append(
            f"| {name} | {one['rows']} | {one['labels']} | {'yes' if one['calibrated'] else 'as it came'} | "
            f"{held_out:.4f} | {before:.4f} | {after:.4f} | {low:.4f} to {high:.4f} | "
            f"{one['test']['ece_by_chance']:.4f} | {one['test']['brier']:.4f} | "
            f"{one['labels_predicted_for_one_true']:.3f} |"
        )
    return "\n".join(lines)


SECTION = MeasuredSection("calibration", "calibration.md", "errors", table)


if __name__ == "__main__":
    SECTION.run(sys.argv[1:], measure)
