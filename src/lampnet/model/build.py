"""Untrained networks for given settings, inputs and labels."""

from __future__ import annotations

from functools import partial

from scipy import sparse

from lampnet.config import Config, ModelConfig
from lampnet.encoders.base import Embedding, Encoder
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels import sparse_attention
from lampnet.model.kernels.self_loops import SelfLoopMessagePassing
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import Block, Blocks, MessagePassing
from lampnet.model.stacked import StackedLaMP
from lampnet.model.typed_edges import TypedMessagePassing
from lampnet.runtime.torch_state import seeded

#: how far apart the seeds of an ensemble's members are
MEMBER_SEEDS = 1000


def build_ensemble(config: Config, n_labels: int, encoder: Encoder, adjacency: sparse.csr_matrix | None) -> Ensemble:
    """An untrained ensemble of `training.folds` networks."""
    members = range(max(1, config.training.folds))
    return Ensemble(build_member(config, n_labels, encoder, adjacency, number) for number in members)


def build_member(
    config: Config, n_labels: int, encoder: Encoder, adjacency: sparse.csr_matrix | None, number: int = 0
) -> StackedLaMP:
    """One untrained network; each number starts from other random weights."""
    with seeded(member_seed(config.training.seed, number)):
        embedding = encoder.embedding(config.model.width)
        graph = LabelGraph(config.label_graph, adjacency, n_labels)
        return build_network(config.model, embedding, graph, encoder.edge_types)


def build_network(config: ModelConfig, embedding: Embedding, graph: LabelGraph, edge_types: int = 0) -> StackedLaMP:
    """One untrained network from torch's current random state."""
    xx: Block = partial(TypedMessagePassing, edge_types=edge_types) if edge_types else MessagePassing
    return StackedLaMP(config, embedding, graph, Blocks(xx, _label_block(graph)))


def _label_block(graph: LabelGraph) -> Block:
    """MPNN_yy by the kernel that suits the graph."""
    if graph.kind == "edgeless":
        return SelfLoopMessagePassing
    if graph.adjacency is not None and sparse_attention.is_worth_it(graph.adjacency):
        return partial(sparse_attention.SparseMessagePassing, adjacency=graph.adjacency)
    return MessagePassing


def member_seed(seed: int, number: int) -> int:
    """A member's own seed; it stays in the range that every generator takes.

    >>> member_seed(1, 2), member_seed(2**32 - 1, 1)
    (2001, 999)
    """
    return (seed + MEMBER_SEEDS * number) % 2**32
