"""Whether promises are kept: two hundred simulated splits of real test rows, and the table of the page.

python benchmarks/promises.py emotions scene      # measure, then write docs/calibration.md
python benchmarks/promises.py                     # write the page again from the measurements
python benchmarks/promises.py --check             # fail where the page differs from the measurements
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection

ASKED = ("recall>=0.8", "recall>=0.9", "precision>=0.6", "precision>=0.8")
SPLITS = 200


def measure(name: str) -> list[dict[str, Any]]:
    from lampnet.config import Config
    from lampnet.evaluation.promises import Promise, Promises
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    material = open_material(name)
    model = fit(material.labelled, Config.preset("quick").updated({"training.threads": 1, "known.method": "none"}))
    test = material.part("test")
    truth, proba = test.indicator(), model.proba(test.rows, test.row_edges)
    whole, random = Promises.of(truth, proba), np.random.default_rng(0)
    assert model.promises is not None
    found = []
    for text in ASKED:
        promise = Promise.read(text)
        kept = kept_elsewhere = asked = asked_elsewhere = 0
        for _ in range(SPLITS):
            drawn = random.integers(len(test), size=len(test))
            value = Promises.of(truth[drawn], proba[drawn]).least_or_most(promise)
            asked += value is not None
            kept += value is not None and whole.reached(promise.measure, value) >= promise.least
            order = random.permutation(len(test))
            here, there = order[: len(order) // 2], order[len(order) // 2 :]
            value = Promises.of(truth[here], proba[here]).least_or_most(promise)
            asked_elsewhere += value is not None
            other = Promises.of(truth[there], proba[there])
            kept_elsewhere += value is not None and other.reached(promise.measure, value) >= promise.least
        own = model.promises.least_or_most(promise)
        found.append(
            {
                "promise": text,
                "rows": len(test),
                "splits": SPLITS,
                "promised": asked,
                "kept": kept,
                "promised_on_halves": asked_elsewhere,
                "kept_on_other_halves": kept_elsewhere,
                "threshold": None if own is None else round(own, 4),
                "test": None if own is None else round(whole.reached(promise.measure, own), 4),
            }
        )
    return found


def table(measured: dict[str, Any]) -> str:
    lines = ["| data | promise | test rows | kept | on other rows | own threshold | test rows measure |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for name, found in sorted(measured.items()):
        for one in found:
            kept = _share(one["kept"], one["promised"])
            elsewhere = _share(one["kept_on_other_halves"], one["promised_on_halves"])
            own = (
                "cannot be promised | –" if one["threshold"] is None else f"{one['threshold']:.3f} | {one['test']:.3f}"
            )
            lines.append(f"| {name} | {one['promise']} | {one['rows']} | {kept} | {elsewhere} | {own} |")
    return "\n".join(lines)


def _share(kept: int, promised: int) -> str:
    return f"{kept} of {promised}" if promised else "never promised"


SECTION = MeasuredSection("promises", "calibration.md", "promises", table)


if __name__ == "__main__":
    SECTION.run(sys.argv[1:], measure)
