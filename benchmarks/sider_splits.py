"""How hard SIDER's random splits are: docs/measurements/sider_splits.json.

    python benchmarks/sider_splits.py [--data-root DIR] [--splits 100]

Scores of the label priors, which ignore the molecules, on many random splits of the paper's sizes, and their means over
five splits: the variation that is due to the sampled test rows alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from lampnet.baselines.constant import LabelPriors
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.metrics import METRICS
from lampnet.readers.sources import Source

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "sider_splits.json"
SCORES = ("example_f1", "micro_f1", "macro_f1")
FIVE = 5


def constant_guess(source: Source, seed: int) -> list[float]:
    splits = source.splits(seed)
    labelled, test = splits.merged_back().train.indicator(), splits.test.indicator()
    model = LabelPriors().fit(labelled, labelled)
    rules = choose_decisions(labelled, model.predict_proba(labelled), seed=seed).best
    proba = model.predict_proba(test)
    return [float(METRICS[metric](test, rules[metric].apply(proba))) for metric in SCORES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    parser.add_argument("--splits", type=int, default=100)
    given = parser.parse_args()
    source = Source(data="sider", root=given.data_root)
    scores = np.array([constant_guess(source, seed) for seed in range(given.splits)])
    fives = scores[: given.splits // FIVE * FIVE].reshape(-1, FIVE, len(SCORES)).mean(axis=1)

    def named(values: np.ndarray) -> dict[str, float]:
        return {metric: round(float(value), 4) for metric, value in zip(SCORES, values, strict=True)}

    found = {
        "system": "constant",
        "splits": given.splits,
        "mean": named(scores.mean(axis=0)),
        "spread of one split": named(scores.std(axis=0, ddof=1)),
        "spread of the mean of five": named(fives.std(axis=0, ddof=1)),
        "mean of the splits in the tables (seeds 0 to 4)": named(fives[0]),
        "highest mean of five": named(fives.max(axis=0)),
    }
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
