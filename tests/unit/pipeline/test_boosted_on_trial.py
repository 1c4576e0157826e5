"""Boosted trees in a whole fit: tried where that is quick, kept where the stack is better, never fitted twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import boosted
from lampnet.base_learners.boosted import BoostedLearner
from lampnet.config import Config
from lampnet.data.dataset import Dataset, Table
from lampnet.data.splits import Splits
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.fit import fit, resolve

QUICK = {"model.network": False, "training.threads": 1, "model.base_learners": "linear,boosted"}


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "ROUNDS", 40)


def data(kind: str = "vector", n: int = 300, columns: int = 3) -> Dataset:
    """Of "lines" a linear model knows all; "vector" and "columns" have labels that no line divides."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, columns))
    noisy = X[:, :2] + random.normal(size=(n, 2)) > 0
    Y = noisy if kind == "lines" else np.column_stack([(X[:, 0] > 0) ^ (X[:, 1] > 0), X[:, 2] > 0])
    labels = sparse.csr_matrix(Y, dtype=np.float32)
    rows = Table(values=X, names=tuple("abcdefgh"[:columns])) if kind == "columns" else X.astype(np.float32)
    kind = "columns" if kind == "columns" else "vector"
    return Dataset(name="made", kind=kind, rows=rows, labels=labels, label_names=("l0", "l1"))


@pytest.mark.parametrize(("kind", "kept"), [("vector", True), ("columns", True), ("lines", False)])
@pytest.mark.parametrize("folds", [1, 5])
def test_they_stay_only_where_the_stack_is_better_with_them(kind: str, kept: bool, folds: int, tmp_path: Path) -> None:
    logged: list[str] = []
    config = Config.preset("quick").updated(QUICK | {"training.folds": folds})
    model = fit(Splits(train=data(kind)), config, run=FitRun(log=logged.append))
    assert model.stack is not None
    assert model.stack.names == model.config.model.base_learners == (("linear", "boosted") if kept else ("linear",))
    [said] = [line for line in logged if line.startswith("boosted: ")]
    assert said.startswith("boosted: kept (out-of-fold log-loss" if kept else "boosted: left out (out-of-fold log-loss")
    rows = data(kind).rows
    again = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.proba(rows), model.proba(rows))


def test_alone_they_are_not_on_trial() -> None:
    model = fit(Splits(train=data("lines")), Config.preset("quick").updated(QUICK | {"model.base_learners": "boosted"}))
    assert model.stack is not None
    assert model.stack.names == ("boosted",)


def test_a_resumed_fit_does_not_boost_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.preset("quick").updated(QUICK)
    splits, rows = Splits(train=data()), data().rows
    expected = fit(splits, config, run=FitRun(folder=tmp_path / "first")).proba(rows)
    with monkeypatch.context() as patch:
        patch.setattr("lampnet.pipeline.plan.on_trial", _killed)
        with pytest.raises(KeyboardInterrupt):
            fit(splits, config, run=FitRun(folder=tmp_path / "second"))
    monkeypatch.setattr(BoostedLearner, "fit", _fitted_again)
    again = fit(splits, config, run=FitRun(folder=tmp_path / "second", resume=True))
    np.testing.assert_array_equal(again.proba(rows), expected)


def _fitted_again(*args: object, **kwargs: object) -> None:
    raise AssertionError("boosted trees are fitted again")


def _killed(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("preset", "kind", "n", "columns", "tried"),
    [
        ("fast", "vector", 300, 3, True),
        ("fast", "columns", 300, 3, True),
        ("fast", "vector", 199, 3, False),
        ("fast", "vector", 5_001, 3, False),
        ("fast", "vector", 2_000, 499, False),
        ("fast", "vector", 2_000, 498, True),
        ("quick", "vector", 300, 3, False),
    ],
)
def test_where_they_are_tried(preset: str, kind: str, n: int, columns: int, tried: bool) -> None:
    _, config = resolve(Splits(train=data(kind, n, columns)), Config.preset(preset))
    assert ("boosted" in config.model.base_learners) == tried


def test_wide_sparse_rows_are_left_alone() -> None:
    X = sparse.random(300, 50, 0.1, format="csr", random_state=0, dtype=np.float32)
    labels = sparse.csr_matrix(np.eye(300, 2, dtype=np.float32) + np.eye(300, 2, k=-9, dtype=np.float32))
    words = Dataset(name="words", kind="wordset", rows=X, labels=labels, label_names=("a", "b"))
    _, config = resolve(Splits(train=words), Config.preset("fast"))
    assert config.model.base_learners == ("linear", "knn", "forest")
