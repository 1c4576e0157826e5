"""Boosted trees against plain loops: steps of leaves, sums over trees, and who may know whose labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit

from lampnet.base_learners import boosted as boosted_module
from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.protocol import FitContext
from lampnet.data.label_priors import label_priors
from lampnet.data.weights import Weights
from lampnet.runtime.torch_state import threads


def data(n: int, n_features: int, n_labels: int, seed: int, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, n_features)).astype(np.float32)
    Y = (X @ random.normal(size=(n_features, n_labels)) > 0.5).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return X, Y


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "ROUNDS", 12)


def slow_leaf(learner: BoostedLearner, x: np.ndarray, tree: int) -> int:
    """The number of the row's leaf among all leaves, node by node."""
    trees = learner.trees
    node = int(trees.nodes[:tree].sum())
    while not trees.is_leaf[node]:
        split = int((~trees.is_leaf[:node]).sum())
        left = x[learner.columns[trees.feature[split]]] <= trees.threshold[split]
        node = node + 1 if left else int(trees.right_children()[node])
    return int(trees.is_leaf[:node].sum())


@settings(max_examples=10, deadline=None)
@given(
    n=st.integers(6, 60),
    n_features=st.integers(1, 6),
    n_labels=st.integers(1, 40),
    seed=st.integers(0, 99),
    unknown=st.sampled_from([0.0, 0.3]),
    is_sparse=st.booleans(),
)
def test_new_rows_get_the_steps_of_their_leaves(
    n: int, n_features: int, n_labels: int, seed: int, unknown: float, is_sparse: bool
) -> None:
    X, Y = data(n, n_features, n_labels, seed, unknown)
    learner = BoostedLearner()
    out_of_fold = learner.fit(sparse.csr_matrix(X) if is_sparse else X, Y, seed)
    assert out_of_fold.shape == Y.shape
    assert np.isfinite(out_of_fold).all()
    new = data(3, n_features, 1, seed + 1)[0]
    slow = []
    for x in new:
        leaves = [slow_leaf(learner, x, tree) for tree in range(len(learner.trees))]
        slow.append(np.clip(learner.start_L + learner.steps_NL[leaves].sum(axis=0), -12, 12))
    np.testing.assert_allclose(learner.logits(sparse.csr_matrix(new) if is_sparse else new), slow, atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), n_labels=st.sampled_from([1, 3, 20]), is_sparse=st.booleans())
def test_logits_are_those_by_which_scikit_learn_grew_the_trees(seed: int, n_labels: int, is_sparse: bool) -> None:
    """While trees are grown, rows are walked by scikit-learn; later by our own arrays."""
    dense, Y = data(70, 5, n_labels, seed)
    X = sparse.csr_matrix(np.maximum(dense, 0)) if is_sparse else dense
    learner = BoostedLearner()
    kept = []
    original = boosted_module._boosted_on_all

    def watched(*args: Any) -> object:
        kept.append(original(*args))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosted_module, "_boosted_on_all", watched)
        learner.fit(X, Y, seed)
    np.testing.assert_allclose(learner.logits(X), np.clip(kept[-1].logits_nL, -12, 12), atol=1e-5)


def test_a_leaf_has_newtons_step_of_the_rows_it_was_grown_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "ROUNDS", 1)
    monkeypatch.setattr(boosted_module, "drawn", lambda rows, most, row_n, random: rows)  # every tree on all rows
    X, Y = data(50, 4, 3, seed=1, unknown=0.2)
    learner = BoostedLearner()
    learner.fit(X, Y, 0)
    prior = label_priors(Y, np.float64)
    np.testing.assert_allclose(learner.start_L, logit(prior), atol=1e-5)
    leaf_n = np.array([slow_leaf(learner, x, 0) for x in X])
    assert learner.leaf_sizes.tolist() == np.bincount(leaf_n).tolist()
    for leaf in range(learner.trees.n_leaves):
        for label in range(3):
            own = Y[(leaf_n == leaf) & ~np.isnan(Y[:, label]), label]
            slope, curvature = (own - prior[label]).sum(), len(own) * prior[label] * (1 - prior[label])
            assert learner.steps_NL[leaf, label] == pytest.approx(0.1 * slope / (curvature + 1.0), abs=1e-4)


def test_out_of_fold_logits_do_not_know_the_labels_of_their_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "_best_rounds", lambda boosts: 12)  # chosen on all folds otherwise
    X, Y = data(120, 5, 3, seed=2)
    fold_n = np.arange(120) % 4
    own = fold_n == 0
    other = Y.copy()
    other[own] = np.roll(Y[own], 1, axis=0)  # as often true as before, in other rows
    first, second = (BoostedLearner().fit(X, labels, 0, fold_n) for labels in (Y, other))
    np.testing.assert_array_equal(first[own], second[own])
    assert not np.allclose(first[~own], second[~own], atol=1e-3)


