"""How a network starts: spectral vectors, then stacking weights and biases that fit the training labels.

The spectral start makes a nearest-centroid classifier before the first step: input vectors come from the training
matrix's singular vectors (`embedding.spectral_start`), a label's vector is the mean of its training rows in that
space, and every attention begins as a plain comparison of the two. From a random start the loss stays for epochs
at that of the label priors.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.data.label_priors import label_priors
from lampnet.encoders.nodes import NodeRows
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.lamp import LabelInput, MessagePassing
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime.random_bytes import RandomBytes

SAMPLE_ROWS = 2_000
#: a gate that starts at zero gets no gradient
MIN_GATE = 0.05


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


def match_label_priors(
    network: StackedLaMP, nodes: NodeRows, Y_nL: np.ndarray, base_logits_nLK: np.ndarray | None, seed: int
) -> None:
    """Set gate, stacking weights and biases so that the first logits fit the training labels.

    Without base logits, the network's own logits are scaled. With them, the stacking weights are fitted, and what
    the messages add on top averages to zero.
    """
    if network.bias is None or network.gate is None:
        return
    sample = np.sort(np.random.default_rng(seed).permutation(len(nodes))[:SAMPLE_ROWS])
    fast = with_training_kernels(network, RandomBytes()).eval()
    parts = []
    with torch.inference_mode():
        for first in range(0, len(sample), 128):
            rows = sample[first : first + 128]
            given = None if base_logits_nLK is None else torch.from_numpy(base_logits_nLK[rows])
            output = fast(nodes.batch(rows), LabelInput(given))
            parts.append(output.stages[-1] if given is None else output.stages[-1] - output.initial)
    added_nL = torch.cat(parts).clone() - (network.bias.detach() if base_logits_nLK is None else 0.0)
    with torch.no_grad():
        if base_logits_nLK is None:
            centre = added_nL.mean(0)
            weight, intercept = fit_stacking_weights((added_nL - centre).unsqueeze(-1).numpy(), Y_nL[sample])
            gate = weight.clamp(min=MIN_GATE)
            network.gate.mul_(gate.squeeze())
            network.bias.copy_(intercept - gate * centre)
        else:
            weight, intercept = fit_stacking_weights(base_logits_nLK[sample], Y_nL[sample])
            network.stacking_weight.copy_(weight.expand_as(network.stacking_weight))
            network.bias.copy_(intercept - added_nL.mean(0))


def fit_stacking_weights(base_logits_nLK: np.ndarray, Y_nL: np.ndarray) -> tuple[Tensor, Tensor]:
    """The best weights shared by all labels: one per base learner (K,), and one intercept per label (L,)."""
    g = torch.from_numpy(base_logits_nLK)
    known = torch.from_numpy(~np.isnan(Y_nL))
    y = torch.from_numpy(np.nan_to_num(Y_nL).astype(np.float32))
    prior = torch.from_numpy(label_priors(Y_nL))
    a = torch.full((g.shape[-1],), 1.0 / g.shape[-1], requires_grad=True)
    c = torch.logit(prior).requires_grad_()
    solver = torch.optim.LBFGS([a, c], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        losses = torch.nn.functional.binary_cross_entropy_with_logits(g @ a + c, y, reduction="none")
        loss = (losses * known).sum() / known.sum().clamp(min=1) + 1e-4 * (c - torch.logit(prior)).square().mean()
        torch.autograd.backward(loss)
        return loss

    with torch.enable_grad():
        solver.step(closure)  # type: ignore[no-untyped-call]
    return a.detach(), c.detach()
