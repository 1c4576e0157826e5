"""Compact trees against a walk node by node, and against arrays that are no trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners import trees as trees_module
from lampnet.base_learners.trees import Trees


def random_trees(random: np.random.Generator, n_trees: int, n_features: int, lowest: float) -> Trees:
    """Trees of random shape; most inner nodes are left children, as in trees on words."""
    kinds: list[bool] = []
    nodes = []
    for _ in range(n_trees):
        begun, open_branches = len(kinds), 1
        while open_branches:
            leaf = bool(random.random() < 0.45) or len(kinds) - begun > 60
            kinds.append(leaf)
            open_branches += -1 if leaf else 1
        nodes.append(len(kinds) - begun)
    is_leaf = np.array(kinds)
    inner = int((~is_leaf).sum())
    threshold = random.uniform(lowest, 1, size=inner).astype(np.float32)
    return Trees(np.array(nodes), is_leaf, random.integers(n_features, size=inner).astype(np.int32), threshold)


def slow_leaves(trees: Trees, x: np.ndarray) -> list[int]:
    """The number of the row's leaf in each tree, by recursive descent."""
    inner_before = np.cumsum(~trees.is_leaf) - ~trees.is_leaf
    leaf_before = np.cumsum(trees.is_leaf) - trees.is_leaf

    def end_of(node: int) -> int:
        """The node behind a subtree."""
        open_branches = 1
        while open_branches:
            open_branches += -1 if trees.is_leaf[node] else 1
            node += 1
        return node

    found = []
    for root in (np.cumsum(trees.nodes) - trees.nodes).tolist():
        node = root
        while not trees.is_leaf[node]:
            split = inner_before[node]
            left = x[trees.feature[split]] <= trees.threshold[split]
            node = node + 1 if left else end_of(node + 1)
        found.append(int(leaf_before[node]))
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([0.0, -1.0]), st.sampled_from([2, 64])
)
def test_rows_end_in_the_leaves_of_a_walk_node_by_node(
    n_trees: int, n_features: int, seed: int, lowest: float, together: int
) -> None:
    random = np.random.default_rng(seed)
    trees = random_trees(random, n_trees, n_features, lowest)
    X = (random.uniform(-0.5, 1, size=(7, n_features)) * (random.random((7, n_features)) < 0.5)).astype(np.float32)
    slow = [slow_leaves(trees, x) for x in X]
    assert not trees.fault(n_features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees_module, "_LOOK_TOGETHER", together)
        patch.setattr(trees_module, "_BLOCK", 3 * n_trees)
        np.testing.assert_array_equal(trees.leaves(X), slow)
        np.testing.assert_array_equal(trees.leaves(sparse.csr_matrix(X)), slow)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_kinds_that_make_no_trees_are_found(seed: int, data: st.DataObject) -> None:
    """Whatever passes the check can be walked to an end."""
    random = np.random.default_rng(seed)
    trees = random_trees(random, 3, 4, 0.0)
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.integers(0, len(trees.is_leaf) - 1))
        trees.is_leaf[node] = not trees.is_leaf[node]
    balanced = []
    for kinds in np.split(trees.is_leaf, np.cumsum(trees.nodes)[:-1]):
        open_branches = 1 + np.cumsum(np.where(kinds, -1, 1))
        balanced.append(open_branches[-1] == 0 and (open_branches[:-1] > 0).all())
    inner_fit = len(trees.feature) == int((~trees.is_leaf).sum())
    assert (not trees.fault(4)) == (all(balanced) and inner_fit)
    if not trees.fault(4):
        trees.leaves(np.zeros((1, 4), dtype=np.float32))


def test_features_that_do_not_exist_are_found() -> None:
    trees = random_trees(np.random.default_rng(0), 5, 4, 0.0)
    assert not trees.fault(4)
    assert "feature that does not exist" in trees.fault(int(trees.feature.max()))
    trees.feature[0] = -1
    assert "feature that does not exist" in trees.fault(4)
