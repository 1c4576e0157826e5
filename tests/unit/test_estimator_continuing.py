"""`LaMPClassifier.fit(..., start=model)` and `partial_fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lampnet import LaMPClassifier
from lampnet.errors import DataError, LampnetError


def rows(n: int, seed: int, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    return X, (X[:, :n_labels] + 0.5 * random.normal(size=(n, n_labels)) > 0.3).astype(float)


def sets(Y: np.ndarray, names: str) -> list[list[str]]:
    return [[name for name, there in zip(names, row, strict=False) if there] for row in Y]


def quick(**changes: Any) -> LaMPClassifier:
    return LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear", "knn"], **changes)


def networked(**changes: Any) -> LaMPClassifier:
    settings = {"training.folds": 2, "training.warmup_steps": 2, "training.keep_network": "always"} | changes
    return LaMPClassifier(width=8, epochs=2, n_jobs=1, base_learners=["linear"], settings=settings)


@pytest.mark.parametrize("make", [quick, networked])
def test_more_rows_make_a_better_model_and_leave_the_start_as_it_was(make: Any, tmp_path: Path) -> None:
    old, new, test = rows(30, 0), rows(150, 1), rows(300, 2)
    start = make().fit(*old)
    before = start.predict_proba(test[0])
    model = make().fit(*new, start=start)
    assert np.array_equal(start.predict_proba(test[0]), before)
    assert model.score(*test) > start.score(*test)
    assert model.score(*test) > make().fit(np.vstack([old[0], new[0]]), np.vstack([old[1], new[1]])).score(*test) - 0.06
    assert model.model_.metadata["continued"]["rows"]["train"] == 30
    # From a folder, the same.
    again = make().fit(*new, start=start.save(tmp_path / "m"))
    assert np.allclose(again.predict_proba(test[0]), model.predict_proba(test[0]), atol=1e-5)
    loaded = LaMPClassifier.load(model.save(tmp_path / "n"))
    assert np.allclose(loaded.predict_proba(test[0]), model.predict_proba(test[0]), atol=1e-5)


@pytest.mark.parametrize("make", [quick, networked])
def test_new_labels_are_new_nodes(make: Any) -> None:
    (X, Y), (new, labels), test = rows(80, 0, 2), rows(150, 1, 3), rows(200, 2, 3)
    start = make().fit(X, sets(Y, "ab"))
    model = make().fit(new, sets(labels, "abz"), start=start)
    assert model.classes_.tolist() == ["a", "b", "z"]
    proba = model.predict_proba(test[0])
    assert proba.shape == (200, 3)
    true = test[1][:, 2] > 0
    assert proba[true, 2].mean() > proba[~true, 2].mean() + 0.2


def test_a_network_goes_on_from_its_weights() -> None:
    start = networked().fit(*rows(60, 0, 2))
    model = networked(**{"training.learning_rate": 0.0, "training.average": 0.0}).fit(*rows(60, 1, 3), start=start)
    assert start.model_.network is not None
    assert model.model_.network is not None
    for old, new in zip(start.model_.network.networks, model.model_.network.networks, strict=True):
        assert new.W_y.shape[0] == 3
        assert np.array_equal(new.W_y[:2].detach().numpy(), old.W_y.detach().numpy())
        assert np.array_equal(new.xy[0].W_q.weight.detach().numpy(), old.xy[0].W_q.weight.detach().numpy())


def test_few_rows_leave_the_cutoffs_as_they_were() -> None:
    start = quick().fit(*rows(200, 0))
    model = quick().fit(*rows(20, 1), start=start)
    assert model.model_.decisions == start.model_.decisions
    assert quick().fit(*rows(150, 1), start=start).model_.decisions != start.model_.decisions


def test_columns_that_new_rows_lack_are_unknown_and_sets_that_lack_a_label_say_that_it_is_false() -> None:
    X, Y = rows(100, 0)
    frame = pd.DataFrame(Y, columns=["a", "b", "c"])
    start = quick().fit(X, frame)
    test = rows(200, 2)[0]
    before = start.predict_proba(test)[:, 2]
    columns = quick().fit(X, frame[["a", "b"]], start=start).predict_proba(test)[:, 2]
    listed = quick().fit(X, sets(Y, "ab"), start=start)
    assert abs(columns.mean() - before.mean()) < 0.1
    assert listed.predict_proba(test)[:, 2].mean() < 0.7 * before.mean()


def test_partial_fit_in_parts() -> None:
    X, Y = rows(240, 0)
    classes = ["a", "b", "c", "later"]
    listed = sets(Y, "abc")
    model = quick()
    for part in range(3):
        some = slice(80 * part, 80 * part + 80)
        model.partial_fit(X[some], listed[some], classes=classes if part == 0 else None)
        assert model.classes_.tolist() == classes
    test = rows(200, 1)
    first = quick().partial_fit(X[:80], listed[:80], classes=classes)
    truth = sets(test[1], "abc")
    assert model.score(test[0], truth) > first.score(test[0], truth) - 0.02
    with pytest.raises(DataError, match="y has the label 'c', which is not among classes"):
        quick().partial_fit(X[:80], listed[:80], classes=["a", "b"])


def test_one_class_per_row() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 4))
    y = np.array(["x", "y", "z"])[np.argmax(X[:, :3], axis=1)]
    first = y[:60] != "z"
    model = quick().partial_fit(X[:60][first], y[:60][first])
    model.partial_fit(X[60:], y[60:])
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert (model.predict(X[60:]) == y[60:]).mean() > 0.6


@pytest.mark.parametrize(
    ("X", "y", "problem"),
    [
        (np.zeros((4, 6)), ["a", "b", "a", "b"], "y has one class per row, the model was trained on label sets"),
        (np.zeros((4, 6)), np.eye(4)[:, :2], "y has 2 columns without names, the model 3 labels"),
        (np.zeros((4, 5)), np.eye(4)[:, :3], "X has 5 features"),
    ],
)
def test_what_does_not_fit_the_start_is_refused(X: Any, y: Any, problem: str) -> None:
    start = quick().fit(*rows(40, 0))
    with pytest.raises((LampnetError, ValueError), match=problem):
        quick().fit(X, y, start=start)
