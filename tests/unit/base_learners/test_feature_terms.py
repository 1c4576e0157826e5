"""The terms of every base learner add up to its logits, and each belongs to its feature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.knn import NEIGHBOURS, KNNLearner
from lampnet.base_learners.linear import MAX_ABS_LOGIT, LinearLearner
from lampnet.base_learners.protocol import BaseLearner
from lampnet.base_learners.stack import LEARNERS, Stack
from lampnet.data.weights import Weights


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lampnet.base_learners.forest.TREES", 24)
        patch.setattr("lampnet.base_learners.boosted.ROUNDS", 12)
        yield


def rows_and_labels(seed: int, n: int, features: int, labels: int, is_sparse: bool, coarse: bool):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, features)).astype(np.float32)
    X = np.round(X) if coarse else X  # coarse: many rows are equally near
    if is_sparse:
        X = np.where(random.random(X.shape) < 0.3, np.abs(X), 0).astype(np.float32)
    Y = (X[:, np.arange(labels) % features] + random.normal(size=(n, labels)) > 0.5).astype(np.float32)
    Y[random.random(Y.shape) < 0.05] = np.nan
    Y[:, 0] = 0  # a label without positives has no finite logit of its own
    return (sparse.csr_matrix(X) if is_sparse else X), Y


@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.sampled_from([12, 40, 130]),
    features=st.integers(1, 9),
    is_sparse=st.booleans(),
    coarse=st.booleans(),
    weighted=st.booleans(),
)
def test_terms_add_up_to_the_logits(name, seed, n, features, is_sparse, coarse, weighted):
    X, Y = rows_and_labels(seed, n, features, 4, is_sparse, coarse)
    learner = LEARNERS[name]()
    weights = Weights(np.random.default_rng(seed).uniform(0.2, 3.0, n), np.ones(4), np.ones(4)) if weighted else None
    learner.fit(X, Y, seed, weights=weights)
    rows, labels = np.array([n - 1, 0, n // 2]), np.array([3, 0, 2])
    terms = learner.terms(X, rows, labels)
    np.testing.assert_allclose(terms.logits(), learner.logits(X)[rows][:, labels], atol=2e-5)
    assert terms.columns_E.max(initial=0) < features


def test_stacked_terms_add_up_in_every_block_of_rows():
    X, Y = rows_and_labels(3, 700, 6, 5, False, True)
    stack = Stack(tuple(LEARNERS))
    stack.fit_weights(stack.fit(X, Y, 0), Y, np.arange(700) % 5)
    rows, labels = np.array([699, 3, 512, 511]), np.array([1, 4])
    bias, learners = stack.terms(X, rows, labels)
    total = bias + sum(terms.logits() for terms in learners)
    np.testing.assert_allclose(total, stack.weights.stacked(stack.logits(X))[rows][:, labels], atol=2e-5)


def only_feature(learner: BaseLearner) -> np.ndarray:
    """How much each feature adds, on average, where the label is its fourth feature and nothing else."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 6)).astype(np.float32)
    learner.fit(X, (X[:, 3:4] > 0).astype(np.float32), 0)
    terms = learner.terms(X, np.arange(60), np.array([0]))
    return np.bincount(terms.columns_E, np.abs(terms.values_EK[:, 0]), 6)


@pytest.mark.parametrize("learner", [LinearLearner(), KNNLearner(), ForestLearner()], ids=["linear", "knn", "forest"])
def test_the_feature_that_makes_the_label_adds_most(learner):
    added = only_feature(learner)
    assert added.argmax() == 3
    assert added[3] > 1.5 * np.delete(added, 3).max()


def test_a_bounded_logit_is_still_a_sum():
    learner = LinearLearner()
    learner.weights, learner.intercepts = np.array([[40.0], [-1.0]], np.float32), np.array([-100.0], np.float32)
    X = np.array([[1.0, 1.0], [9.0, 1.0]], np.float32)
    terms = learner.terms(X, np.arange(2), np.array([0]))
    np.testing.assert_allclose(terms.start_nK, -MAX_ABS_LOGIT)
    np.testing.assert_allclose(terms.logits()[:, 0], [-MAX_ABS_LOGIT, MAX_ABS_LOGIT])


def test_neighbours_shares_add_up_and_the_nearest_comes_first():
    X, Y = rows_and_labels(1, 200, 5, 3, False, False)
    learner = KNNLearner()
    learner.fit(X, Y, 0)
    terms = learner.terms(X, np.array([7]), np.arange(3))
    near = terms.neighbours
    assert near.index_nJ.shape == (1, NEIGHBOURS)
    assert near.index_nJ[0, 0] == 7
    assert near.similarity_nJ[0, 0] == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(terms.start_nK + near.shares_nJK.sum(axis=1), terms.logits(), atol=1e-9)
    has_first = Y[near.index_nJ[0]] == 1
    speaks_for = near.shares_nJK[0] > 0
    assert (speaks_for <= has_first).all()  # only rows with a label speak for it


def test_forest_terms_are_those_of_walking_down_each_tree():
    X, Y = rows_and_labels(2, 90, 4, 3, True, False)
    forest = ForestLearner()
    forest.fit(X, Y, 0)
    label, row = 2, 11
    dense, trees = X.toarray(), forest.trees
    shares, sizes = np.asarray(forest.leaf_shares()), forest.leaf_sizes
    if sparse.issparse(forest.leaf_shares()):
        shares = forest.leaf_shares().toarray()
    added, start, first_node, first_leaf = np.zeros(4), 0.0, 0, 0
    inner_before = np.concatenate([[0], np.cumsum(~trees.is_leaf)])
    for size in trees.nodes:
        is_leaf = trees.is_leaf[first_node : first_node + size]

        def below(node, is_leaf=is_leaf):
            """The last node of the subtree."""
            return node if is_leaf[node] else below(below(node + 1) + 1)

        def share(node, is_leaf=is_leaf, below=below, first_leaf=first_leaf):
            leaves = first_leaf + np.arange(is_leaf[:node].sum(), is_leaf[: below(node) + 1].sum())
            return np.average(shares[leaves, label], weights=sizes[leaves])

        node = 0
        start += share(0)
        while not is_leaf[node]:
            inner = inner_before[first_node + node]
            feature = trees.feature[inner]
            child = node + 1 if dense[row, feature] <= trees.threshold[inner] else below(node + 1) + 1
            added[feature] += share(child) - share(node)
            node = child
        first_node, first_leaf = first_node + size, first_leaf + is_leaf.sum()
    terms = forest.terms(X, np.array([row]), np.array([label]))
    found = np.bincount(terms.columns_E, terms.values_EK[:, 0], 4)
    # The same proportions; the slope of the logit is one number for all of them.
    np.testing.assert_allclose(found / np.abs(found).sum(), added / np.abs(added).sum(), atol=1e-7)
