"""Learning from more rows: on from a fitted model, beside training anew on everything, on test rows.

    python benchmarks/continuing.py emotions scene     # measure, then write docs/living-labels.md
    python benchmarks/continuing.py                    # write the page again from the measurements
    python benchmarks/continuing.py --check            # fail where the page differs from the measurements

The seed divides the training rows: three quarters are the rows before, one quarter the new ones. Models are those of
the preset `quick` on one thread; where a name ends in "(fast)", of `fast`, whose networks are always kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection, by_seed, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "emotions", "emotions (fast)", "scene", "scene (fast)")
#: what follows a data set's name where networks are trained and always enter the predictions
FAST = " (fast)"
SEEDS = (0, 1, 2)
NEW_SHARE = 0.25
METRICS = ("example_f1", "micro_f1", "macro_f1")
#: the models of a run, as the table calls them
MODELS = {
    "before": "the model before",
    "continued": "continued",
    "anew": "anew on all rows",
    "alone": "anew on the new rows",
}


def measure(name: str, seed: int) -> dict[str, Any]:
    """Test scores and seconds of each model."""
    from lampnet.config import Config
    from lampnet.data.dataset import Dataset
    from lampnet.data.splits import Splits, random_split
    from lampnet.evaluation.metrics import METRICS as SCORES
    from lampnet.experiments.material import open_material
    from lampnet.inference.predictor import FittedModel
    from lampnet.pipeline.continuing import Start
    from lampnet.pipeline.fit import fit

    material = open_material(name.removesuffix(FAST), seed=seed)
    labelled = material.labelled
    rows = labelled.train if labelled.valid is None else Dataset.joined([labelled.train, labelled.valid])
    parts = random_split(rows, valid=0, test=NEW_SHARE, seed=seed)
    old, new, test = parts.train, parts.test, material.part("test")
    assert new is not None
    changes: dict[str, Any] = {"training.threads": 1, "training.seed": seed, "known.method": "none"}
    if name.endswith(FAST):
        changes["training.keep_network"] = "always"
    config = Config.preset("fast" if name.endswith(FAST) else "quick").updated(changes)
    found: dict[str, Any] = {"seed": seed, "rows": [len(old), len(new)], "test": len(test), "models": {}}

    def timed(what: str, make: Callable[[], FittedModel]) -> FittedModel:
        began = time.perf_counter()
        model = make()
        seconds, proba = time.perf_counter() - began, model.proba(test.rows, test.row_edges)
        scores = {m: float(SCORES[m](test.indicator(), model.decisions.best[m].apply(proba))) for m in METRICS}
        found["models"][what] = {"seconds": round(seconds, 2)} | scores
        return model

    before = timed("before", lambda: fit(Splits(train=old), config))
    timed("continued", lambda: fit(Splits(train=new), config, start=Start(before)))
    timed("anew", lambda: fit(Splits(train=rows), config))
    timed("alone", lambda: fit(Splits(train=new), config))
    return found


def table(measured: dict[str, Any]) -> str:
    """Markdown: mean scores over the seeds, the difference to the model before for each seed, and the time."""
    lines = [
        "| data (rows before + new) | model | example-F1 | micro-F1 | macro-F1 | micro-F1 against the model before "
        "(each seed) | time against anew (median) |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, runs in sorted(measured.items()):
        size = " + ".join(f"{count:,}" for count in runs[0]["rows"])
        for key, called in MODELS.items():
            own, anew, before = ([run["models"][which] for run in runs] for which in (key, "anew", "before"))
            means = " | ".join(f"{np.mean([one[m] for one in own]):.3f}" for m in METRICS)
            gains = [one["micro_f1"] - other["micro_f1"] for one, other in zip(own, before, strict=True)]
            listed = "" if key == "before" else by_seed(gains)
            share = np.median([one["seconds"] / other["seconds"] for one, other in zip(own, anew, strict=True)])
            time_taken = f"{share:.0%}" if key in ("continued", "alone") else ""  # the first fit of a run also imports
            data = f"{name} ({size})" if key == "before" else ""
            lines.append(f"| {data} | {called} | {means} | {listed} | {time_taken} |")
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("continuing", "living-labels.md", "continuing", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, lambda name, seed: [measure(name, seed)])
