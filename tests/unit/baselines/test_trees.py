"""Trees: their first split is the best of all splits, and FastXML's divisions raise nDCG."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from lampnet.baselines.fastxml import FastXML, ndcg_division
from lampnet.baselines.trees import MLC45, RFMLC45, PredictiveClusteringTree


def rows_of(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X @ rng.normal(size=(4, 3)) + rng.normal(size=(n, 3)) > 0.5).astype(float)


def variance(Y: np.ndarray) -> float:
    return float(Y.var(axis=0).sum())


def entropy(Y: np.ndarray) -> float:
    p = np.clip(Y.mean(axis=0), 1e-12, 1 - 1e-12)
    return float(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)).sum())


@pytest.mark.parametrize(("kind", "impurity"), [(PredictiveClusteringTree, variance), (MLC45, entropy)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_first_split_lowers_the_impurity_of_all_labels_most(kind: type, impurity: object, seed: int) -> None:
    assert callable(impurity)
    X, Y = rows_of(seed=seed)
    root = kind(min_samples_leaf=5).fit(X, Y).models_[0].tree_

    def left_over(feature: int, threshold: float) -> float:
        left = X[:, feature] <= threshold
        parts = [Y[left], Y[~left]]
        return sum(len(part) * impurity(part) for part in parts) if min(map(len, parts)) >= 5 else np.inf

    best = min(left_over(f, value) for f in range(4) for value in X[:, f])
    assert left_over(root.feature[0], root.threshold[0]) == pytest.approx(best)


def test_the_two_kinds_of_tree_differ() -> None:
    X, Y = rows_of(200)
    Y[:, 0] = X[:, 0] > 1.5  # rare: entropy weighs it more than variance does
    first = [kind(min_samples_leaf=5).fit(X, Y).predict_proba(X) for kind in (PredictiveClusteringTree, MLC45)]
    assert not np.allclose(*first)


def test_leaf_sizes_are_tuned_on_validation_rows() -> None:
    rng = np.random.default_rng(0)
    X, X_valid = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    noisy = ((X[:, :1] > 0) ^ (rng.random((300, 1)) < 0.3)).astype(float)
    model = PredictiveClusteringTree().fit(X, noisy, X_valid, (X_valid[:, :1] > 0).astype(float))
    assert model.tuned_["min_samples_leaf"] >= 20


def test_a_forest_of_one_class_labels() -> None:
    X, Y = rows_of()
    Y = np.hstack([Y, np.ones((60, 1)), np.zeros((60, 1))])
    proba = RFMLC45(trees=5, min_samples_leaf=1).fit(X, Y).predict_proba(X[:4])
    assert proba[:, 3:].tolist() == [[1.0, 0.0]] * 4


def slow_ndcg(labels: np.ndarray, right: np.ndarray) -> float:
    total = 0.0
    for side in (right, ~right):
        rows = labels[side]
        gain = np.array(
            [1 / sum(1 / np.log2(k + 2) for k in range(int(row.sum()))) if row.sum() else 0 for row in rows]
        )
        if not len(rows):
            continue
        ranking = np.argsort(-(gain[:, None] * rows).sum(axis=0), kind="stable")
        for row, own in zip(rows, gain, strict=True):
            total += own * sum(row[label] / np.log2(place + 2) for place, label in enumerate(ranking))
    return total


@given(st.integers(2, 25), st.integers(1, 6), st.integers(0, 1000))
def test_a_division_is_no_worse_than_its_start_and_no_row_would_rather_move(n: int, n_labels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_labels)) < 0.4).astype(float)
    start = np.random.default_rng(seed).random(n) < 0.5
    right = ndcg_division(sparse.csr_matrix(labels), np.random.default_rng(seed))
    assert slow_ndcg(labels, right) >= slow_ndcg(labels, start) - 1e-9


def test_two_groups_of_rows_are_told_apart() -> None:
    labels = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    found = {tuple(ndcg_division(sparse.csr_matrix(labels), np.random.default_rng(seed))) for seed in range(5)}
    assert found <= {tuple([False] * 20 + [True] * 20), tuple([True] * 20 + [False] * 20)}


def test_fastxml_leaves_are_small_or_pure() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(4, size=200)
    X, Y = np.eye(4)[group] + 0.01 * rng.normal(size=(200, 4)), np.eye(4)[group]
    model = FastXML(trees=3, leaf_rows=5, C=10.0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(np.eye(4)), np.eye(4), atol=1e-6)
    for leaves in model.leaves_:
        assert ((leaves == 0) | (leaves == 1)).all()  # one group each: nothing is left to divide
