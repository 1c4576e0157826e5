"""The nodes of rows inside the graph, and W^x, which gives each a vector.

Axes as in `model/lamp.py`; the equations are those of the embeddings in `encoders/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from lampnet.encoders.columns import ColumnVectors
from lampnet.encoders.dna import MotifNodes
from lampnet.encoders.image import Patches
from lampnet.encoders.molecule import Atoms
from lampnet.encoders.nodes import sinusoidal
from lampnet.encoders.parts import PartVectors
from lampnet.encoders.text import PositionedWordVectors, WeightedPositions
from lampnet.encoders.vector import LinearNode
from lampnet.encoders.wordset import WordVectors
from lampnet.errors import ConfigError
from lampnet.export.graph import Graph, Value


@dataclass(frozen=True)
class Nodes:
    """Rows as nodes, see `NodeBatch`.

    present_BS      None where every row has all of them
    positions       (B, S) numbers, or a fixed (S, P) array
    edge_types_BSS  int64
    """

    present_BS: Value | None = None
    ids_BS: Value | None = None
    values_BS: Value | None = None
    vectors_BSF: Value | None = None
    positions: Any = None
    edge_types_BSS: Value | None = None
    parts: tuple[Nodes, ...] = ()


@dataclass(frozen=True)
class Embedded:
    """Node vectors z_BSD, which of them are there, and edges."""

    z_BSD: Value
    present_BS: Value | None
    edge_types_BSS: Value | None = None


def embedded(graph: Graph, embedding: nn.Module, nodes: Nodes) -> Embedded:
    """What `embedding` makes of the nodes."""
    if isinstance(embedding, PartVectors):
        return _parts(graph, embedding, nodes)
    if isinstance(embedding, MotifNodes):
        return Embedded(_motifs(graph, embedding, nodes), nodes.present_BS)
    if isinstance(embedding, LinearNode):
        z = linear(graph, embedding.projection, nodes.vectors_BSF)
    elif isinstance(embedding, WordVectors):
        z = _scaled(graph, embedding.vectors, nodes)
        if isinstance(embedding, PositionedWordVectors):
            z = z + _positions(graph, embedding, nodes, embedding.vectors.embedding_dim)
    elif isinstance(embedding, ColumnVectors):
        z = _scaled(graph, embedding.scale, nodes) + _looked_up(graph, embedding.vector, nodes)
    elif isinstance(embedding, Atoms):
        assert nodes.vectors_BSF is not None
        z = linear(graph, embedding.projection, nodes.vectors_BSF) + _looked_up(graph, embedding.surroundings, nodes)
    elif isinstance(embedding, Patches):
        assert nodes.vectors_BSF is not None
        z = linear(graph, embedding.projection, (nodes.vectors_BSF - array(embedding.mean)) / array(embedding.spread))
        positions = sinusoidal(torch.from_numpy(nodes.positions)[None], embedding.projection.out_features)
        z = z + array(embedding.position_weight * positions)
    else:
        raise ConfigError(
            f"nodes made by {type(embedding).__name__} cannot be exported: a pretrained text encoder is a model of its "
            "own; train without --pretrained, or serve this model with lampnet serve"
        )
    return Embedded(z, nodes.present_BS, nodes.edge_types_BSS)


def linear(graph: Graph, layer: nn.Linear, x: Any) -> Value:
    """x W^T + b."""
    product = graph.value(x) @ array(layer.weight.T)
    return product if layer.bias is None else product + array(layer.bias)


def array(tensor: Any) -> np.ndarray:
    """The numbers of a trained tensor."""
    numbers: np.ndarray = tensor.detach().float().numpy()
    return numbers


def _looked_up(graph: Graph, table: nn.Embedding, nodes: Nodes) -> Value:
    return graph.value(array(table.weight)).taken(nodes.ids_BS, axis=0)


def _scaled(graph: Graph, table: nn.Embedding, nodes: Nodes) -> Value:
    assert nodes.values_BS is not None
    return _looked_up(graph, table, nodes) * nodes.values_BS.unsqueezed(-1)


def _positions(graph: Graph, embedding: PositionedWordVectors, nodes: Nodes, width: int) -> Value:
    """As `sinusoidal`, of positions that are known only when rows come."""
    share = width // 2 * 2
    rates = np.exp(np.arange(0, share, 2, dtype=np.float32) * np.float32(-np.log(10_000.0) / share))
    angles = nodes.positions.cast(np.float32).unsqueezed(-1) * rates
    codes = graph.joined([graph.op(f, angles).unsqueezed(-1) for f in ("Sin", "Cos")], axis=-1).reshaped(0, 0, share)
    if share < width:
        codes = graph.op("Pad", codes, np.array([0, 0, 0, 0, 0, width - share], np.int64))
    return codes * array(embedding.position_weight) if isinstance(embedding, WeightedPositions) else codes


def _motifs(graph: Graph, embedding: MotifNodes, nodes: Nodes) -> Value:
    convolution, pool = embedding.convolution, embedding.pool
    assert convolution.bias is not None
    bases_BAW = graph.value(array(embedding.one_hot)).taken(nodes.vectors_BSF, axis=0).transposed(0, 2, 1)
    left, right = embedding.margins
    found_BDW = graph.op(
        "Conv", bases_BAW, array(convolution.weight), array(convolution.bias),
        kernel_shape=list(convolution.kernel_size), pads=[left, right],
    )  # fmt: skip
    pooled = graph.op(
        "MaxPool", graph.op("Relu", found_BDW), kernel_shape=[pool], strides=[pool], ceil_mode=1
    ).transposed(0, 2, 1)
    places = torch.arange(len(nodes.positions))[None, :, None]
    return pooled + array(sinusoidal(places, convolution.out_channels))


def _parts(graph: Graph, embedding: PartVectors, nodes: Nodes) -> Embedded:
    """The nodes of all parts behind each other; their order does not matter to attention."""
    made = [embedded(graph, own, part) for own, part in zip(embedding.embeddings, nodes.parts, strict=True)]
    if any(part.edge_types_BSS is not None for part in made):
        raise ConfigError(
            "rows of several parts with a molecule among them cannot be exported: its bonds would meet the other "
            "parts; train on the molecule alone, or serve this model with lampnet serve"
        )
    vectors = array(embedding.vectors)
    z = graph.joined([part.z_BSD + vector for part, vector in zip(made, vectors, strict=True)], axis=1)
    return Embedded(z, graph.joined([there(graph, part) for part in made], axis=1))


def there(graph: Graph, part: Embedded) -> Value:
    """Which nodes are present, bool (B, S)."""
    if part.present_BS is not None:
        return part.present_BS
    return graph.filled(graph.op("Shape", part.z_BSD, end=2), True, bool)


def without_rows(graph: Graph, nodes: Nodes, present_B1: Value, length: int) -> Nodes:
    """Nodes of a part that some rows do not have."""
    if nodes.present_BS is None:
        return replace(nodes, present_BS=present_B1 & np.ones((1, length), bool))
    return replace(nodes, present_BS=nodes.present_BS & present_B1)
