"""The forest learner against plain loops over rows and trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners import forest as forest_module
from lampnet.base_learners import grown_trees
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.protocol import FitContext
from lampnet.runtime.torch_state import threads


def data(n: int, n_features: int, n_labels: int, seed: int, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, n_features)).astype(np.float32)
    Y = (X @ random.normal(size=(n_features, n_labels)) > 0.5).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return X, Y


def slow_logits(forest: ForestLearner, x: np.ndarray, Y_nL: np.ndarray, trees: list[int]) -> np.ndarray:
    """Log-odds of each label's share among the training rows in the leaves of x, by plain loops."""
    prior = forest.prior.astype(np.float64)
    known = np.where(np.isnan(Y_nL), prior, Y_nL)
    leaves = forest.trees.leaves(x[None])[0]  # tests/unit/base_learners/test_trees.py walks node by node
    ends = np.cumsum(forest.leaf_sizes)
    total = prior.copy()
    for tree in trees:
        rows = forest.members[ends[leaves[tree]] - forest.leaf_sizes[leaves[tree]] : ends[leaves[tree]]]
        total += known[rows].mean(axis=0)
    share = np.clip(total / (len(trees) + 1), 1e-4, 1 - 1e-4)
    return np.asarray(np.log(share / (1 - share)))


def in_bag(forest: ForestLearner, n: int) -> np.ndarray:
    """bool (n, T): which rows the leaves of each tree hold."""
    leaf_of_tree = np.repeat(np.arange(len(forest.trees)), forest.trees.nodes)[forest.trees.is_leaf]
    bag = np.zeros((n, len(forest.trees)), dtype=bool)
    bag[forest.members, np.repeat(leaf_of_tree, forest.leaf_sizes)] = True
    return bag


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
    bag = in_bag(forest, 40)
    assert bag.any(axis=0).all()
    assert not bag.all(axis=0).any()
    for row in range(0, 40, 7):
        out_of_bag = np.flatnonzero(~bag[row]).tolist()
        np.testing.assert_allclose(logits[row], slow_logits(forest, X[row], Y, out_of_bag), rtol=1e-3, atol=1e-3)


def test_random_labels_are_not_predicted_from_a_rows_own_labels() -> None:
    """Out-of-bag logits of noise are noise."""
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(300, 8)).astype(np.float32), (random.random((300, 5)) < 0.5).astype(np.float32)
    logits = ForestLearner().fit(X, Y, seed=0)
    correlation = np.corrcoef(logits.ravel(), Y.ravel())[0, 1]
    assert abs(correlation) < 0.1


def test_of_many_features_those_of_the_highest_variance_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown_trees, "MAX_FEATURES", 3)
    X, Y = data(60, 8, 2, seed=1)
    X *= np.array([1, 9, 1, 9, 1, 1, 9, 1], dtype=np.float32)
    forest = ForestLearner()
    forest.fit(sparse.csr_matrix(X), Y, seed=0)
    assert forest.columns.tolist() == [1, 3, 6]
    hidden = X.copy()
    hidden[:, [0, 2, 4, 5, 7]] = 99
    np.testing.assert_array_equal(forest.logits(X), forest.logits(sparse.csr_matrix(hidden)))


def test_a_forest_is_restored_from_its_arrays() -> None:
    X, Y = data(30, 4, 3, seed=2, unknown=0.2)
    forest, again = ForestLearner(), ForestLearner()
    forest.fit(X, Y, seed=0)
    again.restore(forest.arrays())
    np.testing.assert_array_equal(forest.logits(X), again.logits(X))


def test_rows_of_a_fold_are_predicted_by_trees_that_saw_none_of_it() -> None:
    X, Y = data(80, 5, 3, seed=3)
    fold_n = np.arange(80) * 4 // 80
    forest = ForestLearner()
    logits = forest.fit(X, Y, 0, fold_n)
    bag = in_bag(forest, 80)
    for row in range(0, 80, 13):
        unseen = np.flatnonzero(~bag[fold_n == fold_n[row]].any(axis=0)).tolist()
        assert unseen
        np.testing.assert_allclose(logits[row], slow_logits(forest, X[row], Y, unseen), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_number_of_threads_does_not_matter(form: Callable[[np.ndarray], Any]) -> None:
    X, Y = data(90, 6, 20, seed=4)
    X = form(np.maximum(X, 0))
    before = list(warnings.filters)
    found = []
    for count in (1, 2, 3):
        forest = ForestLearner()
        with threads(count):
            found.append((forest.fit(X, Y, 0), forest.arrays()))
    for logits, arrays in found[1:]:
        np.testing.assert_array_equal(logits, found[0][0])
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, found[0][1][name])
    assert warnings.filters == before


def test_words_and_their_dense_form_give_the_same_forest() -> None:
    """Out-of-bag logits rest on scikit-learn's walk of the rows, new ones on our own."""
    X, Y = data(90, 6, 20, seed=5)
    X = np.maximum(X, 0)
    forest = ForestLearner()
    logits = forest.fit(sparse.csr_matrix(X), Y, 0)
    bag = in_bag(forest, 90)
    for row in range(0, 90, 11):
        slow = slow_logits(forest, X[row], Y, np.flatnonzero(~bag[row]).tolist())
        np.testing.assert_allclose(logits[row], slow, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(forest.logits(X), forest.logits(sparse.csr_matrix(X)))


def test_a_spent_budget_leaves_the_fewest_trees_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_module, "TREES", 60)
    X, Y = data(40, 5, 3, seed=6)
    logged: list[str] = []
    forest = ForestLearner()
    forest.fit(X, Y, 0, None, FitContext(budget_seconds=0.0, log=logged.append))
    assert len(forest.trees) == forest_module.FEWEST_TREES
    assert logged == ["forest: 24 trees instead of 60, to keep the time budget"]
    whole = ForestLearner()
    whole.fit(X, Y, 0, None, FitContext(log=logged.append))
    assert len(whole.trees) == 60
    assert len(logged) == 1
