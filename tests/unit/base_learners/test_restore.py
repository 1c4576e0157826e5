"""Arrays of an untrusted model folder are restored exactly or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import forest as forest_module
from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.errors import ModelFolderError

NAMES = ("linear", "knn", "forest")
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def fitted() -> tuple[Stack, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 4)).astype(np.float32)
    Y = (X[:, :2] > 0).astype(np.float32)
    stack = Stack(NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest_module, "TREES", 3)
        stack.fit(X, Y, seed=0)
    return stack, X


@pytest.fixture
def arrays(fitted: tuple[Stack, np.ndarray]) -> Arrays:
    return {name: array.copy() for name, array in fitted[0].arrays().items()}


def test_a_stack_is_restored_exactly(fitted: tuple[Stack, np.ndarray], arrays: Arrays) -> None:
    stack, X = fitted
    np.testing.assert_array_equal(restore_stack(NAMES, arrays, 2).logits(X), stack.logits(X))


def test_sparse_neighbours_are_restored_exactly() -> None:
    X = sparse.csr_matrix(np.eye(30, 12, dtype=np.float32) + np.eye(30, 12, k=-12, dtype=np.float32))
    stack = Stack(["knn"])
    stack.fit(X, np.eye(30, 7, dtype=np.float32), seed=0)
    np.testing.assert_array_equal(restore_stack(["knn"], stack.arrays(), 7).logits(X), stack.logits(X))


def test_a_learner_named_twice_is_refused(arrays: Arrays) -> None:
    with pytest.raises(ModelFolderError, match="names one of them twice"):
        restore_stack(("linear", "linear"), arrays, 2)


def inner_node(arrays: Arrays) -> int:
    return int(np.flatnonzero(arrays["forest.left"] >= 0)[0])


def cycle(arrays: Arrays) -> None:
    arrays["forest.right"][inner_node(arrays)] = 0


def unknown_feature(arrays: Arrays) -> None:
    arrays["forest.feature"][inner_node(arrays)] = 4


def unknown_leaf(arrays: Arrays) -> None:
    arrays["forest.leaf"][0, 0] = 10**6


def short_threshold(arrays: Arrays) -> None:
    arrays["forest.threshold"] = arrays["forest.threshold"][:-1]


def short_right(arrays: Arrays) -> None:
    arrays["forest.right"] = arrays["forest.right"][:-1]


def float_offsets(arrays: Arrays) -> None:
    arrays["forest.offsets"] = arrays["forest.offsets"].astype(np.float64)


def no_spread(arrays: Arrays) -> None:
    arrays["spread"][0] = 0


def integer_weights(arrays: Arrays) -> None:
    arrays["linear.weights"] = arrays["linear.weights"].astype(np.int32)


def unknown_choice(arrays: Arrays) -> None:
    arrays["linear.choice"][0] = -1


def missing_neighbours(arrays: Arrays) -> None:
    del arrays["knn.X"]


def missing_feature(arrays: Arrays) -> None:
    del arrays["forest.feature"]


DAMAGES: dict[Callable[[Arrays], None], str] = {
    cycle: "has a cycle",
    unknown_feature: "a feature that does not exist",
    unknown_leaf: "a leaf that does not exist",
    short_threshold: r"forest.threshold has shape",
    short_right: "arrays of the forest do not match",
    float_offsets: "forest.offsets is not a list of integers",
    no_spread: "spread must be positive",
    integer_weights: "linear.weights has shape",
    unknown_choice: "a loss and C that do not exist",
    missing_neighbours: r"lack the array 'X\.data'",
    missing_feature: "forest.feature is missing",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_arrays_are_refused_in_one_sentence(damage: Callable[[Arrays], None], arrays: Arrays) -> None:
    damage(arrays)
    with pytest.raises(ModelFolderError, match=DAMAGES[damage]) as refusal:
        restore_stack(NAMES, arrays, 2)
    assert "the base learners of this model" in str(refusal.value)
    assert "\n" not in str(refusal.value)
