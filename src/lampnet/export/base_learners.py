"""Base learners as an ONNX graph: products for the linear model and the nearest rows, an operator for the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.boosted import MAX_ABS_LOGIT as BOOSTED_MAX_ABS_LOGIT
from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import ROUNDED, STEEPNESS, KernelLearner
from lampnet.base_learners.knn import NEIGHBOURS, SIMILARITY_POWER, KNNLearner
from lampnet.base_learners.linear import MAX_ABS_LOGIT, LinearLearner
from lampnet.base_learners.protocol import BaseLearner
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stored_matrix import dense
from lampnet.base_learners.trees import Trees
from lampnet.errors import ConfigError
from lampnet.export.graph import ML, Graph, Value
from lampnet.export.network import BaseLogits

#: reference rows with fewer entries than this share are compared entry by entry
SPARSE_BELOW = 0.1
#: shares stay this far from 0 and 1, as in the learners
MARGIN = 1e-4


def base_logits(graph: Graph, stack: Stack, features_BF: Value) -> BaseLogits:
    """The logits of all base learners, and stacked."""
    logits = [_learner(graph, learner, features_BF) for learner in stack.learners]
    scaled = [
        (own - np.ascontiguousarray(stack.centre[:, k])) / np.float32(stack.spread[k]) for k, own in enumerate(logits)
    ]
    weights = stack.weights
    stacked = scaled[0] * np.ascontiguousarray(weights.weights_LK[:, 0])
    for k, own in enumerate(scaled[1:], start=1):
        stacked = stacked + own * np.ascontiguousarray(weights.weights_LK[:, k])
    logits_BLK = graph.joined([own.unsqueezed(-1) for own in scaled], axis=-1)
    return BaseLogits(logits_BLK, stacked + weights.bias_L)


def _learner(graph: Graph, learner: BaseLearner, X: Value) -> Value:
    if isinstance(learner, LinearLearner):
        return graph.op("Clip", X @ learner.weights + learner.intercepts, -MAX_ABS_LOGIT, MAX_ABS_LOGIT)
    if isinstance(learner, KNNLearner):
        return _nearest_rows(graph, learner, X)
    if isinstance(learner, ForestLearner):
        return _forest(graph, learner, X)
    if isinstance(learner, BoostedLearner):
        return _boosted(graph, learner, X)
    if isinstance(learner, KernelLearner):
        return _kernel(graph, learner, X)
    raise ConfigError(f"the base learner {type(learner).__name__} cannot be exported; train without it")


def _nearest_rows(graph: Graph, learner: KNNLearner, X: Value) -> Value:
    count = min(NEIGHBOURS, learner.X.shape[0])
    unit = unit_rows(graph, X)
    cosine_Bn, order = _cosines(graph, learner, unit)
    nearest, places = graph.top(cosine_Bn, graph.value(np.array([count], np.int64)))
    square = graph.op("Max", nearest, 0.0)
    square = square * square
    assert SIMILARITY_POWER == 6
    weight = square * square * square
    weight = weight / graph.op("Max", weight.maximum(1), 1e-12)
    if learner.row_weight is not None:
        weight = weight * graph.value(learner.row_weight[order]).taken(places, axis=0)
    spread_Bn = graph.scattered(cosine_Bn * 0.0, places, weight)
    votes_BL = spread_Bn @ dense(learner.Y)[order]
    return _bounded_logit(graph, (votes_BL + learner.prior) / (weight.summed(1) + 1.0))


def _cosines(graph: Graph, learner: KNNLearner, unit_BF: Value) -> tuple[Value, np.ndarray]:
    """The cosine of every row with every reference row, and in which order these stand."""
    references = learner.X
    n, features = references.shape
    if not sparse.issparse(references):
        return unit_BF @ np.ascontiguousarray(references.T), np.arange(n)
    if references.nnz >= SPARSE_BELOW * n * features:
        return unit_BF @ np.ascontiguousarray(references.toarray().T), np.arange(n)
    # Reference rows of similar length stand together, so that little padding is multiplied.
    references = sparse.csr_matrix(references)
    order = np.argsort(np.diff(references.indptr), kind="stable")
    references = references[order]
    lengths = np.maximum(1, np.diff(references.indptr))
    bounds = np.flatnonzero(np.diff(np.ceil(np.log2(lengths)))) + 1
    blocks = [_padded(references[a:b]) for a, b in zip([0, *bounds], [*bounds, n], strict=True)]

    def of_row(row_F: Value) -> Value:
        return graph.joined([(row_F.taken(ids, axis=0) * values).summed(1, keep=False) for ids, values in blocks], 0)

    return graph.for_each_row(unit_BF, of_row, (features, n)), order


def _padded(rows: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Column numbers and values (n, longest row), zeros where a row ends."""
    lengths = np.diff(rows.indptr)
    place = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    ids, values = np.zeros(place.shape, np.int32), np.zeros(place.shape, np.float32)
    ids[place], values[place] = rows.indices, rows.data
    return ids, values


