"""What was tried to raise the scores, on labelled rows alone: test rows are never opened here.

    python benchmarks/trials.py --data-root DIR [DATASET ...] [--only TRIAL ...]

Every trial predicts all labelled rows out-of-fold. Decision rules are chosen on one half of the rows and scored on the
other, both ways, and the two scores are averaged, so a rule that overfits its own rows gains nothing. Writes
results/trials/DATASET.json; existing trials are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

import trial_features
from lampnet.base_learners import forest, knn
from lampnet.base_learners.protocol import FOLDS, Features
from lampnet.base_learners.stack import LEARNERS
from lampnet.base_learners.stacking_weights import fit_shared
from lampnet.config import Config
from lampnet.data.splits import fold_numbers, serially_correlated_rows
from lampnet.encoders import make_encoder, text_weights
from lampnet.evaluation import choose_rules
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.material import open_material
from lampnet.experiments.result_files import write_json
from lampnet.readers.sources import Source

FOLDER = Path(__file__).parents[1] / "results" / "trials"
#: how many labelled rows are drawn where all of them would take hours
ROWS = {"yeast_chipexo": 6000, "goemotions": 8000}
SCORES = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")


class Rows:
    """The labelled rows of a data set: features X (n, F) and labels Y (n, L)."""

    def __init__(self, name: str) -> None:
        train = open_material(Source(data=name, on_bad_row="skip"), 0).labelled.train
        if len(train) > ROWS.get(name, len(train)):
            train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[: ROWS[name]]))
        self.name, self.train, self.Y = name, train, train.indicator()
        self.X = self.features()
        serially_correlated = serially_correlated_rows(self.Y)
        self.fold_n = fold_numbers(len(self.Y), FOLDS, 0, serially_correlated) if serially_correlated else None
        self.known: dict[str, np.ndarray] = {}

    def features(self, gaps: str = "") -> Any:
        """Of the encoder; for DNA without words around gaps, but for those asked for."""
        encoder = make_encoder(self.train.kind, Config.preset("fast").updated({"input.gaps": gaps}).input)
        return encoder.fit(self.train.rows, self.train.feature_names).encode(self.train.rows).features

    def base_logits(self, learner: str) -> np.ndarray:
        """Out-of-fold logits (n, L) of a base learner."""
        if learner not in self.known:
            self.known[learner] = LEARNERS[learner]().fit(self.X, self.Y, 0, self.fold_n)
        return self.known[learner]


def together(*learners: str) -> Callable[[Rows], np.ndarray]:
    """Base learners stacked with weights that all labels share."""

    def logits(rows: Rows) -> np.ndarray:
        return stacked([rows.base_logits(learner) for learner in learners], rows.Y)

    return logits


def stacked(base_logits: list[np.ndarray], Y: np.ndarray) -> np.ndarray:
    """Logits (n, L) of several base learners as one; each is centred per label, as in `Stack`."""
    G_nLK = np.stack([logits - logits.mean(axis=0) for logits in base_logits], axis=-1)
    return stacking(G_nLK, Y)(G_nLK)


def stacking(G_nLK: np.ndarray, Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from centred base logits (n, L, K) to logits (n, L), with the weights that a network starts from."""
    return fit_shared(G_nLK.astype(np.float32), Y).stacked


def changed_learner(learner: str, module: Any, **changes: Any) -> Callable[[Rows], np.ndarray]:
    """A base learner with other constants than the package's, stacked with the others as they are."""

    def logits(rows: Rows) -> np.ndarray:
        with changed(module, **changes):
            own = LEARNERS[learner]().fit(rows.X, rows.Y, 0, rows.fold_n)
        return stacked([own, *(rows.base_logits(name) for name in ("linear", "knn") if name != learner)], rows.Y)

    return logits


@contextmanager
def changed(module: Any, **changes: Any) -> Iterator[None]:
    """A module with other constants."""
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def changed_features(module: Any, **changes: Any) -> Callable[[Rows], np.ndarray]:
    """The linear and the kNN learner on features that the encoder makes with other constants."""

    def logits(rows: Rows) -> np.ndarray:
        with changed(module, **changes):
            X = rows.features()
        return stacked([LEARNERS[name]().fit(X, rows.Y, 0, rows.fold_n) for name in ("linear", "knn")], rows.Y)

    return logits


def with_hidden_layer(*learners: str) -> Callable[[Rows], np.ndarray]:
    """Base learners beside a network with one hidden layer that all labels share."""

    def logits(rows: Rows) -> np.ndarray:
        fold_n = fold_numbers(len(rows.Y), FOLDS, 0) if rows.fold_n is None else rows.fold_n
        own = trial_features.hidden_layer(rows.X, rows.Y, fold_n)
        return stacked([own, *(rows.base_logits(name) for name in learners)], rows.Y)

    return logits


