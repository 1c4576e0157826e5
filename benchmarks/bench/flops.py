"""The floating-point operations that the equations need per row; one multiply-and-add counts as two.

Counted are the matrix products, scores, weighted sums and readouts. Norms, softmax, dropout and the
optimizer are not, so their time lowers the utilisation.
"""

from __future__ import annotations

from lampnet.config import ModelConfig


def forward_flops(config: ModelConfig, labels: int, nodes: int, edges_a_label: int = 0) -> int:
    """Operations of one row's prediction.

    Parameters
    ----------
    config : the network; `shortlist` lets only that many labels take part
    labels : L
    nodes : S
    edges_a_label : sources of each label in a sparse graph; 0 for all labels

    >>> small = ModelConfig(width=2, heads=1, steps=1, base_learners=())
    >>> forward_flops(small, labels=3, nodes=5)
    512
    """
    d, hidden = config.width, config.width * config.hidden_multiple
    S, L = nodes, min(labels, config.shortlist or labels)
    sources = min(L, edges_a_label or L)
    update = 2 * d * hidden  # W_r and W_b of one node
    among_nodes = S * (4 * d * d + 2 * S * d + update)  # W_q W_u W_v W_c, scores and sums
    total = config.feature_steps * among_nodes
    if config.shortlist:
        total += labels * d  # the base logits of every label
    for step in range(config.steps):
        # Before the first message all rows have the same queries, unless they have base logits.
        queries = 0 if step == 0 and not config.base_learners and not config.shortlist else L * d * d
        total += queries + 2 * S * d * d + 2 * L * S * d + L * (d * d + update)  # MPNN_xy
        total += L * (4 * d * d + 2 * sources * d + update)  # MPNN_yy
        total += 2 * L * d  # both readouts
    return 2 * total


def attention_flops(config: ModelConfig, labels: int, nodes: int) -> int:
    """The part of `forward_flops` that is scores and weighted sums between labels and nodes, and among labels.

    >>> attention_flops(ModelConfig(width=2, heads=1, steps=1, base_learners=()), labels=3, nodes=5)
    192
    """
    L = min(labels, config.shortlist or labels)
    return config.steps * 4 * L * (L + nodes) * config.width


def training_flops(config: ModelConfig, labels: int, nodes: int, edges_a_label: int = 0) -> int:
    """Operations of one row's training step: each product has two more in the backward pass."""
    return 3 * forward_flops(config, labels, nodes, edges_a_label)


def seq2seq_flops(width: int, labels: int, nodes: int, beams: int, steps: float) -> int:
    """Operations of one row's prediction by RNN Seq2Seq: a bidirectional GRU, then beams that attend to it.

    steps  labels decoded, "stop" included

    >>> seq2seq_flops(width=2, labels=3, nodes=5, beams=1, steps=1)
    308
    """
    d = width
    encoder = nodes * 2 * 3 * (d * d // 2 + d * d // 4)  # two directions of width d / 2, three gates
    step = 3 * 2 * d * d + d * d + 2 * nodes * d + 2 * d * d + d * (labels + 1)  # gates, attention, mixing, readout
    return round(2 * (encoder + beams * steps * step))
