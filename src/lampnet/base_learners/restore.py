"""Reading back the opinions of a model folder, which may come from a stranger: every array is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.stack import Stack
from lampnet.errors import ModelFolderError


def restore_stack(names: Sequence[str], arrays: Mapping[str, np.ndarray], n_labels: int) -> Stack:
    """The stack that `Stack.arrays` described, or a `ModelFolderError`."""
    if len(set(names)) != len(names):
        raise ModelFolderError("an learner is named twice in model.base_learners")
    try:
        stack = Stack.restore(tuple(names), dict(arrays))
    except (ValueError, TypeError, IndexError, OverflowError) as fault:
        raise ModelFolderError(f"the base learners of this model is damaged: {str(fault)[:200]}") from None
    _expect("centre", stack.centre, (n_labels, len(names)))
    _expect("spread", stack.spread, (len(names),))
    if not (stack.spread > 0).all():
        raise ModelFolderError("the base learners of this model is damaged: a spread is not above zero")
    for learner in stack.learners:
        if isinstance(learner, LinearLearner):
            _expect("linear.weights", learner.weights, (None, n_labels))
            _expect("linear.intercepts", learner.intercepts, (n_labels,))
        elif isinstance(learner, KNNLearner):
            _expect("knn.prior", learner.prior, (n_labels,))
            _expect("knn.X", learner.X, (None, None))
            _expect("knn.Y", learner.Y, (learner.X.shape[0], n_labels))
        elif isinstance(learner, ForestLearner):
            _check_forest(learner.nodes, n_labels)
            _expect("forest.Y", learner.Y, (len(learner.nodes["leaf"]), n_labels))
    return stack


def _expect(name: str, array: object, shape: tuple[int | None, ...]) -> None:
    fits = isinstance(array, np.ndarray) or sparse.issparse(array)
    found = getattr(array, "shape", ())
    fits = fits and len(found) == len(shape) and all(w in (None, f) for w, f in zip(shape, found, strict=True))
    if not fits or getattr(array, "dtype", np.dtype(bool)).kind != "f":
        raise ModelFolderError(
            f"the base learners of this model is damaged: {name} has shape {found}, expected {shape}"
        )


def _check_forest(nodes: Mapping[str, np.ndarray], n_labels: int) -> None:
    """A walk down any tree must end: children come after their parents and inside their tree."""
    lacking = {"offsets", "left", "right", "feature", "threshold", "columns", "leaf", "prior"} - set(nodes)
    if lacking:
        raise ModelFolderError(f"the base learners of this model is damaged: forest.{min(lacking)} is missing")
    whole = {"offsets": np.int64, "columns": np.int64, "left": np.int32, "right": np.int32, "feature": np.int32}
    for name, dtype in whole.items():
        if nodes[name].ndim != 1 or nodes[name].dtype != dtype:
            raise ModelFolderError(f"the base learners of this model is damaged: forest.{name} is no list of numbers")
    offsets, left, right = nodes["offsets"], nodes["left"], nodes["right"]
    count = len(left)
    if not len(offsets) or offsets[0] != 0 or (np.diff(offsets) < 1).any() or offsets[-1] != count:
        raise ModelFolderError("the base learners of this model is damaged: the forest's trees do not fit together")
    _expect("forest.prior", nodes["prior"], (n_labels,))
    _expect("forest.threshold", nodes["threshold"], (count,))
    if len(right) != count or len(nodes["feature"]) != count:
        raise ModelFolderError("the base learners of this model is damaged: the forest's nodes do not fit together")
    sizes = np.diff(offsets)
    leaf = nodes["leaf"]
    if leaf.ndim != 2 or leaf.dtype != np.int32 or leaf.shape[1] != len(sizes):
        raise ModelFolderError("the base learners of this model is damaged: forest.leaf is no place in every tree")
    if leaf.size and ((leaf < -1) | (leaf >= sizes)).any():
        raise ModelFolderError("the base learners of this model is damaged: a row lies in a leaf that does not exist")
    inside = np.arange(count) - np.repeat(offsets[:-1], sizes)  # a node's number in its tree
    end = np.repeat(sizes, sizes)
    branch = left >= 0
    for child in (left, right):
        if ((child[branch] <= inside[branch]) | (child[branch] >= end[branch])).any():
            raise ModelFolderError("the base learners of this model is damaged: a tree of the forest goes in circles")
    asked, columns = nodes["feature"][branch], nodes["columns"]
    if (asked < 0).any() or (asked >= len(columns)).any() or (columns < 0).any():
        raise ModelFolderError(
            "the base learners of this model is damaged: a tree asks for a feature that does not exist"
        )
