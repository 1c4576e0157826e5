"""Calibration, promises, evaluation, groups, times and a hierarchy on the publishers' files."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.data.arrangement import times_of
from lampnet.data.splits import Splits
from lampnet.readers.sources import Source

Load = Callable[[str], Splits]


@pytest.fixture(scope="module")
def scene(splits: Load) -> tuple[LaMPClassifier, np.ndarray, np.ndarray]:
    """A model of Scene, and its test rows."""
    parts = splits("scene")
    assert parts.test is not None
    (X, Y), (X_test, Y_test) = (
        (np.asarray(getattr(part.rows, "values", part.rows), dtype=np.float64), part.indicator().astype(np.float64))
        for part in (parts.train, parts.test)
    )
    return LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1).fit(X, Y), X_test, Y_test


def test_probabilities_and_scores_of_new_rows(scene) -> None:
    model, X, Y = scene
    found = model.evaluate(X, Y)
    assert found["calibration"]["ece_above_.01"] < 0.03
    assert found["calibration"]["brier"] < 0.1
    for metric, score in found["best"].items():
        low, high = found["intervals"]["best"][metric]
        assert low < score < high
        assert high - low < 0.06
    assert [one["support"] for one in found["by_label"]] == Y.sum(axis=0).tolist()
    assert min(one["auc"] for one in found["by_label"]) > 0.8
    assert found["confused_pairs"]


@pytest.mark.parametrize(
    ("promise", "part", "least"), [("recall>=0.9", "recall", 0.88), ("precision>=0.7", "precision", 0.68)]
)
def test_a_promise_is_about_kept_on_new_rows(scene, promise: str, part: str, least: float) -> None:
    model, X, Y = scene
    try:
        found = model.set_params(decision=promise).evaluate(X, Y)
    finally:
        model.set_params(decision=None)
    assert found["promise"][part] > least, found["promise"]


def test_no_topic_of_reuters_comes_without_its_parents(splits: Load) -> None:
    parts = splits("reuters21578")
    assert parts.test is not None
    train, test = parts.train.take(np.arange(0, len(parts.train), 5)), parts.test.take(np.arange(0, len(parts.test), 5))
    sets = [[train.label_names[j] for j in np.flatnonzero(row)] for row in train.indicator()]
    below = {"wheat": "grain", "corn": "grain", "soybean": "oilseed"}
    model = LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1, label_hierarchy=below)
    model.fit(train.rows, sets)
    proba, names = model.predict_proba(test.rows), model.classes_.tolist()
    for asked in ({}, {"top_k": 2}, {"threshold": 0.05}):
        given = model.predict_labels(test.rows, **asked)
        assert any("wheat" in labels for labels in given)
        assert all(below[label] in labels for labels in given for label in labels if label in below)
    for child, parent in below.items():
        assert (proba[:, names.index(child)] <= proba[:, names.index(parent)] + 1e-6).all()


def test_stories_of_reuters_are_split_by_their_dates(folder: Callable[[str], Path], tmp_path: Path) -> None:
    """What is held out is later than the rest, however the rows of the file are ordered, and is harder to predict."""
    stories = list(chain(*(dated_stories(folder("reuters21578") / f"reut2-{part:03}.sgm") for part in (0, 8, 16))))
    order = np.random.default_rng(0).permutation(len(stories))
    with (tmp_path / "news.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sent", "story", "topics"])
        writer.writerows([stories[row][0].isoformat(), stories[row][1], ";".join(stories[row][2])] for row in order)
    columns = {"time": "sent", "text": "story", "labels": "topics"}
    parts = Source(data=str(tmp_path / "news.csv"), columns=columns).splits().with_test(0.25, 0)
    assert parts.test is not None
    assert parts.train.times is not None
    assert parts.test.times is not None
    train, test = times_of(parts.train.times), times_of(parts.test.times)
    assert len(train) + len(test) == len(stories) > 1000
    assert train.max() <= test.min()
    valid = parts.with_validation(0.2, 0).valid
    assert valid is not None
    assert valid.times is not None
    assert times_of(valid.times).min() >= np.quantile(train, 0.79)

    texts, sets = [stories[row][1] for row in order], [stories[row][2] for row in order]
    model = LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1)
    held_out = [
        model.fit(texts, sets, times=times).model_.metadata["valid_scores"]["example_f1"]
        for times in (None, np.array([stories[row][0] for row in order], dtype="datetime64[s]"))
    ]
    assert 0.6 < held_out[1] < held_out[0]


def dated_stories(path: Path) -> Iterator[tuple[datetime, str, list[str]]]:
    """When each story with topics was sent, its body and its topics."""
    for story in path.read_text(encoding="latin-1").split("<REUTERS ")[1:]:
        date = re.search(r"<DATE>\s*(\d+-[A-Z]{3}-\d{4} \d\d:\d\d:\d\d)", story)
        body = re.search(r"<BODY>(.*?)</BODY>", story, re.DOTALL)
        topics = re.findall(r"<D>(.*?)</D>", story.partition("<TOPICS>")[2].partition("</TOPICS>")[0])
        if date and body and topics:
            yield datetime.strptime(date[1], "%d-%b-%Y %H:%M:%S"), " ".join(body[1].split()), topics


def test_copies_of_a_row_flatter_held_out_scores_unless_they_are_a_group(splits: Load) -> None:
    train = splits("emotions").train
    X = np.asarray(getattr(train.rows, "values", train.rows), dtype=np.float64)[:150]
    twice, Y = np.repeat(X, 2, axis=0), np.repeat(train.indicator()[:150], 2, axis=0)

    def held_out(groups: np.ndarray | None) -> float:
        model = LaMPClassifier(preset="quick", base_learners=["knn"], n_jobs=1).fit(twice, Y, groups=groups)
        return model.model_.metadata["valid_scores"]["example_f1"]

    assert held_out(None) > held_out(np.repeat(np.arange(150), 2)) + 0.1
