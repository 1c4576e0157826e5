"""Rows that count more than once: a whole weight is the row so many times, a weight of 0 is no row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear
from lampnet.base_learners.stacking_weights import choose_pull, fit_weights
from lampnet.data.weights import Weights, taken

CONVERGED = Stopping(60, 60, 1e-5)


def rows(n: int, seed: int, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 5), labels (n, 3), and whole weights (n,) from 0 to 3, some above 0."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5)).astype(np.float32)
    Y = (X[:, :3] + random.normal(size=(n, 3)) > 0.3).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    times = random.integers(0, 4, n)
    times[0] = 2
    return X, Y, times


def weights(times: np.ndarray, n_labels: int = 3) -> Weights:
    return Weights(times.astype(np.float64), np.ones(n_labels), np.ones(n_labels))


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), unknown=st.sampled_from([0.0, 0.3]))
def test_linear_weights_are_those_of_repeated_rows(loss: Loss, seed: int, unknown: float) -> None:
    X, Y, times = rows(40, seed, unknown)
    counted = fit_linear(Matrix(X), Y, 0.5, loss, None, CONVERGED, row_n=times.astype(np.float64))
    repeated = fit_linear(Matrix(np.repeat(X, times, 0)), np.repeat(Y, times, 0), 0.5, loss, None, CONVERGED)
    some = times > 0
    absent = fit_linear(Matrix(X[some]), Y[some], 0.5, loss, None, CONVERGED, row_n=times[some].astype(np.float64))
    for other in (repeated, absent):
        assert np.allclose(counted[0], other[0], atol=2e-3)
        assert np.allclose(counted[1], other[1], atol=2e-3)


def test_the_whole_linear_learner_is_that_of_repeated_rows() -> None:
    X, Y, times = rows(120, 3)
    times += 1
    fold_n = np.arange(120) % 6
    counted, repeated = LinearLearner(), LinearLearner()
    own = counted.fit(X, Y, 0, fold_n, weights=weights(times))
    theirs = repeated.fit(np.repeat(X, times, 0), np.repeat(Y, times, 0), 0, np.repeat(fold_n, times))
    assert (counted.loss, counted.C) == (repeated.loss, repeated.C)
    assert np.allclose(counted.weights, repeated.weights, atol=1e-3)
    assert np.allclose(np.repeat(own, times, 0), theirs, atol=1e-3)
    assert not np.allclose(own, LinearLearner().fit(X, Y, 0, fold_n), atol=1e-2)


@pytest.mark.parametrize("pull", [np.inf, 30.0])
def test_stacking_weights_are_those_of_repeated_rows(pull: float) -> None:
    random = np.random.default_rng(5)
    _, Y, times = rows(150, 5, 0.1)
    logits = np.stack([np.nan_to_num(Y) * a + random.normal(size=Y.shape) for a in (2.0, 0.5)], -1).astype(np.float32)
    counted = fit_weights(logits, Y, pull, weights=weights(times))
    repeated = fit_weights(np.repeat(logits, times, 0), np.repeat(Y, times, 0), pull)
    assert np.allclose(counted.weights_LK, repeated.weights_LK, atol=1e-3)
    assert np.allclose(counted.bias_L, repeated.bias_L, atol=1e-3)
    fold_n = np.arange(150) % 5
    chosen = choose_pull(logits, Y, fold_n, weights(times))
    assert chosen == choose_pull(np.repeat(logits, times, 0), np.repeat(Y, times, 0), np.repeat(fold_n, times))


def test_a_label_that_counts_more_has_more_say_in_shared_stacking_weights() -> None:
    """Label 0 is predicted well by the first learner, label 1 by the second."""
    random = np.random.default_rng(0)
    Y = np.float32(random.random((400, 2)) < 0.4)
    good, noise = 4 * Y - 2 + random.normal(size=Y.shape), random.normal(size=Y.shape)
    logits = np.stack([np.where([True, False], good, noise), np.where([True, False], noise, good)], -1)
    logits = logits.astype(np.float32)
    first, second = (
        fit_weights(logits, Y, weights=Weights(np.ones(400), np.array(own), np.array(own))).weights_LK[0]
        for own in ([1.9, 0.1], [0.1, 1.9])
    )
    assert first[0] > first[1]
    assert second[1] > second[0]


def test_neighbours_vote_as_repeated_rows_where_all_of_them_vote() -> None:
    X, Y, times = rows(20, 7, 0.2)
    counted, repeated = KNNLearner(), KNNLearner()
    counted.fit(X, Y, 0, weights=weights(np.maximum(times, 1)))
    repeated.fit(np.repeat(X, np.maximum(times, 1), 0), np.repeat(Y, np.maximum(times, 1), 0), 0)
    new = rows(10, 8)[0]
    assert np.allclose(counted.logits(new), repeated.logits(new), atol=1e-4)
    again = KNNLearner()
    again.restore(counted.arrays())
    assert np.array_equal(again.logits(new), counted.logits(new))


def test_leaves_of_a_forest_hold_a_row_as_often_as_it_counts() -> None:
    X = np.zeros((60, 2), dtype=np.float32)  # nothing to split by: every tree is one leaf
    Y = np.float32(np.arange(60)[:, None] < 30)
    times = np.where(np.arange(60) < 30, 3, 1)
    forest = ForestLearner()
    out_of_bag = forest.fit(X, Y, 0, weights=weights(times, 1))
    assert np.bincount(forest.members, minlength=60).reshape(2, 30).sum(axis=1)[0] % 3 == 0
    assert abs(float(expit(forest.logits(X[:1])[0, 0])) - 0.75) < 0.03
    assert np.isfinite(out_of_bag).all()
    assert abs(float(expit(ForestLearner().fit(X, Y, 0)).mean()) - 0.5) < 0.03


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.sampled_from([0.01, 3.0, 7e5]), labels=st.sampled_from([None, "balanced"]))
def test_only_ratios_matter(seed: int, factor: float, labels: str | None) -> None:
    _, Y, times = rows(30, seed, 0.1)
    names = ["a", "b", "c"]
    plain, scaled = (Weights.of((times + 1.0) * f, labels, names, Y) for f in (1.0, factor))
    assert plain is not None
    assert scaled is not None
    assert np.allclose(plain.row_n, scaled.row_n)
    assert np.allclose(plain.entry_L, scaled.entry_L)
    assert plain.row_n.mean() == pytest.approx(1)
    asked = {name: factor * (1 + i) for i, name in enumerate(names)}
    mapped = Weights.of(None, asked, names, Y)
    assert mapped is not None
    assert np.allclose(mapped.entry_L, [0.5, 1, 1.5])
    assert taken(None, np.arange(3)) is None
