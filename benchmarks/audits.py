"""How well audits find mistakes that were put into labels, beside cleanlab on the same out-of-fold probabilities.

    python benchmarks/audits.py corel5k mediamill delicious bibtex emotions   # measure, then write docs/known-labels.md
    python benchmarks/audits.py                                               # write the page again
    python benchmarks/audits.py --check                                       # fail where the page differs

Needs cleanlab beside lampnet's own dependencies. Of the labels of the training rows (at most 4,000 rows), 5% of the
true ones are removed, and 2% as many false ones are added: at random, or to look-alikes, which are labels whose rows
resemble those of one of the row's labels in the input. How labels are scored was chosen on noise of the seed 100.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from pages.measured_section import MeasuredSection, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "corel5k", "delicious", "emotions", "mediamill")
SEEDS, MOST_ROWS = (0, 1, 2), 4000
REMOVED, ADDED = 0.05, 0.02
NOISE = ("random", "look-alikes")
#: a false label is added among this many of the labels most alike to one that the row has
ALIKE = 5


def labelled_rows(name: str) -> Dataset:
    from lampnet.experiments.material import open_material

    data = open_material(name).labelled.train
    if len(data) <= MOST_ROWS:
        return data
    return data.take(np.sort(np.random.default_rng(0).permutation(len(data))[:MOST_ROWS]))


def spoiled(data: Dataset, noise: str, seed: int) -> np.ndarray:
    """The labels (n, L) with true ones removed and false ones added."""
    random, Y = np.random.default_rng([seed, 1]), data.indicator()
    true = np.argwhere(Y == 1)
    removed = true[random.permutation(len(true))[: round(REMOVED * len(true))]]
    wanted = round(ADDED * len(true))
    if noise == "random":
        false = np.argwhere(Y == 0)
        added = false[random.permutation(len(false))[:wanted]]
    else:
        alike, chosen = look_alikes(data, Y), set()
        while len(chosen) < wanted:
            row, label = true[random.integers(len(true))]
            other = alike[label, random.integers(alike.shape[1])]
            if Y[row, other] == 0:
                chosen.add((int(row), int(other)))
        added = np.array(sorted(chosen))
    given = Y.copy()
    given[tuple(removed.T)], given[tuple(added.T)] = 0, 1
    return given


def look_alikes(data: Dataset, Y: np.ndarray) -> np.ndarray:
    """For each label the labels whose rows' mean input is most like its own, (L, ALIKE)."""
    rows = data.rows.values if isinstance(data.rows, Table) else data.rows
    X = np.nan_to_num(rows.toarray() if sparse.issparse(rows) else np.asarray(rows)).astype(np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    centre = (Y.T @ X) / np.maximum(1, Y.sum(axis=0))[:, None]
    centre /= np.maximum(1e-9, np.linalg.norm(centre, axis=1, keepdims=True))
    likeness = centre @ centre.T
    np.fill_diagonal(likeness, -np.inf)
    likeness[:, Y.sum(axis=0) == 0] = -np.inf
    return np.argsort(-likeness, axis=1)[:, : min(ALIKE, len(likeness) - 1)]


def precision(Y: np.ndarray, given: np.ndarray, suspicion: np.ndarray) -> dict[str, float]:
    """Average precision of finding the removed labels among those not given, and the added ones among those given."""
    from sklearn.metrics import average_precision_score

    off, on = given == 0, given == 1
    return {
        "removed": float(average_precision_score(Y[off] == 1, suspicion[off])),
        "added": float(average_precision_score(Y[on] == 0, suspicion[on])),
    }


def measure(data: Dataset, noise: str, seed: int) -> dict[str, Any]:
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class
    from scipy.special import expit

    from lampnet.config import Config
    from lampnet.pipeline.given_others import cross_fit_given_others

    Y, given = data.indicator(), spoiled(data, noise, seed)
    config = Config.preset("quick").updated({"training.threads": 1})
    found = cross_fit_given_others(replace(data, labels=sparse.csr_matrix(given)), config)
    labels = [np.flatnonzero(row).tolist() for row in given]
    quality = get_label_quality_scores_per_class(labels, expit(found.logits_nL.astype(np.float64)))
    against = np.where(given == 1, -found.log_odds_nL, found.log_odds_nL)
    return {
        "noise": noise,
        "seed": seed,
        "cleanlab": precision(Y, given, 1 - quality),
        "audit": precision(Y, given, against),
    }


def table(measured: dict[str, Any]) -> str:
    """Markdown: means over the seeds, and the smallest and largest ratio."""
    lines = [
        "| data | rows | labels | noise | seeds | removed: cleanlab → audit | times "
        "| added: cleanlab → audit | times |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for name, one in sorted(measured.items()):
        for noise in NOISE:
            runs = [run for run in one["runs"] if run["noise"] == noise]
            if not runs:
                continue
            cells = []
            for kind in ("removed", "added"):
                theirs, ours = (np.array([run[who][kind] for run in runs]) for who in ("cleanlab", "audit"))
                ratio = ours / theirs
                cells.append(f"{theirs.mean():.3f} → {ours.mean():.3f}")
                cells.append(f"{ours.mean() / theirs.mean():.2f} ({ratio.min():.2f}–{ratio.max():.2f})")
            lines.append(
                f"| {name} | {one['rows']:,} | {one['labels']} | {noise} | {len(runs)} | " + " | ".join(cells) + " |"
            )
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("audits", "known-labels.md", "audits", table)


def main(arguments: list[str]) -> None:
    if arguments == ["--check"]:
        SECTION.check()
        return
    measured = SECTION.read()
    for seed in SEEDS:
        for name in arguments:
            data = labelled_rows(name)
            own = measured.setdefault(name, {"rows": len(data), "labels": len(data.label_names), "runs": []})
            for noise in NOISE:
                if any((run["noise"], run["seed"]) == (noise, seed) for run in own["runs"]):
                    continue  # measured by an earlier run that was stopped
                own["runs"].append(measure(data, noise, seed))
                SECTION.keep(measured)
                print(name, own["runs"][-1], flush=True)
    SECTION.write()


if __name__ == "__main__":
    main(sys.argv[1:])
