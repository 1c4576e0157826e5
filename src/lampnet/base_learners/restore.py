"""Restoring the base learners of a model folder. The folder is untrusted, so every array is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.stack import Stack
from lampnet.errors import ModelFolderError


def restore_stack(names: Sequence[str], arrays: Mapping[str, np.ndarray], n_labels: int) -> Stack:
    """The stack that `Stack.arrays` described, or a `ModelFolderError`."""
    _require(len(set(names)) == len(names), "model.base_learners names one of them twice")
    try:
        stack = Stack.restore(tuple(names), dict(arrays))
    except (ValueError, TypeError, IndexError, OverflowError) as fault:
        raise _damaged(str(fault)[:200]) from None
    _require_floats("centre", stack.centre, (n_labels, len(names)))
    _require_floats("spread", stack.spread, (len(names),))
    _require(bool((stack.spread > 0).all()), "spread must be positive")
    _require_floats("weights", stack.weights.weights_LK, (n_labels, len(names)))
    _require_floats("bias", stack.weights.bias_L, (n_labels,))
    for learner in stack.learners:
        if isinstance(learner, LinearLearner):
            _require_floats("linear.weights", learner.weights, (None, n_labels))
            _require_floats("linear.intercepts", learner.intercepts, (n_labels,))
        elif isinstance(learner, KNNLearner):
            _require_floats("knn.prior", learner.prior, (n_labels,))
            _require_floats("knn.X", learner.X, (None, None))
            _require_floats("knn.Y", learner.Y, (learner.X.shape[0], n_labels))
        elif isinstance(learner, ForestLearner):
            _check_forest(learner.nodes, n_labels)
            _require_floats("forest.Y", learner.Y, (len(learner.nodes["leaf"]), n_labels))
    return stack


def _check_forest(nodes: Mapping[str, np.ndarray], n_labels: int) -> None:
    """A walk down any tree must end: children come after their parents and inside their tree."""
    missing = {"offsets", "left", "right", "feature", "threshold", "columns", "leaf", "prior"} - set(nodes)
    _require(not missing, f"forest.{min(missing, default='')} is missing")
    integers = {"offsets": np.int64, "columns": np.int64, "left": np.int32, "right": np.int32, "feature": np.int32}
    for name, dtype in integers.items():
        _require(nodes[name].ndim == 1 and nodes[name].dtype == dtype, f"forest.{name} is not a list of integers")
    offsets, left, right = nodes["offsets"], nodes["left"], nodes["right"]
    count, sizes = len(left), np.diff(offsets)
    consistent = len(offsets) and offsets[0] == 0 and (sizes >= 1).all() and offsets[-1] == count
    _require(consistent and len(right) == len(nodes["feature"]) == count, "the arrays of the forest do not match")
    _require_floats("forest.prior", nodes["prior"], (n_labels,))
    _require_floats("forest.threshold", nodes["threshold"], (count,))
    leaf = nodes["leaf"]
    of_each_tree = leaf.ndim == 2 and leaf.dtype == np.int32 and leaf.shape[1] == len(sizes)
    _require(of_each_tree, "forest.leaf does not have one integer per row and tree")
    _require(not ((leaf < -1) | (leaf >= sizes)).any(), "forest.leaf names a leaf that does not exist")
    own = np.arange(count) - np.repeat(offsets[:-1], sizes)  # the index of a node in its tree
    end = np.repeat(sizes, sizes)
    inner = left >= 0
    for child in (left, right):
        ends = (child[inner] > own[inner]) & (child[inner] < end[inner])
        _require(ends.all(), "a tree of the forest has a cycle or leaves its array")
    feature, columns = nodes["feature"][inner], nodes["columns"]
    exists = (feature >= 0).all() and (feature < len(columns)).all() and (columns >= 0).all()
    _require(exists, "a tree of the forest splits on a feature that does not exist")


def _require_floats(name: str, array: Any, shape: tuple[int | None, ...]) -> None:
    """A dense or sparse array of floats; None stands for any length."""
    is_array = isinstance(array, np.ndarray) or sparse.issparse(array)
    found = array.shape if is_array else ()
    fits = len(found) == len(shape) and all(wanted in (None, size) for wanted, size in zip(shape, found, strict=True))
    _require(is_array and fits and array.dtype.kind == "f", f"{name} has shape {found}, expected floats of {shape}")


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise _damaged(otherwise)


def _damaged(what: str) -> ModelFolderError:
    return ModelFolderError(f"the base learners of this model are damaged: {what}; train or copy the model again")
