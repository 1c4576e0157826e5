"""Label hierarchies: the scores of models trained and decided with one, beside the same models without, on test rows.

    python benchmarks/label_hierarchies.py goemotions reuters21578    # measure, then write docs/living-labels.md
    python benchmarks/label_hierarchies.py                  # write the page again from the measurements
    python benchmarks/label_hierarchies.py --check          # fail where the page differs from the measurements

GoEmotions: the publisher's grouping of 27 emotions into three sentiments, which become labels of the rows; the seed
draws the training rows. Reuters: a topic is a child of another where the training rows say so; test rows are scored by
their labels as published, though some have a child without its parent. Intervals are of the mean difference of the
three F1 scores, by resampling the test rows. Models are those of the preset `quick` on one
thread.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pages.measured_section import MeasuredSection, by_seed, with_missing

if TYPE_CHECKING:
    from lampnet.data.dataset import Dataset
    from lampnet.data.label_hierarchy import LabelHierarchy

PLANNED = ("goemotions", "reuters21578")
SEEDS = (0, 1, 2)
METRICS = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")
#: training rows of GoEmotions that the seed draws
DRAWN = 10_000
#: a topic of Reuters is below another where at least so many training rows have it, and this share of them the other
LEAST_ROWS, LEAST_SHARE = 5, 0.9
#: sentiment_mapping.json of the publisher of GoEmotions; neutral stands for itself
SENTIMENTS = {
    "positive": "amusement excitement joy love desire optimism caring pride admiration gratitude relief approval",
    "negative": "fear nervousness remorse embarrassment disappointment sadness grief disgust anger annoyance "
    "disapproval",
    "ambiguous": "realization surprise curiosity confusion",
}
MODELS = {"without": "without", "added": "without, parents added to its label sets", "with": "with the hierarchy"}


def with_sentiments(rows: Dataset) -> Dataset:
    """Comments with the sentiments of their emotions as further labels."""
    Y = rows.indicator()
    groups = [
        Y[:, [rows.label_names.index(emotion) for emotion in emotions.split()]].max(axis=1)
        for emotions in SENTIMENTS.values()
    ]
    labels = sparse.csr_matrix(np.column_stack([Y, *groups]), dtype=np.float32)
    return replace(rows, labels=labels, label_names=(*rows.label_names, *SENTIMENTS))


def topics_below_others(rows: Dataset) -> list[tuple[str, str]]:
    """(child, parent) where almost all rows that have the first topic have the second one, which has more rows."""
    Y, names = rows.indicator(), rows.label_names
    count, together = Y.sum(axis=0), Y.T @ Y
    below = (together >= LEAST_SHARE * count[:, None]) & (count[:, None] >= LEAST_ROWS) & (count > count[:, None])
    return [(names[child], names[parent]) for child, parent in np.argwhere(below)]


def material(name: str, seed: int) -> tuple[Dataset, Dataset, LabelHierarchy]:
    """Labelled rows, test rows and the hierarchy of their labels."""
    from lampnet.data.dataset import Dataset
    from lampnet.data.label_hierarchy import LabelHierarchy
    from lampnet.experiments.material import open_material

    opened = open_material(name, seed=seed)
    labelled, test = opened.labelled, opened.part("test")
    rows = labelled.train if labelled.valid is None else Dataset.joined([labelled.train, labelled.valid])
    if name == "goemotions":
        drawn = np.sort(np.random.default_rng(seed).permutation(len(rows))[:DRAWN])
        rows, test = with_sentiments(rows.take(drawn)), with_sentiments(test)
        pairs = [(emotion, group) for group, emotions in SENTIMENTS.items() for emotion in emotions.split()]
    else:
        pairs = topics_below_others(rows)
    return rows, test, LabelHierarchy.of(pairs, rows.label_names)


def measure(name: str, seed: int) -> dict[str, Any]:
    """Test scores of each model, and the share of the rows in which a child stands without its parent."""
    from lampnet.config import Config
    from lampnet.data.splits import Splits
    from lampnet.evaluation.gain import measure_gain
    from lampnet.evaluation.metrics import METRICS as SCORES
    from lampnet.evaluation.metrics import ranking_metrics
    from lampnet.pipeline.fit import fit

    rows, test, hierarchy = material(name, seed)
    truth = test.indicator()
    changes = {"training.threads": 1, "training.seed": seed, "known.method": "none"}
    config = Config.preset("quick").updated(changes)
    found: dict[str, Any] = {
        "seed": seed,
        "rows": len(rows),
        "test": len(test),
        "labels": len(rows.label_names),
        "edges": len(hierarchy.edges),
        "test_rows_that_break_it": float((hierarchy.with_parents(truth == 1) != (truth == 1)).any(axis=1).mean()),
        "models": {},
    }

    def scored(what: str, proba: np.ndarray, sets: dict[str, np.ndarray]) -> None:
        alone = (hierarchy.with_parents(sets["example_f1"]) != sets["example_f1"]).any(axis=1).mean()
        found["models"][what] = {m: float(SCORES[m](truth, sets[m])) for m in METRICS} | {
            "alone": float(alone),
            "mean_average_precision": ranking_metrics(truth, proba)["average_precision_macro"],
        }

    plain = fit(Splits(train=rows), config)
    before = proba = plain.proba(test.rows, test.row_edges)
    sets = {m: plain.decisions.best[m].apply(proba) for m in METRICS}
    scored("without", proba, sets)
    scored("added", proba, {m: hierarchy.with_parents(own) for m, own in sets.items()})
    made = fit(Splits(train=rows), config, hierarchy=hierarchy)
    proba = made.proba(test.rows, test.row_edges)
    scored("with", proba, {m: made.decided(m, proba) for m in METRICS})
    found["gain"] = measure_gain(truth, (before, plain.decisions), (proba, made.decisions)).to_json()
    rules = {"without": plain, "with": made}
    found["rules"] = {what: {m: one.decisions.best[m].describe() for m in METRICS} for what, one in rules.items()}
    return found


def table(measured: dict[str, Any]) -> str:
    """Markdown: mean scores over the seeds, and the difference to the model without for each seed."""
    lines = [
        "| data (rows, labels, pairs) | model | example-F1 | micro-F1 | macro-F1 | subset accuracy | mean AP | "
        "three F1 scores against without (each seed) | 90% intervals (each seed) | rows with a child alone |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in sorted(measured.items()):
        size = f"{runs[0]['rows']:,}, {runs[0]['labels']}, {runs[0]['edges']}"
        for key, called in MODELS.items():
            own, without = ([run["models"][which] for run in runs] for which in (key, "without"))
            means = " | ".join(f"{np.mean([one[m] for one in own]):.3f}" for m in (*METRICS, "mean_average_precision"))
            gains = [np.mean([a[m] - b[m] for m in METRICS[:3]]) for a, b in zip(own, without, strict=True)]
            listed = "" if key == "without" else by_seed(gains)
            intervals = ", ".join("{:+.3f} to {:+.3f}".format(*run["gain"]["interval"]) for run in runs)
            alone = f"{np.mean([one['alone'] for one in own]):.1%}"
            data, intervals = (f"{name} ({size})", "") if key == "without" else ("", intervals if key == "with" else "")
            lines.append(f"| {data} | {called} | {means} | {listed} | {intervals} | {alone} |")
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("label_hierarchies", "living-labels.md", "label hierarchies", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, lambda name, seed: [measure(name, seed)])
