"""Whether the other labels' logits help a label that is added from a few examples.

    python benchmarks/other_labels_logits.py emotions scene     # measure, then write docs/living-labels.md
    python benchmarks/other_labels_logits.py                    # write the page again from the measurements
    python benchmarks/other_labels_logits.py --check            # fail where the page differs from the measurements

Labels and examples are those of benchmarks/added_labels.py. The linear logits of all other labels stand beside the
features, together as long as they are. They are used always, or where the examples' log-loss is lower with them by more
than a standard error, out-of-fold. The examples are rows that the model was trained on, or rows that were kept from it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from added_labels import EXAMPLES, SEEDS, scores
from pages.measured_section import MeasuredSection, by_seed, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "emotions", "scene")
#: which rows the examples are, and how the table calls them
ROWS = {"unseen": "new rows", "seen": "training rows"}


def measure(name: str, seed: int) -> list[dict[str, Any]]:
    """Average precision of three added labels, for each number and kind of examples."""
    from dataclasses import replace

    from lampnet.config import Config
    from lampnet.data.dataset import Dataset
    from lampnet.data.splits import Splits
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    material = open_material(name, seed=seed)
    labelled, test = material.labelled, material.part("test")
    rows = labelled.train if labelled.valid is None else Dataset.joined([labelled.train, labelled.valid])
    changes = {"training.threads": 1, "training.seed": seed, "known.method": "none", "model.base_learners": ("linear",)}
    config = Config.preset("quick").updated(changes)
    Y, truth = rows.indicator(), test.indicator()
    often = np.flatnonzero((Y.sum(axis=0) >= EXAMPLES[-1]) & ((1 - Y).sum(axis=0) >= EXAMPLES[-1]))
    often = often[np.argsort(-Y[:, often].sum(axis=0), kind="stable")]
    found = []
    for label in dict.fromkeys(int(often[at]) for at in (0, len(often) // 2, len(often) - 1)):
        others = [number for number in range(Y.shape[1]) if number != label]
        names, y = tuple(rows.label_names[number] for number in others), Y[:, label]
        order = np.random.default_rng(seed).permutation(len(y))
        examples = {
            count: np.sort(np.concatenate([order[y[order] == v][:count] for v in (1, 0)])) for count in EXAMPLES
        }
        for kind in ROWS:
            kept = np.arange(len(y)) if kind == "seen" else np.setdiff1d(np.arange(len(y)), examples[EXAMPLES[-1]])
            learned = rows.take(kept)
            assert learned.labels is not None
            learned = replace(learned, labels=learned.labels[:, others], label_names=names)
            model = fit(Splits(train=learned), config)
            by_count = {}
            for count, some in examples.items():
                few, all_test = (model.encoder.encode(part.rows, None).features for part in (rows.take(some), test))
                assert model.stack is not None
                proba = with_and_without(few, y[some], all_test, model.stack.learners[0].weights, seed)
                by_count[str(count)] = {
                    how: scores(truth[:, label], p, float(y.mean()))["ap"] for how, p in proba.items()
                }
            found.append({"seed": seed, "label": rows.label_names[label], "rows": kind, "examples": by_count})
    return found


def with_and_without(X: Any, y: np.ndarray, test: Any, weights_FL: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Logits of the test rows: from their features, with the other labels' logits beside these, and as chosen."""
    from scipy import sparse

    from lampnet.base_learners import added_label
    from lampnet.data.stratify import stratified_folds

    y = y.astype(np.float32)
    said = [np.asarray(rows @ weights_FL) for rows in (X, test)]
    centre = said[0].mean(axis=0)
    squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
    scale = np.sqrt(squares.sum() / np.square(said[0] - centre).sum())
    beside = [np.asarray(scale * (own - centre), dtype=np.float32) for own in said]
    rows: dict[str, list[Any]] = {"without": [X, test]}
    if sparse.issparse(X):
        both = zip((X, test), beside, strict=True)
        rows["always"] = [sparse.csr_matrix(sparse.hstack([own, sparse.csr_matrix(more)])) for own, more in both]
    else:
        rows["always"] = [np.hstack([own, more]) for own, more in zip((X, test), beside, strict=True)]
    fold_n = stratified_folds(np.column_stack([y, 1 - y]), min(added_label.FOLDS, int(y.sum())), seed)
    losses, logits = {}, {}
    for how, (own, new) in rows.items():
        tried = [added_label._held_out_losses(own, y, fold_n, C, None) for C in added_label.CHOICES]
        best = int(np.argmin([loss.sum() for loss in tried]))
        column, intercept = added_label._column(own, y, added_label.CHOICES[best], None)
        losses[how], logits[how] = tried[best], np.asarray(new @ column).ravel() + intercept
    gain = losses["without"] - losses["always"]
    chosen = "always" if gain.mean() > gain.std() / np.sqrt(len(y)) else "without"
    return logits | {"chosen": logits[chosen]}


def table(measured: dict[str, Any]) -> str:
    """Markdown: mean average precision over labels and seeds, and the differences seed by seed."""
    lines = [
        "| data (labels, seeds) | the examples are | with it, without it | features | and the others' logits | where "
        "better out-of-fold | difference always (each seed) | difference as chosen (each seed) |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in sorted(measured.items()):
        seeds, labels = sorted({run["seed"] for run in runs}), len({run["label"] for run in runs})
        for kind, called in ROWS.items():
            for count in map(str, EXAMPLES):
                own = [run for run in runs if run["rows"] == kind]
                means = {
                    how: [
                        float(np.mean([run["examples"][count][how] for run in own if run["seed"] == seed]))
                        for seed in seeds
                    ]
                    for how in ("without", "always", "chosen")
                }
                cells = " | ".join(f"{np.mean(values):.3f}" for values in means.values())
                gains = [by_seed(np.subtract(means[how], means["without"]).tolist()) for how in ("always", "chosen")]
                first = count == str(EXAMPLES[0])
                data = f"{name} ({labels}, {len(seeds)})" if first and kind == "unseen" else ""
                lines.append(
                    f"| {data} | {called if first else ''} | {count}, {count} | {cells} | {' | '.join(gains)} |"
                )
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("other_labels_logits", "living-labels.md", "other labels' logits", table)


if __name__ == "__main__":
    SECTION.run_by_seed(sys.argv[1:], SEEDS, measure)
