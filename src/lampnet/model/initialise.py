"""How a network starts: vectors and attention from the training rows.

The spectral start makes a nearest-centroid classifier before the first step: input vectors come from the training
matrix's singular vectors (`embedding.spectral_start`), a label's vector is the mean of its training rows in that
space, and every attention begins as a plain comparison of the two. From a random start the loss stays for epochs
at that of the label priors.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.encoders.nodes import NodeRows
from lampnet.model.lamp import MessagePassing
from lampnet.model.stacked import StackedLaMP


def spectral_start(network: StackedLaMP, nodes: NodeRows, Y_nL: np.ndarray, seed: int) -> None:
    """Set vectors and attention of an untrained network from its training rows."""
    network.embedding.spectral_start(nodes, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        network.W_y.copy_(_label_vectors(network, nodes, Y_nL))
        for block in (*network.xx, *network.xy, *network.yy):
            assert isinstance(block, MessagePassing)
            _compare(block, generator)


def _label_vectors(network: StackedLaMP, nodes: NodeRows, Y_nL: np.ndarray) -> Tensor:
    """Mean of each label's training rows, centred, as long as random vectors are: sqrt(d), or 1 / sqrt(d)."""
    mean_nD = mean_nodes(network.embedding, nodes)
    mean_nD = torch.nn.functional.normalize(mean_nD - mean_nD.mean(0), dim=1)
    positive = torch.from_numpy((np.nan_to_num(Y_nL) > 0).astype(np.float32))
    centroid = positive.T @ mean_nD / positive.sum(0).clamp(min=1)[:, None]
    centroid = centroid - centroid.mean(0)
    # A label never seen in training keeps the direction of its random vector.
    centroid = torch.where(centroid.norm(dim=1, keepdim=True) > 1e-6, centroid, network.W_y)
    length = network.config.width ** (0.5 if network.config.label_vectors == "unit" else -0.5)
    vectors: Tensor = torch.nn.functional.normalize(centroid, dim=1) * length
    return vectors


def mean_nodes(embedding: nn.Module, nodes: NodeRows, batch_size: int = 256) -> Tensor:
    """The mean of each row's node vectors (n, D)."""
    means = []
    with torch.inference_mode():
        for first in range(0, len(nodes), batch_size):
            z_BSD, present_BS, _ = embedding(nodes.batch(np.arange(first, min(first + batch_size, len(nodes)))))
            total = (z_BSD * present_BS.unsqueeze(-1)).sum(1)
            means.append(total / present_BS.sum(1, keepdim=True).clamp(min=1))
    return torch.cat(means).clone()


def _compare(block: MessagePassing, generator: torch.Generator) -> None:
    """W_q = W_u orthogonal, W_c = W_v^T / 2, and a small update."""
    d = block.W_q.weight.shape[0]
    rotation, carrier = _orthogonal(d, generator), _orthogonal(d, generator)
    block.W_q.weight.copy_(rotation)
    block.W_u.weight.copy_(rotation)
    block.W_v.weight.copy_(carrier)
    block.W_c.weight.copy_(0.5 * carrier.T)
    block.W_b.weight.mul_(0.1)
    block.W_b.bias.zero_()


def _orthogonal(d: int, generator: torch.Generator) -> Tensor:
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator))
    orthogonal: Tensor = q
    return orthogonal
