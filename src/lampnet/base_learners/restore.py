"""Restoring the base learners of a model folder. The folder is untrusted, so every array is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import ORIGINS, KNNLearner
from lampnet.base_learners.label_names import LabelNameLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.protocol import BaseLearner, Features
from lampnet.base_learners.row_stream import RowStream
from lampnet.base_learners.stack import LEARNERS, FittedLearner, Stack, reads_embedded
from lampnet.base_learners.streamed_stack import StreamedLearner
from lampnet.errors import ModelFolderError


def restore_stack(names: Sequence[str], arrays: Mapping[str, np.ndarray], n_labels: int) -> Stack:
    """The stack that `Stack.arrays` described, or a `ModelFolderError`."""
    _require(len(set(names)) == len(names), "model.base_learners names one of them twice")
    embedded = arrays.get("embedded")
    if embedded is not None:
        sound = embedded.shape == (1,) and embedded.dtype.kind == "i" and embedded[0] > 0
        _require(sound, "embedded is not a single number above 0")
    _require(embedded is not None or not any(map(reads_embedded, names)), "embedded is missing")
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
        _check(learner, n_labels)
    return stack


def fits(name: str, fitted: FittedLearner, X: Features, Y_nL: np.ndarray) -> bool:
    """Whether what was kept of a learner can be one that was fitted on these rows, of which X are its features."""
    learner = LEARNERS[name]()
    try:
        _check_numbers(fitted.arrays)
        learner.restore(fitted.arrays)
        _check(learner, Y_nL.shape[1])
        _check_features(learner, X.shape[1])
        _require_floats("out_of_fold", fitted.out_of_fold, Y_nL.shape)
        finite = (np.isfinite(values).all() for values in (fitted.out_of_fold, learner.logits(X[:1])))
        return all(finite)
    except (ModelFolderError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
        return False


def fits_streamed(name: str, fitted: StreamedLearner, rows: RowStream) -> bool:
    """Whether what was kept of a learner can be one that was fitted on these rows."""
    learner, apart = LEARNERS[name](), fitted.apart
    (n, n_features), n_labels = rows.features.shape, rows.labels.shape[1]
    try:
        _check_numbers(fitted.arrays)
        learner.restore(fitted.arrays)
        _check(learner, n_labels)
        _check_features(learner, n_features)
        if isinstance(learner, LinearLearner):
            folds = range(int(rows.fold_n.max()) + 1)
            _require(len(apart) == 2 * len(folds), "linear: solutions of other folds")
            for fold in folds:
                _require_floats("linear.weights", apart[f"weights{fold}"], (n_features, n_labels))
                _require_floats("linear.intercepts", apart[f"intercepts{fold}"], (n_labels,))
        else:
            chosen = apart["chosen"]
            _require(chosen.dtype == np.int64 and chosen.ndim == 1 and len(chosen) > 0, f"{name}: no rows were chosen")
            rising = chosen[0] >= 0 and chosen[-1] < n and (np.diff(chosen) > 0).all()
            _require(rising, f"{name}: rows that do not exist were chosen")
            if isinstance(learner, KNNLearner):
                _require(learner.X.shape[0] == len(chosen), "knn: other rows are stored")
            else:
                _require_floats(f"{name}.logits", apart["logits"], (len(chosen), n_labels))
        finite = [array for array in apart.values() if array.dtype.kind == "f"]
        finite.append(learner.logits(rows.features.block(0, 1)))
        return all(np.isfinite(array).all() for array in finite)
    except (ModelFolderError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
        return False


def _check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """A model folder is read with finite numbers only; a training folder must not hold others either."""
    for name, array in arrays.items():
        _require(array.dtype.kind in "biuf", f"{name} holds no numbers")
        _require(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name}: a number is not finite")


def _check_features(learner: BaseLearner, n_features: int) -> None:
    """A learner reads the features that there are; a stated width is not believed before memory is taken for it."""
    if isinstance(learner, LinearLearner):
        fits = learner.weights.shape[0] == n_features
    elif isinstance(learner, KNNLearner | KernelLearner):
        fits = learner.X.shape[1] == n_features
    elif isinstance(learner, ForestLearner | BoostedLearner):
        fits = bool(learner.columns.max(initial=-1) < n_features)
    else:
        return
    _require(fits, f"the learner reads other features than the {n_features:,} that there are")


def _check(learner: BaseLearner, n_labels: int) -> None:
    if isinstance(learner, LinearLearner):
        _require_floats("linear.weights", learner.weights, (None, n_labels))
        _require_floats("linear.intercepts", learner.intercepts, (n_labels,))
    elif isinstance(learner, KNNLearner):
        _require_floats("knn.prior", learner.prior, (n_labels,))
        _require_floats("knn.X", learner.X, (None, None))
        _require_floats("knn.Y", learner.Y, (learner.X.shape[0], n_labels))
        if learner.row_weight is not None:
            _require_floats("knn.row_weight", learner.row_weight, (learner.X.shape[0],))
            _require(bool((learner.row_weight > 0).all()), "knn.row_weight must be positive")
        _check_origins(learner.origins_n2, learner.X.shape[0])
    elif isinstance(learner, LabelNameLearner):
        _require_floats("label_names.states", learner.states_LH, (n_labels, None))
    elif isinstance(learner, ForestLearner):
        _check_forest(learner, n_labels)
    elif isinstance(learner, BoostedLearner):
        _check_boosted(learner, n_labels)
    elif isinstance(learner, KernelLearner):
        _check_kernel(learner, n_labels)


def _check_origins(origins_n2: np.ndarray, n: int) -> None:
    fits = origins_n2.shape == (n, 2) and origins_n2.dtype == np.int64
    _require(fits, f"knn.origins has shape {origins_n2.shape}, expected integers of {(n, 2)}")
    known = (origins_n2 >= 0).all() and (origins_n2[:, 0] < len(ORIGINS)).all()
    _require(known, "knn.origins: rows that come from nowhere")


def _check_forest(forest: ForestLearner, n_labels: int) -> None:
    """A walk down any tree must end, in a leaf that has rows."""
    fault = forest.trees.fault(len(forest.columns))
    _require(not fault, f"forest: {fault}")
    _require_floats("forest.threshold", forest.trees.threshold, (None,))
    _require_floats("forest.prior", forest.prior, (n_labels,))
    _require_floats("forest.Y", forest.Y, (None, n_labels))
    sizes, members = forest.leaf_sizes, forest.members
    _require(len(sizes) == forest.trees.n_leaves and (sizes > 0).all(), "forest: not every leaf has rows")
    _require(sizes.sum() == len(members), "forest: the rows of the leaves do not add up")
    exist = members.min(initial=0) >= 0 and members.max(initial=0) < forest.Y.shape[0]
    _require(exist, "forest: a leaf holds a row that does not exist")
    _require(forest.columns.min(initial=0) >= 0, "forest: a column that does not exist")


def _check_boosted(boosted: BoostedLearner, n_labels: int) -> None:
    """A walk down any tree must end, in a leaf that has a step for each label."""
    fault = boosted.trees.fault(len(boosted.columns))
    _require(not fault, f"boosted: {fault}")
    _require_floats("boosted.threshold", boosted.trees.threshold, (None,))
    _require_floats("boosted.start", boosted.start_L, (n_labels,))
    _require_floats("boosted.steps", boosted.steps_NL, (boosted.trees.n_leaves, n_labels))
    sizes = boosted.leaf_sizes
    _require(len(sizes) == boosted.trees.n_leaves and (sizes > 0).all(), "boosted: not every leaf has rows")
    _require(boosted.columns.min(initial=0) >= 0, "boosted: a column that does not exist")


def _check_kernel(kernel: KernelLearner, n_labels: int) -> None:
    _require_floats("kernel.X", kernel.X, (None, None))
    _require_floats("kernel.dual", kernel.dual_NL, (kernel.X.shape[0], n_labels))
    _require_floats("kernel.prior", kernel.prior, (n_labels,))
    _require(bool(((kernel.prior > 0) & (kernel.prior < 1)).all()), "kernel.prior must be between 0 and 1")
    _require(kernel.scale > 0 and kernel.ridge > 0, "kernel.settings must be positive")


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
