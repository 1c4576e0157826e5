"""The spectral start: a network that is a nearest-centroid classifier before its first step.

Input vectors come from the training matrix's singular vectors (`embedding.spectral_start`), a label's
vector is the mean of its training rows in that space, and every attention begins as a plain
comparison of the two. From a random start the loss rests for epochs on the label priors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.data.label_priors import label_priors
from lampnet.encoders.nodes import NodeRows
from lampnet.model.lamp import LaMP

SAMPLE_ROWS = 2_000


def spectral_start(model: LaMP, nodes: NodeRows, Y_nL: np.ndarray, seed: int) -> None:
    """Set vectors and attention of an untrained model from its training rows."""
    model.embedding.spectral_start(nodes, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.W_y.copy_(_label_vectors(model, nodes, Y_nL))
        for module in (*model.xx, *model.xy, *model.yy):
            _compare(module, generator)


def _label_vectors(model: LaMP, nodes: NodeRows, Y_nL: np.ndarray) -> Tensor:
    """Mean of each label's training rows, centred, of length sqrt(d)."""
    mean_nD = mean_nodes(model.embedding, nodes)
    mean_nD = torch.nn.functional.normalize(mean_nD - mean_nD.mean(0), dim=1)
    positive = torch.from_numpy((np.nan_to_num(Y_nL) > 0).astype(np.float32))
    centroid = positive.T @ mean_nD / positive.sum(0).clamp(min=1)[:, None]
    centroid = centroid - centroid.mean(0)
    length = centroid.norm(dim=1, keepdim=True)
    # A label never seen in training keeps its random vector's direction.
    centroid = torch.where(length > 1e-6, centroid, model.W_y)
    vectors: Tensor = torch.nn.functional.normalize(centroid, dim=1) * model.config.width**0.5
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


def _compare(module: Any, generator: torch.Generator) -> None:
    """W_q = W_u orthogonal, W_c = W_v^T / 2, and a small update."""
    d = module.W_q.weight.shape[0]
    turn, carry = _orthogonal(d, generator), _orthogonal(d, generator)
    module.W_q.weight.copy_(turn)
    module.W_u.weight.copy_(turn)
    module.W_v.weight.copy_(carry)
    module.W_c.weight.copy_(0.5 * carry.T)
    module.W_b.weight.mul_(0.1)
    module.W_b.bias.zero_()


def _orthogonal(d: int, generator: torch.Generator) -> Tensor:
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator))
    orthogonal: Tensor = q
    return orthogonal


def match_label_priors(
    model: LaMP, nodes: NodeRows, Y_nL: np.ndarray, base_logits: np.ndarray | None, seed: int
) -> None:
    """Set the scale and the biases of the readout so that the first logits fit the training labels.

    Without base_logits the messages' own logits are weighed; with it the opinions are, and what the
    messages add on top averages to nothing.
    """
    if model.bias is None or model.gate is None:
        return
    sample = np.sort(np.random.default_rng(seed).permutation(len(nodes))[:SAMPLE_ROWS])
    training = model.training
    model.eval()
    parts = []
    with torch.inference_mode():
        for first in range(0, len(sample), 128):
            rows = sample[first : first + 128]
            opinions = None if base_logits is None else torch.from_numpy(base_logits[rows])
            output = model(nodes.batch(rows), opinions)
            parts.append(output.stages[-1] if base_logits is None else output.stages[-1] - output.initial)
    model.train(training)
    added_nL = torch.cat(parts).clone() - (model.bias.detach() if base_logits is None else 0.0)
    with torch.no_grad():
        if base_logits is None:
            centre = added_nL.mean(0)
            weight, intercept = weigh((added_nL - centre).unsqueeze(-1).numpy(), Y_nL[sample])
            loud = weight.clamp(min=0.05)  # a start that says nothing could never be heard
            model.gate.mul_(loud.squeeze())
            model.bias.copy_(intercept - loud * centre)
        else:
            weight, intercept = weigh(base_logits[sample], Y_nL[sample])
            model.stacking_weight.copy_(weight.expand_as(model.stacking_weight))
            model.bias.copy_(intercept - added_nL.mean(0))


def weigh(opinions_nLK: np.ndarray, Y_nL: np.ndarray) -> tuple[Tensor, Tensor]:
    """The best shared weighing of opinions: one weight an opinion (K,), one intercept a label (L,)."""
    g = torch.from_numpy(opinions_nLK)
    known = torch.from_numpy(~np.isnan(Y_nL))
    y = torch.from_numpy(np.nan_to_num(Y_nL).astype(np.float32))
    share = torch.from_numpy(label_priors(Y_nL))
    a = torch.full((g.shape[-1],), 1.0 / g.shape[-1], requires_grad=True)
    c = torch.logit(share).requires_grad_()
    solver = torch.optim.LBFGS([a, c], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        losses = torch.nn.functional.binary_cross_entropy_with_logits(g @ a + c, y, reduction="none")
        loss = (losses * known).sum() / known.sum().clamp(min=1) + 1e-4 * (c - torch.logit(share)).square().mean()
        torch.autograd.backward(loss)
        return loss

    with torch.enable_grad():
        solver.step(closure)  # type: ignore[no-untyped-call]
    return a.detach(), c.detach()
