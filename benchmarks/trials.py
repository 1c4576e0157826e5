"""What was tried to raise the scores, on labelled rows alone: test rows are never opened here.

    python benchmarks/trials.py --data-root DIR [DATASET ...]

Every trial judges all labelled rows out-of-fold. Decisions are chosen on one half of them and scored on the other,
both ways, and the two scores averaged, so a rule that fits its own rows too well gains nothing. Writes
results/trials/DATASET.json; trials that are there are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from lampnet.base_learners import forest as forest_opinion
from lampnet.base_learners import stack as evidence
from lampnet.config import Config
from lampnet.data.splits import fold_numbers, serially_correlated_rows
from lampnet.encoders import make_encoder, text_weights
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.material import open_material
from lampnet.experiments.result_files import write_whole
from lampnet.model.initialise import weigh
from lampnet.readers.sources import Source

FOLDER = Path(__file__).parents[1] / "results" / "trials"
SCORES = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")


class Rows:
    """The labelled rows of a data set: features X (n, F) and labels Y (n, L)."""

    def __init__(self, name: str) -> None:
        train = open_material(Source(data=name, on_bad_row="skip"), 0).labelled.train
        self.name, self.train, self.Y = name, train, train.indicator()
        self.X = self.features()
        serially_correlated = serially_correlated_rows(self.Y)
        self.fold_n = fold_numbers(len(self.Y), evidence.FOLDS, 0, serially_correlated) if serially_correlated else None
        self.known: dict[str, np.ndarray] = {}

    def features(self) -> Any:
        encoder = make_encoder(self.train.kind, Config.preset("fast").input)
        return encoder.fit(self.train.rows, self.train.feature_names).encode(self.train.rows).features

    def opinion(self, which: str) -> np.ndarray:
        if which not in self.known:
            self.known[which] = evidence.LEARNERS[which]().fit(self.X, self.Y, 0, self.fold_n)
        return self.known[which]


def together(*names: str) -> Callable[[Rows], np.ndarray]:
    """Opinions weighed against each other by one logistic regression for all labels."""

    def logits(rows: Rows) -> np.ndarray:
        return weighed([rows.opinion(name) for name in names], rows.Y)

    return logits


def weighed(opinions: list[np.ndarray], Y: np.ndarray) -> np.ndarray:
    """Opinions (n, L) as one, each centred a label, as in `Stack`."""
    G = np.stack([opinion - opinion.mean(axis=0) for opinion in opinions], axis=-1)
    return weighing(G, Y)(G)


def weighing(G: np.ndarray, Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Centred opinions (n, L, K) as one, weighed as a network does before its first step."""
    weight, intercept = (part.numpy() for part in weigh(G.astype(np.float32), Y))
    return lambda G: np.asarray(G @ weight + intercept, dtype=np.float32)


def other(which: str, module: Any, **changes: Any) -> Callable[[Rows], np.ndarray]:
    """An opinion with other numbers than the package's, beside the others as they are."""

    def logits(rows: Rows) -> np.ndarray:
        with changed(module, **changes):
            own = evidence.LEARNERS[which]().fit(rows.X, rows.Y, 0, rows.fold_n)
        return weighed([own, *(rows.opinion(name) for name in ("linear", "knn") if name != which)], rows.Y)

    return logits


@contextmanager
def changed(module: Any, **changes: Any) -> Iterator[None]:
    """A module with other numbers."""
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def features(module: Any, **changes: Any) -> Callable[[Rows], np.ndarray]:
    """The linear and the neighbours' opinion on features that the encoder makes with other numbers."""

    def logits(rows: Rows) -> np.ndarray:
        with changed(module, **changes):
            X = rows.features()
        return weighed([evidence.LEARNERS[name]().fit(X, rows.Y, 0, rows.fold_n) for name in ("linear", "knn")], rows.Y)

    return logits


ALONE: dict[str, Callable[[Rows], np.ndarray]] = {
    "the linear opinion alone": together("linear"),
    "the neighbours' opinion alone": together("knn"),
    "linear and neighbours": together("linear", "knn"),
}
FOREST: dict[str, Callable[[Rows], np.ndarray]] = {
    "the forest's opinion alone": together("forest"),
    "linear, neighbours and forest": together("linear", "knn", "forest"),
    "half as many neighbours": other("knn", evidence, NEIGHBOURS=30),
    "twice as many neighbours": other("knn", evidence, NEIGHBOURS=120),
}
TRIALS: dict[str, dict[str, Callable[[Rows], np.ndarray]]] = {
    "reuters21578": ALONE
    | {
        "without the opening of the text": features(text_weights, OPENING_WORDS=0),
        "an opening of 16 words": features(text_weights, OPENING_WORDS=16),
        "an opening of 64 words": features(text_weights, OPENING_WORDS=64),
        "word pairs instead of the opening": features(text_weights, SHORT_TEXT=10**9),
        "twice as many neighbours": other("knn", evidence, NEIGHBOURS=120),
    },
    "delicious": ALONE
    | FOREST
    | {
        "linear, neighbours and a forest that sees few features a split": other(
            "forest", forest_opinion, FEATURES_PER_SPLIT=22
        ),
        "linear, neighbours and a forest of 300 trees": other("forest", forest_opinion, TREES_FOR_MANY_ROWS=300),
    },
    "sider": ALONE | FOREST | {"a forest with larger leaves": other("forest", forest_opinion, MIN_ROWS_PER_LEAF=8)},
    "bibtex": ALONE | FOREST,
    "mediamill": ALONE | FOREST,
    "scene": ALONE | FOREST,
    "emotions": ALONE | FOREST,
    "corel5k": ALONE | FOREST,
    "tox21": ALONE | FOREST,
}


def judged(Y: np.ndarray, proba: np.ndarray) -> dict[str, float]:
    """Scores under decisions chosen on the other half of the rows."""
    half = fold_numbers(len(Y), 2, 99, serially_correlated=serially_correlated_rows(Y))
    both = []
    for side in (0, 1):
        rules = choose_decisions(Y[half == side], proba[half == side]).best
        both.append([METRICS[m](Y[half != side], rules[m].apply(proba[half != side])) for m in SCORES])
    return {metric: round(float(value), 6) for metric, value in zip(SCORES, np.mean(both, axis=0), strict=True)}


def run(name: str) -> None:
    path = FOLDER / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"dataset": name, "trials": {}}
    missing = [trial for trial in TRIALS[name] if trial not in found["trials"]]
    if not missing:
        return
    rows = Rows(name)
    for trial in missing:
        began = time.process_time()
        scores = judged(rows.Y, expit(TRIALS[name][trial](rows)))
        minutes = round((time.process_time() - began) / 60, 2)
        found["trials"][trial] = {"scores": scores, "processor_minutes": minutes}
        found["rows"] = len(rows.Y)
        write_whole(path, json.dumps(found, indent=1) + "\n")
        print(name, trial, scores, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", nargs="*", help=f"any of {', '.join(TRIALS)}")
    parser.add_argument("--data-root")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    for name in given.dataset or TRIALS:
        run(name)


if __name__ == "__main__":
    main()