def test_random_labels_are_not_predicted_from_a_rows_own_labels() -> None:
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(300, 8)).astype(np.float32), (random.random((300, 5)) < 0.5).astype(np.float32)
    logits = BoostedLearner().fit(X, Y, seed=0)
    assert abs(np.corrcoef(logits.ravel(), Y.ravel())[0, 1]) < 0.1


def test_what_no_line_divides_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "ROUNDS", 60)
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3)).astype(np.float32)
    Y = np.float32((X[:, :1] > 0) ^ (X[:, 1:2] > 0))
    learner = BoostedLearner()
    learner.fit(X[:400], Y[:400], 0)
    assert ((learner.logits(X[400:]) > 0) == (Y[400:] > 0)).mean() > 0.85


def test_rounds_end_where_held_out_rows_stop_gaining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "ROUNDS", 300)
    monkeypatch.setattr(boosted_module, "PATIENCE", 5)
    random = np.random.default_rng(1)
    X, Y = random.normal(size=(100, 4)).astype(np.float32), np.float32(random.random((100, 2)) < 0.5)
    learner = BoostedLearner()
    learner.fit(X, Y, 0)
    assert 1 <= len(learner.trees) < 20


def test_rows_count_as_often_as_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees start from weighted priors; with rows that all counted the same they would leave them."""
    for name in ("ROUNDS", "PATIENCE"):
        monkeypatch.setattr(boosted_module, name, 60)
    monkeypatch.setattr(boosted_module, "_best_rounds", lambda boosts: 60)
    X = np.zeros((60, 2), dtype=np.float32)  # nothing to split by: every tree is one leaf
    Y = np.float32(np.arange(60)[:, None] < 30)
    weights = Weights(np.where(np.arange(60) < 30, 1.5, 0.5), np.ones(1), np.ones(1))
    learner = BoostedLearner()
    learner.fit(X, Y, 0, weights=weights)
    assert abs(float(expit(learner.logits(X[:1])[0, 0])) - 0.75) < 0.05


def test_rows_without_weight_change_nothing() -> None:
    X, Y = data(80, 4, 2, seed=4)
    none = np.arange(80) >= 60
    weights = Weights(np.where(none, 0.0, 1.0), np.ones(2), np.ones(2))
    other = np.where(none[:, None], 1 - Y, Y)
    first, second = BoostedLearner(), BoostedLearner()
    for learner, labels in ((first, Y), (second, other)):
        learner.fit(X, labels, 0, np.arange(80) % 4, weights=weights)
    np.testing.assert_array_equal(first.logits(X), second.logits(X))


def test_threads_and_warning_filters_do_not_matter() -> None:
    X, Y = data(80, 5, 3, seed=3)
    before, found = list(warnings.filters), []
    for count in (1, 2):
        learner = BoostedLearner()
        with threads(count):
            found.append((learner.fit(X, Y, 0), learner.arrays()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for name, array in found[0][1].items():
        np.testing.assert_array_equal(array, found[1][1][name])
    assert warnings.filters == before


def test_a_spent_budget_leaves_the_fewest_rounds_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_module, "ROUNDS", 60)
    monkeypatch.setattr(boosted_module, "PATIENCE", 60)
    X, Y = data(60, 5, 3, seed=6)
    logged: list[str] = []
    learner = BoostedLearner()
    learner.fit(X, Y, 0, None, FitContext(budget_seconds=0.0, log=logged.append))
    assert len(learner.trees) <= boosted_module.FEWEST_ROUNDS
    assert logged == ["boosted: at most 16 rounds instead of 60, to keep the time budget"]
    BoostedLearner().fit(X, Y, 0, None, FitContext(budget_seconds=1e6, log=logged.append))
    assert len(logged) == 1


def test_merged_and_silent_labels() -> None:
    X, Y = data(60, 4, 3, seed=7)
    learner = BoostedLearner()
    learner.fit(X, Y, 0)
    before = learner.logits(X)
    learner.add_silent_label(0.2)
    after = learner.logits(X)
    np.testing.assert_array_equal(after[:, :3], before)
    np.testing.assert_allclose(expit(after[:, 3]), 0.2, atol=1e-5)
    learner.regroup([(1,), (0, 2)])
    np.testing.assert_allclose(learner.logits(X)[:, 0], before[:, 1], atol=1e-6)
    np.testing.assert_allclose(learner.logits(X)[:, 1], before[:, [0, 2]].mean(axis=1), atol=1e-5)