def with_columns(rows: Rows, more: Features) -> np.ndarray:
    """The linear and the kNN learner on more columns than the encoder's."""
    joined = sparse.hstack([rows.X, more]).tocsr() if sparse.issparse(more) else np.hstack([rows.X, more])
    X = joined.astype(np.float32)
    return stacked([LEARNERS[name]().fit(X, rows.Y, 0, rows.fold_n) for name in ("linear", "knn")], rows.Y)


def with_fingerprints(rows: Rows) -> np.ndarray:
    """Molecules also by four more fingerprints."""
    return with_columns(rows, trial_features.more_fingerprints(list(rows.train.rows)) / 2)


def with_molecule_features(features: Callable[[Sequence[str]], np.ndarray]) -> Callable[[Rows], np.ndarray]:
    """Molecules also by other features, as heavy as the encoder's own."""
    return lambda rows: with_columns(rows, features(list(rows.train.rows)))


def with_encoder(tokens: int) -> Callable[[Rows], np.ndarray]:
    """Texts also by a pretrained encoder that reads so many of their first tokens."""

    def logits(rows: Rows) -> np.ndarray:
        X = trial_features.pooled_states(list(rows.train.rows), tokens)
        names = ("pretrained_linear", "pretrained_knn")
        own = [LEARNERS[name]().fit(X, rows.Y, 0, rows.fold_n) for name in names]
        return stacked([*own, *(rows.base_logits(name) for name in ("linear", "knn"))], rows.Y)

    return logits


def with_kmers(patterns: Sequence[Sequence[int]]) -> Callable[[Rows], np.ndarray]:
    """DNA also by other k-mers, together as heavy as the encoder's own."""

    def logits(rows: Rows) -> np.ndarray:
        bases = np.asarray(rows.train.rows)
        counted = [trial_features.spaced_kmers(bases, list(offsets)) for offsets in patterns]
        return with_columns(rows, sparse.hstack(counted).tocsr() / len(patterns) ** 0.5)

    return logits


def with_gaps(gaps: str) -> Callable[[Rows], np.ndarray]:
    """DNA as the encoder reads it with words around these gaps."""

    def logits(rows: Rows) -> np.ndarray:
        X = rows.features(gaps)
        return stacked([LEARNERS[name]().fit(X, rows.Y, 0, rows.fold_n) for name in ("linear", "knn")], rows.Y)

    return logits


def ridge(rank: int | None = None) -> Callable[[Rows], np.ndarray]:
    """Ridge regression of all labels from the features in closed form, stacked with the others.

    rank  the labels are predicted as so many sums of labels, the principal directions of what is predicted of them
    """

    def logits(rows: Rows) -> np.ndarray:
        fold_n = fold_numbers(len(rows.Y), FOLDS, 0) if rows.fold_n is None else rows.fold_n
        own = trial_features.ridge(rows.X, rows.Y, fold_n, rank)
        return stacked([own, *(rows.base_logits(name) for name in ("linear", "knn", "forest"))], rows.Y)

    return logits


def neighbours_of_plain_sets(rows: Rows) -> np.ndarray:
    """Neighbours also by how many words two sets share, whatever the words weigh."""
    X = sparse.csr_matrix(rows.X, copy=True)
    X.data[:] = 1.0
    own = LEARNERS["knn"]().fit(X, rows.Y, 0, rows.fold_n)
    return stacked([own, *(rows.base_logits(name) for name in ("linear", "knn", "forest"))], rows.Y)


