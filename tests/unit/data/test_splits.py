"""Parts that judge each other: at random, or in the rows' order where neighbours are near copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score

from lampnet.base_learners.stack import LEARNERS
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import FEWEST_ROWS, Splits, fold_numbers, parts_of, random_split, serially_correlated_rows
from lampnet.errors import DataError
from lampnet.experiments import protocol
from lampnet.experiments.material import Material
from lampnet.experiments.protocol import run
from lampnet.pipeline.fit import FitRun, fit, resolve


@given(n=st.integers(1, 60), folds=st.integers(1, 9), seed=st.integers(0, 99), serially_correlated=st.booleans())
def test_parts_share_the_rows_evenly(n: int, folds: int, seed: int, serially_correlated: bool) -> None:
    fold_n = fold_numbers(n, folds, seed, serially_correlated)
    sizes = np.bincount(fold_n, minlength=min(folds, n))
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1
    assert not serially_correlated or (np.diff(fold_n) >= 0).all()
    parts = parts_of(fold_n)
    assert sorted(np.concatenate([own for _, own in parts])) == list(range(n))
    assert all(sorted([*rest, *own]) == list(range(n)) for rest, own in parts)


def topics(days: int, rows_a_day: int, labels: int = 6) -> np.ndarray:
    """Rows that have the topic of their day, and another one at random."""
    random = np.random.default_rng(0)
    Y = np.eye(labels, dtype=np.float32)[np.repeat(random.integers(labels, size=days), rows_a_day)]
    Y[np.arange(len(Y)), random.integers(labels, size=len(Y))] = 1
    return Y


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.02, 0.6), labels=st.integers(1, 12))
def test_shuffled_rows_are_in_no_order(seed: int, share: float, labels: int) -> None:
    Y = (np.random.default_rng(seed).random((FEWEST_ROWS, labels)) < share).astype(np.float32)
    assert not serially_correlated_rows(Y)


def test_only_rows_that_resemble_their_neighbours_and_are_not_sorted_are_serially_correlated() -> None:
    Y = topics(days=100, rows_a_day=6)
    assert serially_correlated_rows(Y)
    assert not serially_correlated_rows(Y[np.random.default_rng(1).permutation(len(Y))])
    assert not serially_correlated_rows(Y[np.argsort(Y.argmax(axis=1), kind="stable")])  # sorted by a label
    assert not serially_correlated_rows(Y[: FEWEST_ROWS - 1])
    unknown = Y.copy()
    unknown[::7] = np.nan
    assert serially_correlated_rows(unknown)
    assert not serially_correlated_rows(np.full_like(Y, np.nan))


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "label_names"])  # learns from no row
def test_rows_of_one_fold_do_not_influence_each_other(name: str) -> None:
    """Every row has a copy with its label, which nothing else tells: only who sees the copy can know it."""
    random = np.random.default_rng(0)
    X = np.repeat(random.random((150, 30)) * (random.random((150, 30)) < 0.3), 2, axis=0).astype(np.float32)
    Y = np.repeat(random.random((150, 1)) < 0.4, 2, axis=0).astype(np.float32)
    fold_n = np.repeat(fold_numbers(150, 8, 0, serially_correlated=True), 2)
    apart = roc_auc_score(Y, LEARNERS[name]().fit(X, Y, 0, fold_n))
    together = roc_auc_score(Y, LEARNERS[name]().fit(X, Y, 0))
    assert apart < 0.65 < together


def news(words: np.ndarray, Y: np.ndarray) -> Dataset:
    rows, labels = sparse.csr_matrix(words), sparse.csr_matrix(Y)
    return Dataset(name="news", kind="wordset", rows=rows, labels=labels, label_names=tuple("abcdef"))


def test_an_ensemble_gets_blocked_folds_and_logs_it() -> None:
    Y = topics(days=80, rows_a_day=5)
    data, said = news(np.hstack([Y, np.ones_like(Y[:, :1])]), Y), list[str]()
    tiny = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": 3}
    model = fit(Splits(train=data), Config.preset("fast").updated(tiny), run=FitRun(log=said.append))
    assert any("folds are blocks" in sentence for sentence in said)
    # The parts, one after the other, are the rows as they came.
    np.testing.assert_array_equal(model.valid_truth, data.indicator())
    shuffled = data.take(np.random.default_rng(0).permutation(len(data)))
    said.clear()
    model = fit(Splits(train=shuffled), Config.preset("fast").updated(tiny), run=FitRun(log=said.append))
    assert not any("folds are blocks" in sentence for sentence in said)
    assert not np.array_equal(model.valid_truth, shuffled.indicator())


def test_a_single_network_is_validated_on_the_last_of_serially_correlated_rows() -> None:
    Y = topics(days=80, rows_a_day=5)
    data = news(np.hstack([Y, np.ones_like(Y[:, :1])]), Y)
    tiny = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.keep_network": "always"}
    assert Config.preset("fast").training.folds == 0  # it is what happens by default
    model = fit(Splits(train=data), Config.preset("fast").updated(tiny), validation_fraction=0.2)
    np.testing.assert_array_equal(model.valid_truth, data.indicator()[320:])
    assert len(model.network.networks) == 1
    shuffled = data.take(np.random.default_rng(0).permutation(len(data)))
    model = fit(Splits(train=shuffled), Config.preset("fast").updated(tiny), validation_fraction=0.2)
    assert len(model.network.networks) == 5
    alone = Config.preset("fast").updated({**tiny, "training.folds": 1})
    model = fit(Splits(train=shuffled), alone, validation_fraction=0.2)
    assert not np.array_equal(model.valid_truth, shuffled.indicator()[320:])


def test_an_experiment_splits_serially_correlated_rows_in_blocks() -> None:
    """The last tenth is what all methods are tested on, and what is before it they are tuned on."""
    Y = topics(days=80, rows_a_day=5)
    data = news(np.hstack([Y, np.ones_like(Y[:, :1])]), Y)
    truth = Material("news", Splits(train=data)).truth
    assert [len(truth[part]) for part in ("train", "valid", "test")] == [324, 36, 40]
    np.testing.assert_array_equal(np.concatenate([truth[p] for p in ("train", "valid", "test")]), data.indicator())
    shuffled = data.take(np.random.default_rng(0).permutation(len(data)))
    truth = Material("news", Splits(train=shuffled)).truth
    assert not np.array_equal(truth["test"], shuffled.indicator()[360:])


def test_validation_rows_of_serially_correlated_rows_are_not_merged_back() -> None:
    Y = topics(days=80, rows_a_day=5)
    data = news(np.hstack([Y, np.ones_like(Y[:, :1])]), Y)
    for rows, networks in ((data, 1), (data.take(np.random.default_rng(0).permutation(len(data))), 5)):
        splits, config = resolve(random_split(rows, valid=40, test=40, seed=0), Config.preset("fast"))
        assert config.training.folds == networks
        assert (splits.valid is None) == (networks > 1)


def test_baselines_are_scored_on_the_last_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Y = topics(days=80, rows_a_day=5)
    data = news(np.hstack([Y, np.ones_like(Y[:, :1])]), Y)
    shuffled = data.take(np.random.default_rng(0).permutation(len(data)))
    scored: list[np.ndarray] = []
    score = protocol.score

    def watched(test_truth: np.ndarray, done: protocol.Run, seed: int) -> dict[str, Any]:
        scored.append(done.valid_truth)
        return score(test_truth, done, seed)

    monkeypatch.setattr(protocol, "score", watched)
    for rows in (data, shuffled):
        run("mlknn", Material("news", Splits(train=rows)), settings={"mlknn.k": 5})
    np.testing.assert_array_equal(scored[0], data.indicator()[324:360])
    assert len(scored[1]) == 360  # all labelled rows, cross-fitted


def test_random_split_is_a_partition() -> None:
    data = Dataset(name="d", kind="text", rows=[str(i) for i in range(50)], labels=None, label_names=())
    parts = random_split(data, valid=0.1, test=0.1, seed=3)
    assert parts.valid is not None
    assert parts.test is not None
    assert sorted(parts.train.rows + parts.valid.rows + parts.test.rows, key=int) == data.rows
    assert (len(parts.valid), len(parts.test)) == (5, 5)
    with pytest.raises(DataError, match="too few"):
        random_split(data, valid=25, test=25, seed=0)
