"""The forest learner against plain loops over rows and trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners import forest as forest_module
from lampnet.base_learners.forest import ForestLearner


def data(n: int, n_features: int, n_labels: int, seed: int, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, n_features)).astype(np.float32)
    Y = (X @ random.normal(size=(n_features, n_labels)) > 0.5).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return X, Y


def slow_logits(forest: ForestLearner, x: np.ndarray, Y_nL: np.ndarray, trees: list[int]) -> np.ndarray:
    """Log-odds of each label's share among the training rows in the leaves of x, by plain loops."""
    nodes = forest.nodes
    prior = nodes["prior"].astype(np.float64)
    known = np.where(np.isnan(Y_nL), prior, Y_nL)
    total = prior.copy()
    for tree in trees:
        first, at = int(nodes["offsets"][tree]), 0
        while nodes["left"][first + at] >= 0:
            lower = x[nodes["feature"][first + at]] <= nodes["threshold"][first + at]
            at = int(nodes["left" if lower else "right"][first + at])
        total += known[nodes["leaf"][:, tree] == at].mean(axis=0)
    share = np.clip(total / (len(trees) + 1), 1e-4, 1 - 1e-4)
    return np.asarray(np.log(share / (1 - share)))


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_module, "TREES", 7)


@settings(max_examples=8, deadline=None)
@given(st.integers(6, 40), st.integers(1, 6), st.integers(1, 40), st.integers(0, 99), st.sampled_from([0.0, 0.3]))
def test_new_rows_are_predicted_by_every_tree(
    n: int, n_features: int, n_labels: int, seed: int, unknown: float
) -> None:
    X, Y = data(n, n_features, n_labels, seed, unknown)
    forest = ForestLearner()
    forest.fit(X, Y, seed)
    new = data(3, n_features, 1, seed + 1)[0]
    slow = [slow_logits(forest, x, Y, list(range(7))) for x in new]
    np.testing.assert_allclose(forest.logits(new), slow, rtol=1e-3, atol=1e-3)


def test_training_rows_are_predicted_out_of_bag() -> None:
    X, Y = data(40, 5, 3, seed=0)
    forest = ForestLearner()
    logits = forest.fit(X, Y, seed=0)
    in_bag = forest.nodes["leaf"] >= 0
    assert in_bag.any(axis=0).all()
    assert not in_bag.all(axis=0).any()
    for row in range(0, 40, 7):
        out_of_bag = np.flatnonzero(~in_bag[row]).tolist()
        np.testing.assert_allclose(logits[row], slow_logits(forest, X[row], Y, out_of_bag), rtol=1e-3, atol=1e-3)


def test_random_labels_are_not_predicted_from_a_rows_own_labels() -> None:
    """Out-of-bag logits of noise are noise."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(300, 8)).astype(np.float32), (random.random((300, 5)) < 0.5).astype(np.float32)
    logits = ForestLearner().fit(X, Y, seed=0)
    correlation = np.corrcoef(logits.ravel(), Y.ravel())[0, 1]
    assert abs(correlation) < 0.1


def test_of_many_features_those_of_the_highest_variance_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_module, "MAX_FEATURES", 3)
    X, Y = data(60, 8, 2, seed=1)
    X *= np.array([1, 9, 1, 9, 1, 1, 9, 1], dtype=np.float32)
    forest = ForestLearner()
    forest.fit(sparse.csr_matrix(X), Y, seed=0)
    assert forest.nodes["columns"].tolist() == [1, 3, 6]
    hidden = X.copy()
    hidden[:, [0, 2, 4, 5, 7]] = 99
    np.testing.assert_array_equal(forest.logits(X), forest.logits(sparse.csr_matrix(hidden)))


def test_a_forest_is_restored_from_its_arrays() -> None:
    X, Y = data(30, 4, 3, seed=2, unknown=0.2)
    forest, again = ForestLearner(), ForestLearner()
    forest.fit(X, Y, seed=0)
    again.restore(forest.arrays())
    np.testing.assert_array_equal(forest.logits(X), again.logits(X))