ALONE: dict[str, Callable[[Rows], np.ndarray]] = {
    "linear alone": together("linear"),
    "kNN alone": together("knn"),
    "linear and kNN": together("linear", "knn"),
}
FOREST: dict[str, Callable[[Rows], np.ndarray]] = {
    "forest alone": together("forest"),
    "linear, kNN and forest": together("linear", "knn", "forest"),
    "half as many neighbours": changed_learner("knn", knn, NEIGHBOURS=30),
    "twice as many neighbours": changed_learner("knn", knn, NEIGHBOURS=120),
    "linear, kNN, forest and a hidden layer": with_hidden_layer("linear", "knn", "forest"),
}
KERNEL: dict[str, Callable[[Rows], np.ndarray]] = {
    "kernel regression alone": together("kernel"),
    "linear, kNN, forest and kernel regression": together("linear", "knn", "forest", "kernel"),
}
WORDS: dict[str, Callable[[Rows], np.ndarray]] = {
    "linear, kNN, forest and ridge regression": ridge(),
    "linear, kNN, forest and ridge regression of rank 50": ridge(50),
    "linear, kNN, forest and kNN of unweighted words": neighbours_of_plain_sets,
}
#: the one trial whose per-label thresholds may give a row without a label the most probable one; in all others, most of
#: which are older than this rule, they may not
AT_LEAST_ONE = "linear and kNN, at least one label beside per-label thresholds"
BOOSTED: dict[str, Callable[[Rows], np.ndarray]] = {
    "boosted trees alone": together("boosted"),
    "linear, kNN, forest and boosted trees": together("linear", "knn", "forest", "boosted"),
}
MOLECULES: dict[str, Callable[[Rows], np.ndarray]] = {
    "linear and kNN, with path fingerprints": with_molecule_features(trial_features.path_fingerprints),
    "linear and kNN, with atoms summed along directed bonds": with_molecule_features(trial_features.walked_atoms),
}
TRIALS: dict[str, dict[str, Callable[[Rows], np.ndarray]]] = {
    "reuters21578": ALONE
    | {
        "without the opening of the text": changed_features(text_weights, OPENING_WORDS=0),
        "an opening of 16 words": changed_features(text_weights, OPENING_WORDS=16),
        "an opening of 64 words": changed_features(text_weights, OPENING_WORDS=64),
        "word pairs instead of the opening": changed_features(text_weights, SHORT_TEXT=10**9),
        "twice as many neighbours": changed_learner("knn", knn, NEIGHBOURS=120),
        "linear and kNN, with an encoder that reads 256 tokens": with_encoder(256),
        "linear and kNN, with an encoder that reads 512 tokens": with_encoder(512),
    },
    "delicious": ALONE
    | FOREST
    | WORDS
    | {
        "linear, kNN and a forest with few features per split": changed_learner(
            "forest", forest, FEATURES_PER_SPLIT=22
        ),
        "linear, kNN and a forest of 300 trees": changed_learner("forest", forest, TREES_FOR_MANY_ROWS=300),
    },
    "sider": ALONE
    | FOREST
    | BOOSTED
    | KERNEL
    | {
        "a forest with larger leaves": changed_learner("forest", forest, MIN_ROWS_PER_LEAF=8),
        "linear and kNN, with four more fingerprints": with_fingerprints,
    }
    | MOLECULES,
    "bibtex": ALONE | FOREST | WORDS | KERNEL,
    "mediamill": ALONE | FOREST | BOOSTED | KERNEL,
    "scene": ALONE
    | FOREST
    | BOOSTED
    | KERNEL
    | {
        "linear, kNN, forest, boosted trees and kernel regression": together(
            "linear", "knn", "forest", "boosted", "kernel"
        )
    },
    "emotions": ALONE | FOREST | BOOSTED | KERNEL,
    "corel5k": ALONE | FOREST | BOOSTED | WORDS | KERNEL,
    "tox21": ALONE | FOREST | BOOSTED | KERNEL | MOLECULES,
    "goemotions": ALONE | {"linear, kNN and a hidden layer": with_hidden_layer("linear", "knn")},
    "yeast_chipexo": ALONE
    | {
        "linear and kNN, with 3+3-mers around gaps of 1 to 12": with_kmers(
            [[0, 1, 2, 3 + gap, 4 + gap, 5 + gap] for gap in range(1, 13)]
        ),
        "linear and kNN, with input.gaps=3": with_gaps("3"),
        "linear and kNN, with input.gaps=3,9": with_gaps("3,9"),
        "linear and kNN, with 5-, 7- and 8-mers": with_kmers([range(5), range(7), range(8)]),
    },
}


def scores_of(Y: np.ndarray, proba: np.ndarray, seed: int = 99) -> dict[str, float]:
    """Scores under decision rules chosen on the other half of the rows."""
    half = fold_numbers(len(Y), 2, seed, serially_correlated=serially_correlated_rows(Y))
    both = []
    for side in (0, 1):
        rules = choose_decisions(Y[half == side], proba[half == side]).best
        both.append([METRICS[m](Y[half != side], rules[m].apply(proba[half != side])) for m in SCORES])
    return {metric: round(float(value), 6) for metric, value in zip(SCORES, np.mean(both, axis=0), strict=True)}


def run(name: str, only: Sequence[str] = ()) -> None:
    path = FOLDER / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"dataset": name, "trials": {}}
    trials = TRIALS[name] | {AT_LEAST_ONE: together("linear", "knn")}
    missing = [trial for trial in only or trials if trial in trials and trial not in found["trials"]]
    if not missing:
        return
    rows = Rows(name)
    for trial in missing:
        began = time.process_time()
        with changed(choose_rules, _LEAST_LABELS=(0, 1) if trial == AT_LEAST_ONE else (0,)):
            scores = scores_of(rows.Y, expit(trials[trial](rows)))
        minutes = round((time.process_time() - began) / 60, 2)
        found["trials"][trial] = {"scores": scores, "processor_minutes": minutes}
        found["rows"] = len(rows.Y)
        write_json(path, found)
        print(name, trial, scores, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="*", help=f"any of {', '.join(TRIALS)}")
    parser.add_argument("--data-root")
    parser.add_argument("--only", action="append", default=[], help="a trial by its name; may be given several times")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    for name in given.dataset or TRIALS:
        run(name, given.only)


if __name__ == "__main__":
    main()
