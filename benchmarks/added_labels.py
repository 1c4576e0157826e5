"""A label added from a few examples, beside a model trained with it and logistic regression on the examples alone.

    python benchmarks/added_labels.py emotions scene     # measure, then write docs/living-labels.md
    python benchmarks/added_labels.py                    # write the page again from the measurements
    python benchmarks/added_labels.py --check            # fail where the page differs from the measurements

The most frequent, a middling and the rarest of the labels that have enough training rows are left out of the training
in turn and then added to its linear base learners, the only ones that learn it. Models are those of the preset `quick`
on one thread; the seed draws the examples.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection, by_seed, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "emotions", "goemotions-sample", "goemotions-sample with an encoder", "scene")
#: what follows a data set's name where texts are read by the installed pretrained encoder, too
WITH_ENCODER = " with an encoder"
SEEDS = (0, 1, 2)
EXAMPLES = (5, 20, 100)
#: what is compared, as the table calls it; the name counts where rows are texts
SYSTEMS = {
    "added": "added",
    "unnamed": "without its name",
    "alone": "logistic regression",
    "messages": "and the other labels' logits",
    "trained": "trained with it",
}


def measure(name: str, seed: int) -> list[dict[str, Any]]:
    """Scores of three labels, each added with every number of examples."""
    from lampnet.config import Config
    from lampnet.data.dataset import Dataset
    from lampnet.data.splits import Splits
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    data = name.removesuffix(WITH_ENCODER)
    material = open_material(data, seed=seed)
    labelled, test = material.labelled, material.part("test")
    rows = labelled.train if labelled.valid is None else Dataset.joined([labelled.train, labelled.valid])
    changes = {"training.threads": 1, "training.seed": seed, "known.method": "none"}
    if name != data:
        changes |= {"input.pretrained": "auto", "input.pretrained_use": "pooled"}
    config = Config.preset("quick").updated(changes)
    Y, truth = rows.indicator(), test.indicator()
    often = np.flatnonzero((Y.sum(axis=0) >= EXAMPLES[-1]) & ((1 - Y).sum(axis=0) >= EXAMPLES[-1]))
    often = often[np.argsort(-Y[:, often].sum(axis=0), kind="stable")]
    whole = fit(Splits(train=rows), config).proba(test.rows, test.row_edges)
    found = []
    for label in dict.fromkeys(int(often[at]) for at in (0, len(often) // 2, len(often) - 1)):
        prior = float(Y[:, label].mean())
        own: dict[str, Any] = {"seed": seed, "label": rows.label_names[label], "prior": prior}
        own["trained"] = scores(truth[:, label], whole[:, label], prior)
        found.append(own | {"examples": added(rows, test, label, prior, config, seed)})
    return found


def added(rows: Any, test: Any, label: int, prior: float, config: Any, seed: int) -> dict[str, Any]:
    """Scores of a label that the training did not have, for each number of examples."""
    from dataclasses import replace

    from lampnet.data.splits import Splits
    from lampnet.pipeline.fit import fit
    from lampnet.pipeline.label_edits import add_label

    others = [number for number in range(len(rows.label_names)) if number != label]
    names = tuple(rows.label_names[number] for number in others)
    learners = ("linear", "pretrained_linear") if config.input.pools else ("linear",)
    few = config.updated({"model.base_learners": learners})
    model = fit(Splits(train=replace(rows, labels=rows.labels[:, others], label_names=names)), few)
    y, truth = rows.indicator()[:, label], test.indicator()[:, label]
    order = np.random.default_rng(seed).permutation(len(y))
    features = model.encoder.encode(test.rows, test.row_edges).features
    found = {}
    for count in EXAMPLES:
        some = np.sort(np.concatenate([order[y[order] == value][:count] for value in (1, 0)]))
        encoded = model.encoder.encode(rows.take(some).rows, None)
        edited = add_label(model, rows.label_names[label], encoded, y[some], prior)
        proba = {"added": edited.proba(test.rows)[:, -1]} | rivals(model, encoded.features, y[some], features, seed)
        found[str(count)] = {system: scores(truth, p, prior) for system, p in proba.items()}
    return found


def rivals(model: Any, X: Any, y: np.ndarray, test: Any, seed: int) -> dict[str, np.ndarray]:
    """What the examples alone give for the test rows: without the name, by scikit-learn, with other labels' logits."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    from lampnet.base_learners.added_label import fit_added_label

    column = fit_added_label(X, y, seed)
    alone = LogisticRegression(max_iter=1000).fit(X, y)
    linear = model.stack.learners[0]
    said = [np.asarray(model.stack.columns_of("linear", rows) @ linear.weights) for rows in (X, test)]
    centre, spread = said[0].mean(axis=0), np.maximum(said[0].std(axis=0), 1e-3)
    # All labels' logits together as long as a row of features.
    squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
    scale = np.sqrt(squares.sum() / said[0].size)
    joined = [
        sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(rows), sparse.csr_matrix(scale * (own - centre) / spread)]))
        for rows, own in zip((X, test), said, strict=True)
    ]
    messages = LogisticRegression(max_iter=1000).fit(joined[0], y)
    return {
        "unnamed": np.asarray(test @ column.weights_F).ravel() + column.intercept,
        "alone": alone.predict_proba(test)[:, 1],
        "messages": messages.predict_proba(joined[1])[:, 1],
    }


def scores(truth: np.ndarray, proba: np.ndarray, prior: float) -> dict[str, float]:
    """Average precision, and F1 where as many rows are taken as the prior says."""
    from sklearn.metrics import average_precision_score, f1_score

    chosen = np.zeros(len(truth), dtype=bool)
    chosen[np.argsort(-proba, kind="stable")[: max(1, round(prior * len(truth)))]] = True
    return {"ap": float(average_precision_score(truth, proba)), "f1": float(f1_score(truth, chosen))}


def table(measured: dict[str, Any]) -> str:
    """Markdown: mean average precision over labels and seeds, and what was added against the examples alone."""
    lines = [
        "| data (labels, seeds) | examples with it, without it | "
        + " | ".join(SYSTEMS.values())
        + " | added against logistic regression (each seed) | F1 added | F1 trained with it |",
        "|---|--:|" + "--:|" * (len(SYSTEMS) + 3),
    ]
    for name, runs in sorted(measured.items()):
        seeds, texts = sorted({run["seed"] for run in runs}), name.startswith("goemotions")
        for count in map(str, EXAMPLES):
            means = {
                (system, key): [
                    float(np.mean([_of(run, count, system)[key] for run in runs if run["seed"] == seed]))
                    for seed in seeds
                ]
                for system in SYSTEMS
                for key in ("ap", "f1")
            }
            cells = [
                "" if system == "unnamed" and not texts else f"{np.mean(means[system, 'ap']):.3f}" for system in SYSTEMS
            ]
            gains = np.subtract(means["added", "ap"], means["alone", "ap"]).tolist()
            f1 = [f"{np.mean(means[system, 'f1']):.3f}" for system in ("added", "trained")]
            labels = len({run["label"] for run in runs})
            data = f"{name} ({labels}, {len(seeds)})" if count == str(EXAMPLES[0]) else ""
            lines.append(f"| {data} | {count}, {count} | {' | '.join([*cells, by_seed(gains), *f1])} |")
    return with_missing(lines, measured, PLANNED)


def _of(run: dict[str, Any], count: str, system: str) -> dict[str, float]:
    found: dict[str, float] = run["trained"] if system == "trained" else run["examples"][count][system]
    return found


SECTION = MeasuredSection("added_labels", "living-labels.md", "added labels", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, measure)
