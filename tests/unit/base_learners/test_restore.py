"""Arrays of an untrusted model folder are restored exactly or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import boosted as boosted_module
from lampnet.base_learners import forest as forest_module
from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.errors import ModelFolderError

NAMES = ("linear", "knn", "forest", "boosted", "kernel")
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def fitted() -> tuple[Stack, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 4)).astype(np.float32)
    Y = (X[:, :2] > 0).astype(np.float32)
    stack = Stack(NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest_module, "TREES", 3)
        patch.setattr(boosted_module, "ROUNDS", 3)
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


def other_shape(arrays: Arrays) -> None:
    arrays["forest.is_leaf"][0] ^= 0xFF


def other_nodes(arrays: Arrays) -> None:
    arrays["forest.nodes"][0] += 1


def no_nodes(arrays: Arrays) -> None:
    arrays["forest.nodes"] = arrays["forest.nodes"][:0]


def unknown_feature(arrays: Arrays) -> None:
    arrays["forest.feature"][0] = 4


def negative_feature(arrays: Arrays) -> None:
    arrays["forest.feature"][0] = -1


def unknown_row(arrays: Arrays) -> None:
    arrays["forest.members"][0] = 40


def empty_leaf(arrays: Arrays) -> None:
    arrays["forest.leaf_sizes"][1] += arrays["forest.leaf_sizes"][0]
    arrays["forest.leaf_sizes"][0] = 0


def short_threshold(arrays: Arrays) -> None:
    arrays["forest.threshold"] = arrays["forest.threshold"][:-1]


def short_members(arrays: Arrays) -> None:
    arrays["forest.members"] = arrays["forest.members"][:-1]


def float_nodes(arrays: Arrays) -> None:
    arrays["forest.nodes"] = arrays["forest.nodes"].astype(np.float64)


def two_axes(arrays: Arrays) -> None:
    arrays["forest.leaf_sizes"] = arrays["forest.leaf_sizes"][:, None]


def negative_column(arrays: Arrays) -> None:
    arrays["forest.columns"][0] = -1


def unknown_label(arrays: Arrays) -> None:
    arrays["forest.Y.indices"][0] = 2


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


def boosted_shape(arrays: Arrays) -> None:
    arrays["boosted.is_leaf"][0] ^= 0xFF


def boosted_feature(arrays: Arrays) -> None:
    arrays["boosted.feature"][0] = 4


def boosted_step_missing(arrays: Arrays) -> None:
    arrays["boosted.steps"] = arrays["boosted.steps"][:-1]


def boosted_other_labels(arrays: Arrays) -> None:
    arrays["boosted.steps"] = arrays["boosted.steps"][:, :1]


def boosted_start(arrays: Arrays) -> None:
    arrays["boosted.start"] = arrays["boosted.start"].astype(np.int32)


def boosted_empty_leaf(arrays: Arrays) -> None:
    arrays["boosted.leaf_sizes"][0] = 0


def boosted_column(arrays: Arrays) -> None:
    arrays["boosted.columns"][0] = -1


def kernel_row_missing(arrays: Arrays) -> None:
    arrays["kernel.X"] = arrays["kernel.X"][1:]


def kernel_certain_prior(arrays: Arrays) -> None:
    arrays["kernel.prior"][0] = 1.0


def kernel_no_scale(arrays: Arrays) -> None:
    arrays["kernel.settings"][0] = 0.0


def kernel_more_settings(arrays: Arrays) -> None:
    arrays["kernel.settings"] = np.ones(3)


DAMAGES: dict[Callable[[Arrays], None], str] = {
    other_shape: "a tree ends before or after its last node",
    other_nodes: "nodes of the trees do not add up|a tree ends before or after its last node",
    no_nodes: "nodes of the trees do not add up",
    unknown_feature: "a feature that does not exist",
    negative_feature: "a feature that does not exist",
    unknown_row: "a row that does not exist",
    empty_leaf: "not every leaf has rows",
    short_threshold: "one feature and one threshold each",
    short_members: "rows of the leaves do not add up",
    float_nodes: "forest.nodes is not a list of integers",
    two_axes: "forest.leaf_sizes is not a list of integers",
    negative_column: "a column that does not exist",
    unknown_label: "must be < 2",
    no_spread: "spread must be positive",
    integer_weights: "linear.weights has shape",
    unknown_choice: "a loss and C that do not exist",
    missing_neighbours: r"lack the array 'X\.data'",
    missing_feature: "lack the array 'feature'",
    boosted_shape: "boosted: a tree ends before or after its last node",
    boosted_feature: "boosted: a tree splits on a feature that does not exist",
    boosted_step_missing: "boosted.steps has shape",
    boosted_other_labels: "boosted.steps has shape",
    boosted_start: "boosted.start has shape",
    boosted_empty_leaf: "boosted: not every leaf has rows",
    boosted_column: "boosted: a column that does not exist",
    kernel_row_missing: "kernel.dual has shape",
    kernel_certain_prior: "kernel.prior must be between 0 and 1",
    kernel_no_scale: "kernel.settings must be positive",
    kernel_more_settings: "too many values",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_arrays_are_refused_in_one_sentence(damage: Callable[[Arrays], None], arrays: Arrays) -> None:
    damage(arrays)
    with pytest.raises(ModelFolderError, match=DAMAGES[damage]) as refusal:
        restore_stack(NAMES, arrays, 2)
    assert "the base learners of this model" in str(refusal.value)
    assert "\n" not in str(refusal.value)
