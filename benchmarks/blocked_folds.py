"""Random against blocked folds on serially correlated rows: docs/measurements/blocked_folds.json.

    python benchmarks/blocked_folds.py [--data-root DIR] [--networks]

Base learners are fitted on the first three quarters of Reuters' labelled rows; stacking weights and decision rules are
chosen on these rows, out-of-fold, and scored on the last quarter. With `--networks` whole models do the same: an
ensemble of five with blocked folds, and a single network validated on the last tenth of its rows. Test rows are never
opened.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from scipy.special import expit

from lampnet.base_learners.protocol import FOLDS
from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.splits import Splits, fold_numbers, serially_correlated_rows
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.metrics import METRICS
from lampnet.pipeline.fit import fit
from trials import SCORES, Rows, stacking

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "blocked_folds.json"


def networks(rows: Rows, cut: int) -> dict[str, dict[str, float]]:
    """Scores on the later rows, each under the decision rule chosen on the rows before them."""
    train, later = rows.train.take(np.arange(cut)), rows.train.take(np.arange(cut, len(rows.train)))
    found = {}
    for way, folds in (("a single network, validated on the last tenth", 1), ("an ensemble of five, blocked folds", 5)):
        config = Config.preset("fast").updated({"training.folds": folds})
        began = time.process_time()
        model = fit(Splits(train=train), config)
        minutes = (time.process_time() - began) / 60
        proba, truth = model.proba(later.rows), later.indicator()
        scores = {m: round(float(METRICS[m](truth, model.decisions.best[m].apply(proba))), 4) for m in SCORES}
        found[way] = scores | {"processor_minutes": round(minutes, 1)}
        print(way, found[way], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    parser.add_argument("--networks", action="store_true")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    rows = Rows("reuters21578")
    cut = len(rows.Y) * 3 // 4
    if given.networks:
        found = json.loads(OUT.read_text()) | {"networks, later rows": networks(rows, cut)}
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        return
    X, Y, later_X, later_Y = rows.X[:cut], rows.Y[:cut], rows.X[cut:], rows.Y[cut:]
    found = {"rows": cut, "later_rows": len(later_Y), "serially_correlated": serially_correlated_rows(Y)}
    for way, blocked in (("random folds", False), ("blocked folds", True)):
        stack = Stack(("linear", "knn"))
        own = stack.fit(X, Y, 0, fold_numbers(cut, FOLDS, 0, serially_correlated=True) if blocked else None)
        combine = stacking(own, Y)
        proba, later = expit(combine(own)), expit(combine(stack.logits(later_X)))
        rules = choose_decisions(Y, proba).best
        found[way] = {
            "out-of-fold": {m: round(float(METRICS[m](Y, rules[m].apply(proba))), 4) for m in SCORES},
            "later rows": {m: round(float(METRICS[m](later_Y, rules[m].apply(later))), 4) for m in SCORES},
        }
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
