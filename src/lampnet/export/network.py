"""The network of `model/lamp.py` and `model/stacked.py` as an ONNX graph, for prediction.

Axes as there: B rows, S input nodes, R receiving nodes, L labels, M labels of the shortlist, H heads, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import nn

from lampnet.export.graph import Graph, Value
from lampnet.export.nodes import Embedded, Nodes, array, embedded, linear
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels.self_loops import SelfLoopMessagePassing
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import MessagePassing
from lampnet.model.stacked import StackedLaMP
from lampnet.model.typed_edges import TypedMessagePassing

#: as `closed_bias` has it
CLOSED = float(torch.finfo(torch.bfloat16).min)


@dataclass(frozen=True)
class Sources:
    """Which nodes send to which: what is added to the scores, rows without any node, and edge types."""

    bias: Value | None = None
    empty_rows: Value | None = None
    edge_types: Value | None = None
    self_loops_only: bool = False

    @classmethod
    def present(cls, graph: Graph, present_BS: Value | None) -> Sources:
        """All nodes that are there."""
        if present_BS is None:
            return cls()
        return cls(
            closed(graph, present_BS.negated()).unsqueezed(1, 2),
            present_BS.any(1, keep=True).negated().unsqueezed(-1),
        )

    @classmethod
    def along_edges(cls, graph: Graph, edge_types_BSS: Value) -> Sources:
        """A node itself and those with an edge to it."""
        number = graph.op("Range", np.int64(0), graph.op("Squeeze", edge_types_BSS.size(1)), np.int64(1))
        itself = number.unsqueezed(0).equals(number.unsqueezed(1))
        bias = closed(graph, ((edge_types_BSS > np.int64(0)) | itself).negated())
        return cls(bias.unsqueezed(1), edge_types=edge_types_BSS)


@dataclass(frozen=True)
class Labels:
    """See `model.lamp.LabelNodes`."""

    states: Value
    vectors: Value
    sources: Sources
    initial_BL: Value | None
    stacked: Value | None
    shortlist_BM: Value | None


def ensemble_logits(graph: Graph, network: Ensemble, nodes: Nodes, base: BaseLogits | None) -> Value:
    """Final logits (B, L), the mean of the members."""
    members = [_Member(graph, member, nodes, base) for member in network.networks]
    shortlist_BM = None
    if 0 < network.shortlist < network.n_labels:
        initial = [member.initial_BL for member in members if member.initial_BL is not None]
        shortlist_BM = graph.top(initial[0] if base is not None else graph.mean(initial), _count(network.shortlist))[1]
    return graph.mean([member.logits(shortlist_BM) for member in members])


@dataclass(frozen=True)
class BaseLogits:
    """base_logits_BLK of the base learners and stacked_BL, the same under the stacking weights."""

    logits_BLK: Value
    stacked_BL: Value

    def first_labels(self, count: int) -> BaseLogits:
        """The same of the first labels only."""
        return BaseLogits(self.logits_BLK.sliced(0, count, 1), self.stacked_BL.sliced(0, count, 1))


class _Member:
    """One network of the ensemble."""

    def __init__(self, graph: Graph, network: StackedLaMP, nodes: Nodes, base: BaseLogits | None) -> None:
        self.graph, self.network, self.base = graph, network, base
        self.input = self._pass_among_features(embedded(graph, network.embedding, nodes))
        self.from_input = Sources.present(graph, self.input.present_BS)
        self.initial_BL = base.stacked_BL if base is not None else self._initial_logits()

    def logits(self, shortlist_BM: Value | None) -> Value:
        """The logits of the last stage, (B, L)."""
        labels = self._label_nodes(shortlist_BM)
        u = labels.states
        for xy, yy in zip(self.network.xy, self.network.yy, strict=True):
            u = passed(self.graph, cast(MessagePassing, xy), u, self.input.z_BSD, self.from_input)
            u = passed(self.graph, cast(MessagePassing, yy), u, None, labels.sources)
        return self._readout(u, labels)

    def _pass_among_features(self, made: Embedded) -> Embedded:
        z_BSD = made.z_BSD
        for xx in self.network.xx:
            if made.edge_types_BSS is None:
                among = Sources.present(self.graph, made.present_BS)
            else:
                among = Sources.along_edges(self.graph, made.edge_types_BSS)
            z_BSD = passed(self.graph, cast(MessagePassing, xx), z_BSD, None, among)
        return Embedded(z_BSD, made.present_BS, made.edge_types_BSS)

    def _initial_logits(self) -> Value | None:
        network, graph = self.network, self.graph
        if network.initial_gate is not None:
            z, present = self.input.z_BSD, self.input.present_BS
            if present is None:
                mean_BD = graph.op("ReduceMean", z, np.array([1], np.int64), keepdims=0)
            else:
                there = present.cast(np.float32)
                counts = graph.op("Max", there.summed(1), 1.0)
                mean_BD = (z * there.unsqueezed(-1)).summed(1, keep=False) / counts
            scale = network.readout_scale * network.initial_gate.item()
            initial = mean_BD @ array(network.W_y.T) * scale
            return initial if network.bias is None else initial + array(network.bias)
        if not network.shortlist:
            return None
        every = Labels(graph.value(array(network.W_y)[None]), graph.value(array(network.W_y)), Sources(), *[None] * 3)
        u = passed(graph, cast(MessagePassing, network.xy[0]), every.states, self.input.z_BSD, self.from_input)
        return self._readout(u, every)

    def _label_nodes(self, shortlist_BM: Value | None) -> Labels:
        graph, network = self.graph, self.network
        vectors, stacked = graph.value(array(network.W_y)), None if self.base is None else self.base.stacked_BL
        base_logits = None if self.base is None else self.base.logits_BLK
        if shortlist_BM is not None:
            vectors = vectors.taken(shortlist_BM, axis=0)
            stacked = None if stacked is None else stacked.taken_along(shortlist_BM, axis=1)
            if base_logits is not None:
                learners = network.base_vector.shape[0]
                place = shortlist_BM.unsqueezed(-1) + np.zeros((1, 1, learners), np.int64)
                base_logits = base_logits.taken_along(place, axis=1)
        states = vectors.unsqueezed(0) if shortlist_BM is None else vectors
        if base_logits is not None:
            states = states + base_logits @ array(network.base_vector)
        sources = label_sources(graph, network.graph, shortlist_BM)
        return Labels(states, vectors, sources, self.initial_BL, stacked, shortlist_BM)

    def _readout(self, u: Value, labels: Labels) -> Value:
        graph, network = self.graph, self.network
        scale = network.readout_scale * (1.0 if network.gate is None else network.gate.item())
        logits = (u * labels.vectors).summed(-1, keep=False) * scale
        if labels.stacked is not None:
            logits = logits + labels.stacked
        if network.bias is not None:
            bias = graph.value(array(network.bias))
            logits = logits + (bias if labels.shortlist_BM is None else bias.taken(labels.shortlist_BM, axis=0))
        if labels.shortlist_BM is None:
            return logits
        assert labels.initial_BL is not None
        return graph.scattered(labels.initial_BL, labels.shortlist_BM, logits)


def label_sources(graph: Graph, labels: LabelGraph, shortlist_BM: Value | None) -> Sources:
    """Which labels, or which of the shortlist, exchange messages."""
    if labels.kind == "full":
        return Sources()
    if labels.kind == "edgeless":
        return Sources(self_loops_only=True)
    pairs = labels.open_pairs().numpy()
    if shortlist_BM is None:
        return Sources(closed(graph, graph.value(~pairs)))
    place = shortlist_BM.unsqueezed(-1) * np.int64(labels.n_labels) + shortlist_BM.unsqueezed(1)
    return Sources(closed(graph, graph.value(~pairs.ravel()).taken(place, axis=0)).unsqueezed(1))


def passed(graph: Graph, block: MessagePassing, v: Value, sources: Value | None, neighbours: Sources) -> Value:
    """The states after one MPNN: `MessagePassing.forward`."""
    if block.pre_norm:
        x = _normed(graph, block.message_norm, v)
        m = v + _messages(graph, block, x, x if sources is None else sources, neighbours)
        return m + _update(graph, block, _normed(graph, block.update_norm, m))
    m = _normed(
        graph, block.message_norm, v + _messages(graph, block, v, v if sources is None else sources, neighbours)
    )
    return _normed(graph, block.update_norm, m + _update(graph, block, m))


def _messages(graph: Graph, block: MessagePassing, v: Value, sources: Value, neighbours: Sources) -> Value:
    if neighbours.self_loops_only:
        assert isinstance(block, SelfLoopMessagePassing)
        return linear(graph, block.W_c, linear(graph, block.W_v, sources))
    heads, width = block.heads, block.W_q.in_features

    def split(x: Value) -> Value:
        return x.reshaped(0, 0, heads, width // heads).transposed(0, 2, 1, 3)

    q = split(graph.value(v) @ (array(block.W_q.weight.T) * np.float32(block.scale)))
    u, values = split(linear(graph, block.W_u, sources)), split(linear(graph, block.W_v, sources))
    scores = q @ u.transposed(0, 1, 3, 2)  # eq. 5
    if isinstance(block, TypedMessagePassing) and neighbours.edge_types is not None:
        message = _typed(graph, block, q, scores, values, neighbours)
    else:
        message = _attention(graph, scores, neighbours) @ values  # eq. 3 and 6
    message = linear(graph, block.W_c, message.transposed(0, 2, 1, 3).reshaped(0, 0, width))
    return message if neighbours.empty_rows is None else graph.where(neighbours.empty_rows, 0.0, message)


def _attention(graph: Graph, scores: Value, neighbours: Sources) -> Value:
    return graph.op("Softmax", scores if neighbours.bias is None else scores + neighbours.bias, axis=-1)


def _typed(
    graph: Graph, block: TypedMessagePassing, q: Value, scores: Value, values: Value, neighbours: Sources
) -> Value:
    """Messages in which each edge type adds its own vector to the source's key and message."""
    assert neighbours.edge_types is not None
    key, sent = (_by_head(array(table), block.heads) for table in (block.edge_key, block.edge_message))
    by_type_BHRE = q @ key.transpose(0, 2, 1)
    shape = graph.op("Shape", scores)
    type_BHRS = graph.op("Expand", neighbours.edge_types.unsqueezed(1), shape)
    alpha = _attention(graph, scores + by_type_BHRE.taken_along(type_BHRS, axis=-1), neighbours)
    weights = [(alpha * type_BHRS.equals(np.int64(kind)).cast(np.float32)).summed(-1) for kind in range(key.shape[1])]
    return alpha @ values + graph.joined(weights, axis=-1) @ sent


def _by_head(table_ED: np.ndarray, heads: int) -> np.ndarray:
    """(H, E, C)."""
    return np.ascontiguousarray(table_ED.reshape(len(table_ED), heads, -1).transpose(1, 0, 2))


def _update(graph: Graph, block: MessagePassing, m: Value) -> Value:
    return linear(graph, block.W_b, graph.op("Relu", linear(graph, block.W_r, m)))  # eq. 8


def _normed(graph: Graph, norm: nn.LayerNorm, x: Value) -> Value:
    return graph.op("LayerNormalization", x, array(norm.weight), array(norm.bias), axis=-1, epsilon=norm.eps)


def closed(graph: Graph, pairs: Value) -> Value:
    """Zero where a pair is open, a very negative number where it is closed."""
    return graph.where(pairs, CLOSED, 0.0)


def _count(number: int) -> np.ndarray:
    return np.array([number], np.int64)