def _forest(graph: Graph, forest: ForestLearner, X: Value) -> Value:
    seen = X.taken(forest.columns.astype(np.int64), axis=1)
    total_BL = graph.op("TreeEnsembleRegressor", seen, domain=ML, **_tree_tables(forest.trees, forest.leaf_shares()))
    return _bounded_logit(graph, (total_BL + forest.prior) / float(len(forest.trees) + 1))


def _boosted(graph: Graph, boosted: BoostedLearner, X: Value) -> Value:
    shown = X.taken(boosted.columns.astype(np.int64), axis=1)
    total_BL = graph.op("TreeEnsembleRegressor", shown, domain=ML, **_tree_tables(boosted.trees, boosted.steps_NL))
    return graph.op("Clip", total_BL + boosted.start_L, -BOOSTED_MAX_ABS_LOGIT, BOOSTED_MAX_ABS_LOGIT)


def _kernel(graph: Graph, kernel: KernelLearner, X: Value) -> Value:
    """In double precision: the distance of like rows is a small difference of large numbers."""
    stored_NF, dual_NL = dense(kernel.X).astype(np.float64), kernel.dual_NL.astype(np.float64)
    X = X.cast(np.float64)
    product_Bn = X @ np.ascontiguousarray(-2 * stored_NF.T)
    square_Bn = (X * X).summed(1) + (stored_NF**2).sum(axis=1) + product_Bn
    root_Bn = graph.op(
        "Sqrt", graph.op("Max", square_Bn, np.float64(0)) / np.float64(kernel.scale**2) + np.float64(ROUNDED**2)
    )
    score_BL = (graph.op("Exp", -root_Bn) + np.float64(1)) @ (STEEPNESS * dual_NL)
    return graph.op("Asinh", score_BL.cast(np.float32))


def _tree_tables(trees: Trees, leaf_values: Any) -> dict[str, Any]:
    """The trees as ai.onnx.ml wants them; a leaf's targets are its values (leaves, L), dense or sparse."""
    tree = np.repeat(np.arange(len(trees)), trees.nodes)
    node = np.arange(len(tree)) - np.repeat(np.cumsum(trees.nodes) - trees.nodes, trees.nodes)
    right = trees.right_children()
    first = np.arange(len(tree)) - node
    feature, threshold = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.float32)
    inner = ~trees.is_leaf
    feature[inner], threshold[inner] = trees.feature, trees.threshold
    values = sparse.csr_matrix(leaf_values)
    leaves = np.flatnonzero(trees.is_leaf)
    leaf = np.repeat(leaves, np.diff(values.indptr))
    return {
        "n_targets": values.shape[1],
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": node.tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_values": threshold.tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_truenodeids": np.where(inner, node + 1, 0).tolist(),
        "nodes_falsenodeids": np.where(inner, right - first, 0).tolist(),
        "nodes_missing_value_tracks_true": np.zeros(len(tree), np.int64).tolist(),
        "target_treeids": tree[leaf].tolist(),
        "target_nodeids": node[leaf].tolist(),
        "target_ids": values.indices.tolist(),
        "target_weights": values.data.astype(np.float32).tolist(),
    }


def unit_rows(graph: Graph, X: Value) -> Value:
    """Each row divided by its length; empty rows stay empty."""
    return X / graph.op("Max", graph.op("Sqrt", (X * X).summed(1)), 1e-12)


def _bounded_logit(graph: Graph, share: Value) -> Value:
    p = graph.op("Clip", share, MARGIN, 1 - MARGIN)
    return graph.op("Log", p / (graph.value(1.0) - p))
