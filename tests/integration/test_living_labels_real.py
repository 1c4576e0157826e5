"""Weights, more rows and changed labels on Emotions; names of topics on Reuters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from lampnet import LaMPClassifier
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.pipeline.label_edits import add_label

Load = Callable[[str], Splits]


def arrays(data: Dataset | None) -> tuple[np.ndarray, np.ndarray]:
    assert data is not None
    values = data.rows.values if hasattr(data.rows, "values") else data.rows
    return np.asarray(values, dtype=np.float64), data.indicator().astype(np.float64)


@pytest.fixture(scope="module")
def emotions(splits: Load) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    parts = splits("emotions")
    return arrays(parts.train), arrays(parts.test)


def linear() -> LaMPClassifier:
    return LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1)


def test_labels_that_count_for_little_do_little_harm(emotions) -> None:
    (X, Y), test = emotions
    wrong = np.random.default_rng(0).random(len(X)) < 0.4
    given = np.where(wrong[:, None], 1 - Y, Y)
    plain = linear().fit(X, given).score(*test)
    wary = linear().fit(X, given, sample_weight=np.where(wrong, 0.02, 1.0)).score(*test)
    assert wary > plain + 0.02


def test_more_rows_help_a_model_of_few(emotions) -> None:
    (X, Y), test = emotions
    order = np.random.default_rng(0).permutation(len(X))
    few, more = order[:40], order[40:]
    start = linear().fit(X[few], Y[few])
    continued = linear().fit(X[more], Y[more], start=start)
    assert continued.score(*test) > start.score(*test)
    assert continued.score(*test) > linear().fit(X, Y).score(*test) - 0.03


def test_a_label_is_added_and_the_others_stay(emotions) -> None:
    (X, Y), (X_test, Y_test) = emotions
    model = linear().fit(X, Y[:, :5])
    before = model.predict_proba(X_test)
    order = np.random.default_rng(0).permutation(len(X))
    some = np.concatenate([order[Y[order, 5] == value][:20] for value in (1, 0)])
    after = model.add_label(5, X[some], Y[some, 5], prior=float(Y[:, 5].mean())).predict_proba(X_test)
    assert np.allclose(after[:, :5], before, atol=1e-6)
    true = Y_test[:, 5] > 0
    larger = np.mean(after[true, 5][:, None] > after[~true, 5])
    assert larger > 0.75, larger


def test_a_topic_is_found_by_its_name(splits: Load) -> None:
    parts = splits("reuters21578")
    assert parts.test is not None
    train, test = parts.train.take(np.arange(0, len(parts.train), 5)), parts.test.take(np.arange(0, len(parts.test), 3))
    Y, truth, names = train.indicator(), test.indicator(), ("coffee", "sugar", "ship", "gold")
    often = np.argsort(-Y.sum(axis=0))[:12]
    kept = [label for label in often if train.label_names[label] not in names]
    sets = [[train.label_names[label] for label in kept if row[label]] for row in Y]
    saved = linear().fit(train.rows, sets).model_
    gains = []
    for name in names:
        label = train.label_names.index(name)
        some = np.concatenate([np.flatnonzero(Y[:, label] == value)[:3] for value in (1, 0)])
        encoded, y = saved.encoder.encode([train.rows[row] for row in some]), Y[some, label]
        scores = [
            average_precision_score(truth[:, label], add_label(saved, called, encoded, y).proba(test.rows)[:, -1])
            for called in (name, "x7")
        ]
        gains.append(scores[0] - scores[1])
    assert np.mean(gains) > 0.1, gains
