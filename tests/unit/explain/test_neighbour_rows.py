"""Neighbours are named by their numbers in what the user gave, whatever was taken out, put in order or sampled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.base_learners import knn
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ModelFolderError
from lampnet.explain.explain_rows import explain
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline import prepare
from lampnet.pipeline.continuing import Start
from lampnet.pipeline.fit import fit
from lampnet.pipeline.mapped_rows import open_prepared

CONFIG = Config.preset("quick").updated({"model.base_learners": ["linear", "knn"], "known.method": "none"})
N = 300


def rows_of(first: int = 0, n: int = N) -> Dataset:
    """Rows each of which has a word of its own, so that a training row's nearest neighbour is itself."""
    random = np.random.default_rng(first)
    X = sparse.hstack([sparse.csr_matrix(random.random((n, 3))), 5 * sparse.identity(n)]).tocsr()
    Y = sparse.csr_matrix(np.column_stack([X[:, 0].toarray() > 0.5, X[:, 1].toarray() > 0.5]), dtype=np.float32)
    return Dataset(name="x", kind="wordset", rows=X.astype(np.float32), labels=Y, label_names=("a", "b"))


def nearest(model: FittedModel, data: Dataset, rows: Iterable[int]) -> list[str]:
    """What each row's most similar neighbour is called; '' where none is the row itself."""
    found = []
    for one in explain(model, data, list(rows)):
        [learner] = [part for part in one.logit_sums[0].contributions if part.source == "knn"]
        term = max(learner.terms, key=lambda term: term.similarity or 0.0)
        found.append(term.name if (term.similarity or 0.0) > 0.999 else "")
    return found


def named(rows: Iterable[int], origin: str = "training row {}") -> list[str]:
    return [origin.format(row) for row in rows]


def test_rows_that_are_sampled_left_out_and_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "REFERENCE_ROWS", 100)
    data = rows_of()
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    splits = Splits.in_time(replace(data, weights=tuple(weights)), np.arange(N)[::-1])
    called = nearest(fit(splits, CONFIG), data, range(N))
    kept = [row for row in range(N) if called[row]]
    assert len(kept) == 100
    assert [called[row] for row in kept] == named(kept)
    assert all(row % 3 for row in kept)


def test_sampled_validation_rows_have_the_numbers_of_the_file() -> None:
    data = rows_of()
    for folds in (1, 3):  # fitted again with the validation rows; merged back
        model = fit(Splits(train=data).with_validation(0.2, 0), CONFIG.updated({"training.folds": folds}))
        assert nearest(model, data, range(0, N, 7)) == named(range(0, N, 7))


def test_validation_rows_that_came_apart_are_called_so() -> None:
    train, valid = rows_of().take(np.arange(200)), rows_of().take(np.arange(200, N))
    model = fit(Splits(train=replace(train, numbers=None), valid=replace(valid, numbers=None)), CONFIG)
    assert nearest(model, train, [0, 7, 199]) == named([0, 7, 199])
    assert nearest(model, valid, [0, 7, 99]) == named([0, 7, 99], "validation row {}")


def test_rows_of_an_earlier_training_are_called_so(tmp_path: Path) -> None:
    old, new = rows_of().take(np.arange(200)), rows_of().take(np.arange(200, N))
    first = fit(Splits(train=old), CONFIG)
    save_model(first, tmp_path / "m")
    kept = load_model(tmp_path / "m")
    assert nearest(kept, old, [3, 150]) == named([3, 150])
    model = fit(Splits(train=replace(new, numbers=None)), CONFIG, start=Start(kept))
    assert nearest(model, new, [0, 50]) == named([0, 50])
    assert nearest(model, old, [3, 150]) == named([3, 150], "row {} of an earlier training")
    assert nearest(kept, old, [3, 150]) == named([3, 150])


def test_prepared_rows_that_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "ROWS_IN_MEMORY", 10)
    data = rows_of()
    prepare.prepare(prepare.WholeInChunks(data, 64), tmp_path / "p", CONFIG)
    model = fit(open_prepared(tmp_path / "p"), CONFIG)
    called = nearest(model, data, range(N))
    kept = [row for row in range(N) if called[row]]
    assert len(kept) > 200
    assert [called[row] for row in kept] == named(kept)


def test_arrays_of_the_estimator() -> None:
    data = rows_of()
    weight = np.where(np.arange(N) < 50, 0.0, 1.0)
    model = LaMPClassifier(preset="quick").fit(data.rows, data.labels.toarray().astype(int), sample_weight=weight)
    [one] = model.explain(data.rows[[250]])
    [learner] = [part for part in one.logit_sums[0].contributions if part.source == "knn"]
    assert learner.terms[0].name == "training row 250"


@pytest.mark.parametrize("origins", [np.zeros((N, 2)), np.full((N, 2), 3), np.full((N, 2), -1), np.zeros((9, 2), int)])
def test_damaged_numbers_are_refused(origins: np.ndarray, tmp_path: Path) -> None:
    model = fit(Splits(train=rows_of()), CONFIG)
    assert model.stack is not None
    learner = model.stack.learners[1]
    assert isinstance(learner, knn.KNNLearner)
    learner.origins_n2 = origins
    save_model(model, tmp_path / "m")
    with pytest.raises(ModelFolderError, match="origins"):
        load_model(tmp_path / "m")
