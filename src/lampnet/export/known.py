"""Prediction given known labels as an ONNX graph: `inference/conditional.py` and the tables behind it.

Axes as there: B rows, L labels, m labels that take part in the tables, K known labels of a row, C shifts.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.special import logit

from lampnet.base_learners import label_covariance, label_sets
from lampnet.base_learners.label_dependence import LabelDependence
from lampnet.base_learners.shift_weights import MOST_TRUE, ShiftWeights, bounds
from lampnet.export.graph import Graph, Value
from lampnet.export.hierarchy import implied, lowered
from lampnet.export.network import label_sources, passed
from lampnet.export.nodes import array
from lampnet.inference.conditional import KNOWN_LOGIT, Conditional
from lampnet.model.label_states import LabelStates
from lampnet.model.lamp import MessagePassing

DOUBLE = np.float64


def given_known(graph: Graph, conditional: Conditional, logits_BL: Value, known: Value) -> tuple[Value, Value]:
    """Logits and probabilities given what is known; `known` int8 (B or 1, L): 1 true, -1 false, 0 unknown."""
    states = graph.op("Expand", known.cast(np.int64), graph.op("Shape", logits_BL))
    hierarchy = conditional.hierarchy
    if hierarchy is not None:
        states = implied(graph, hierarchy, states)
    is_known = states.equals(np.int64(0)).negated()
    anything = graph.op("ReduceMax", is_known.cast(np.int32), keepdims=0).cast(bool)

    def shifted() -> Value:
        free = _free_logits(graph, conditional, logits_BL, states)
        some_B1 = is_known.any(1, keep=True)
        return graph.where(
            is_known, states.cast(np.float32) * float(KNOWN_LOGIT), graph.where(some_B1, free, logits_BL)
        )

    logits = graph.chosen(anything, shifted, lambda: logits_BL)
    if hierarchy is not None:
        logits = lowered(graph, hierarchy, logits)
    proba = graph.op("Sigmoid", logits)
    return logits, graph.where(is_known, (states > np.int64(0)).cast(np.float32), proba)


def _free_logits(graph: Graph, conditional: Conditional, logits: Value, states: Value) -> Value:
    shifts = _shifts(graph, conditional.dependence, logits, states)
    shifted = _weighted(graph, conditional.shift_weights, logits, shifts, states)
    if not conditional.members:
        return shifted
    given = graph.joined([one.unsqueezed(-1) for one in (shifted, logits, *shifts)], axis=-1)
    corrected = graph.mean([_member(graph, own, shifted, logits, given, states) for own in conditional.members])
    return shifted + (corrected - shifted) * float(np.float32(conditional.correction))


def _weighted(graph: Graph, weights: ShiftWeights, logits: Value, shifts: list[Value], states: Value) -> Value:
    """`ShiftWeights.shifted`, of rows about which something is known."""
    true, false = ((states.equals(np.int64(way))).cast(np.float32).summed(1) for way in (1, -1))
    log_true = graph.op("Log", graph.op("Clip", true, np.float32(1), np.float32(MOST_TRUE)))
    share = graph.op("Sqrt", (true + false) / graph.op("Shape", states, start=1, end=2).cast(np.float32))
    refused = (false > np.float32(0)).cast(np.float32)
    how = graph.joined([true * 0.0 + 1.0, log_true / float(2 * np.log(2)), share, refused], axis=1)
    low, high = bounds(weights.n_shifts)
    weight = graph.op("Min", graph.op("Max", how @ weights.table_PC, low[None]), high[None])
    each = [weight.sliced(at, at + 1, 1) for at in range(2 + weights.n_shifts)]
    shifted = logits + each[0] * logits + each[1]
    for shift, counts in zip(shifts, each[2:], strict=True):
        shifted = shifted + shift * counts
    return shifted


def _member(
    graph: Graph, network: LabelStates, initial: Value, logits: Value, given_BLC: Value, states: Value
) -> Value:
    """`LabelStates.forward`: label messages that correct the shifted logits."""
    L, N = network.n_labels, network.config.shortlist
    if 0 < N < L:
        promising = graph.where(states < np.int64(0), logits, initial)
        ranked = graph.where(states > np.int64(0), np.float32(np.inf), promising)
        nodes_BN = graph.top(ranked, graph.value(np.array([N], np.int64)))[1]
        place = nodes_BN.unsqueezed(-1) + np.zeros((1, 1, len(array(network.logit_vector))), np.int64)
        given_BLC, states = given_BLC.taken_along(place, axis=1), states.taken_along(nodes_BN, axis=1)
        vectors, readout = (graph.value(array(one)).taken(nodes_BN, axis=0) for one in (network.W_y, network.W_o))
        sources = label_sources(graph, network.graph, nodes_BN)
    else:
        nodes_BN = None
        vectors, readout = graph.value(array(network.W_y)), graph.value(array(network.W_o))
        sources = label_sources(graph, network.graph, None)
    u = vectors + graph.value(array(network.state_vector)).taken(states + np.int64(1), axis=0)
    u = u + given_BLC @ array(network.logit_vector)
    for yy in network.yy:
        u = passed(graph, cast(MessagePassing, yy), u, None, sources)
    norm = network.norm
    u = graph.op("LayerNormalization", u, array(norm.weight), array(norm.bias), axis=-1, epsilon=norm.eps)
    correction = (u * (readout + array(network.w_o))).summed(-1, keep=False)
    return initial + correction if nodes_BN is None else graph.scattered(initial, nodes_BN, correction, add=True)


def _shifts(graph: Graph, dependence: LabelDependence, logits: Value, states: Value) -> list[Value]:
    """`LabelDependence.shifts`, one (B, L) for each kind."""
    labels = dependence.labels_m
    everyone = len(labels) and labels[-1] + 1 == len(labels)
    own_logits = logits if everyone else logits.taken(labels, axis=1)
    own_states = states if everyone else states.taken(labels, axis=1)
    shifts = [
        _by_cooccurrence(graph, dependence.shifts_mm, own_states),
        _by_covariance(graph, dependence.covariance_mm, own_logits, own_states),
    ]
    if dependence.sets is not None:
        shifts.append(_by_label_sets(graph, dependence.sets, own_states))
    if everyone:
        return shifts
    place = states.taken(labels, axis=1) * np.int64(0) + labels
    return [graph.scattered(logits * 0.0, place, shift) for shift in shifts]


def _by_cooccurrence(graph: Graph, shifts_mm: np.ndarray, states: Value) -> Value:
    true = (states > np.int64(0)).cast(np.float32)
    return true @ shifts_mm / graph.op("Sqrt", graph.op("Max", true.summed(1), 1.0))


def _by_covariance(graph: Graph, covariance_mm: np.ndarray, logits: Value, states: Value) -> Value:
    """`covariance_shift`: the residuals of known labels, and what they say about the others."""
    m = len(covariance_mm)
    p = graph.op("Sigmoid", logits)
    known = states.equals(np.int64(0)).negated()
    residual = graph.where(known, (states > np.int64(0)).cast(np.float32) - p, 0.0)
    most = known.cast(np.int64).summed(1).maximum(0).reshaped(1)
    most = graph.op("Min", graph.op("Max", most, np.array([1])), np.array([min(m, label_covariance.MOST_KNOWN)]))
    chosen_BK = graph.top(graph.where(known, graph.op("Abs", residual), -1.0), most)[1]
    there = known.taken_along(chosen_BK, axis=1)
    pair = chosen_BK.unsqueezed(-1) * np.int64(m) + chosen_BK.unsqueezed(1)
    S = graph.value(np.ascontiguousarray(covariance_mm).ravel()).taken(pair, axis=0).cast(DOUBLE)
    S = graph.where(there.unsqueezed(-1) & there.unsqueezed(1), S, DOUBLE(0))
    number = graph.op("Range", np.int64(0), graph.op("Squeeze", most), np.int64(1))
    itself = number.unsqueezed(0).equals(number.unsqueezed(1)).cast(DOUBLE)
    variance = (S * itself).summed(-1, keep=False)
    ridge = variance * DOUBLE(label_covariance.RIDGE) + DOUBLE(label_covariance.LEAST_VARIANCE)
    S = S + itself * graph.where(there, ridge, DOUBLE(1)).unsqueezed(-1)
    right = residual.taken_along(chosen_BK, axis=1).cast(DOUBLE)
    weight_BK = _solved(graph, S, right, number).cast(np.float32)
    weight_Bm = graph.scattered(residual * 0.0, chosen_BK, weight_BK)
    low, high = np.float32(label_covariance.MARGIN), np.float32(1 - label_covariance.MARGIN)
    moved = graph.op("Clip", p + weight_Bm @ covariance_mm, low, high)
    return _logit(graph, moved) - _logit(graph, graph.op("Clip", p, low, high))


def _solved(graph: Graph, S_BKK: Value, right_BK: Value, number_K: Value) -> Value:
    """S^-1 right, by Gauss-Jordan elimination: S is positive definite, so no pivot is zero."""
    whole = graph.joined([S_BKK, right_BK.unsqueezed(-1)], axis=-1)

    def eliminate(k: Value, state: Value) -> Value:
        k = k.reshaped(1)
        column = state.taken(k, axis=2)
        row = state.taken(k, axis=1)
        row = row / row.taken(k, axis=2)
        return graph.where(number_K.equals(k).unsqueezed(0, 2), row, state - column * row)

    solved = graph.repeated(graph.op("Squeeze", number_K.size(0)), whole, eliminate)
    return graph.op("Squeeze", solved.sliced(-1, np.iinfo(np.int64).max, 2), np.array([2]))


def _by_label_sets(graph: Graph, sets: label_sets.LabelSets, states: Value) -> Value:
    """`LabelSets.shift`."""
    prior = sets.prior_m
    if not len(sets.count_S):
        return states.cast(np.float32) * 0.0
    no = graph.where(states < np.int64(0), DOUBLE(-1), DOUBLE(0))
    worth = graph.where(states > np.int64(0), -np.log(prior).astype(DOUBLE)[None], no)
    has = graph.value(sets.sets_Sm.toarray().astype(np.uint8)).cast(np.float32)
    match = worth.cast(np.float32) @ has.transposed(1, 0)
    weight = graph.op("Exp", match - match.maximum(1))
    rows = weight * sets.count_S

    def with_label(rows_BS: Value) -> Value:
        return (rows_BS @ has).cast(DOUBLE)

    owed = graph.op("Exp", -worth)
    of_label = with_label(rows)
    true = of_label * owed
    total = graph.op("Max", rows.summed(1).cast(DOUBLE) - of_label, DOUBLE(0)) + true
    known = total
    if sets.unknown_Sm.nnz:
        unknown = graph.value(sets.unknown_Sm.toarray().astype(np.uint8)).cast(np.float32)
        known = total - (rows @ unknown).cast(DOUBLE)
    squares = rows * weight
    of_label = with_label(squares)
    square = graph.op("Max", squares.summed(1).cast(DOUBLE) - of_label, DOUBLE(0)) + of_label * owed * owed
    effective = total * total / graph.op("Max", square, DOUBLE(1e-30))
    share = true / graph.op("Max", known, total * DOUBLE(1e-6))
    pseudo = DOUBLE(label_sets.PSEUDO_COUNT)
    share = (effective * share + pseudo * prior.astype(DOUBLE)) / (effective + pseudo)
    share = graph.op("Max", graph.op("Min", share, DOUBLE(1 - label_sets.MARGIN)), DOUBLE(label_sets.MARGIN))
    shift = (_logit(graph, share, DOUBLE) - logit(prior).astype(DOUBLE)).cast(np.float32)
    return graph.where(states.equals(np.int64(0)).negated().any(1, keep=True), shift, 0.0)


def _logit(graph: Graph, p: Value, kind: type = np.float32) -> Value:
    return graph.op("Log", p / (graph.value(kind(1)) - p))
