"""Random parts against parts in the rows' order, where the order matters: docs/measurements/parts_in_order.json.

    python benchmarks/parts_in_order.py [--data-root DIR]

First opinions learn from the first three quarters of Reuters' labelled rows, are weighed and get their decisions on
these rows, out-of-fold, and are scored on the last quarter. Test rows are never opened.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from scipy.special import expit
from trials import SCORES, Rows, weighing

from lampnet.decision import choose_decisions
from lampnet.evidence import FOLDS, Evidence
from lampnet.folds import come_in_order, fold_numbers
from lampnet.metrics import METRICS

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "parts_in_order.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    rows = Rows("reuters21578")
    cut = len(rows.Y) * 3 // 4
    X, Y, later_X, later_Y = rows.X[:cut], rows.Y[:cut], rows.X[cut:], rows.Y[cut:]
    found = {"rows": cut, "later_rows": len(later_Y), "found_to_come_in_order": come_in_order(Y)}
    for way, in_order in (("at random", False), ("in order", True)):
        evidence = Evidence(("linear", "neighbours"))
        own = evidence.fit(X, Y, 0, fold_numbers(cut, FOLDS, 0, in_order) if in_order else None)
        weigh = weighing(own, Y)
        proba, later = expit(weigh(own)), expit(weigh(evidence.of(later_X)))
        rules = choose_decisions(Y, proba).best
        found[way] = {
            "out-of-fold": {m: round(float(METRICS[m](Y, rules[m].apply(proba))), 4) for m in SCORES},
            "later rows": {m: round(float(METRICS[m](later_Y, rules[m].apply(later))), 4) for m in SCORES},
        }
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
