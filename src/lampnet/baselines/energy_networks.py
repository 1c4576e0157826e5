"""Structured prediction by energies of whole label sets: SPEN and DVN.

Both score a row and a (relaxed) label set y in [0, 1]^L by

    s(x, y) = sum_i y_i b_i(x) - c . softplus(C y)

The first part rates each label for itself, from a perceptron on the mean of the row's nodes; the second one rates the
set, whatever the row. They differ in how a set is found and what is learned from.

SPEN, in its end-to-end form (Belanger, Yang and McCallum 2017): a fixed number of gradient steps from the labels' own
logits, unrolled, and every step's labels are trained with binary cross-entropy.

DVN, deep value network (Gygli, Norouzi and Angelova 2017): the value v = sigmoid(s) learns the F1 that a set would
score: on sets found by its own gradient ascent from the empty set, on sets that it misjudges most, and on true ones.

Axes: B rows, L labels, D width, M units of the label part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from lampnet.baselines.node_networks import NodeNetwork, mean_of_nodes
from lampnet.encoders.nodes import NodeBatch
from lampnet.training.loss import lamp_loss


class Energy(nn.Module):
    """The score of label sets, its gradient, and how SPEN and DVN climb it."""

    def __init__(self, embedding: nn.Module, width: int, n_labels: int, units: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.features = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU()
        )
        self.dropout = nn.Dropout(dropout)
        self.labels = nn.Linear(width, n_labels)  # b(x)
        self.units = nn.Linear(n_labels, units, bias=False)  # C
        self.costs = nn.Parameter(torch.randn(units) * 0.1)  # c
        self.rate = nn.Parameter(torch.tensor(0.0))  # logarithm of SPEN's step size

    def forward(self, batch: NodeBatch) -> Tensor:
        """b(x), (B, L)."""
        z_BSD, present_BS, _ = self.embedding(batch)
        logits: Tensor = self.labels(self.dropout(self.features(mean_of_nodes(z_BSD, present_BS))))
        return logits

    def score(self, own_BL: Tensor, y_BL: Tensor) -> Tensor:
        """s(x, y), (B,)."""
        return (y_BL * own_BL).sum(1) - functional.softplus(self.units(y_BL)) @ self.costs

    def gradient(self, own_BL: Tensor, y_BL: Tensor) -> Tensor:
        """ds/dy, (B, L), written out, so that training can go through it."""
        return own_BL - (torch.sigmoid(self.units(y_BL)) * self.costs) @ self.units.weight

    def unrolled(self, own_BL: Tensor, steps: int) -> list[Tensor]:
        """Logits after each of SPEN's steps (mirror ascent: gradients move logits), beginning with b(x)."""
        logits = [own_BL]
        for _ in range(steps):
            y_BL = torch.sigmoid(logits[-1])
            # The entropy of y belongs to the energy: without it, labels would run to 0 or 1.
            logits.append(logits[-1] + torch.exp(self.rate) * (self.gradient(own_BL, y_BL) - logits[-1]))
        return logits

    def ascent(self, own_BL: Tensor, steps: int, rate: float, start: Tensor | None = None) -> Tensor:
        """DVN's label sets, (B, L) in [0, 1]: projected gradient ascent on v = sigmoid(s), from the empty set."""
        y_BL = torch.zeros_like(own_BL) if start is None else start
        for _ in range(steps):
            v_B = torch.sigmoid(self.score(own_BL, y_BL))
            slope_B = v_B * (1 - v_B)
            y_BL = (y_BL + rate * slope_B.unsqueeze(1) * self.gradient(own_BL, y_BL)).clamp(0, 1)
        return y_BL


@dataclass(eq=False)
class _EnergyNetwork(NodeNetwork):
    """What SPEN and DVN share.

    units  M, of the part of the score that rates whole sets
    steps  of the search for a label set
    """

    units: int = 64
    steps: int = 5
    network_: Energy = field(init=False, repr=False)

    def _build(self, embedding: nn.Module, n_labels: int) -> tuple[nn.Module, Tensor]:
        network = Energy(embedding, self.width, n_labels, self.units, self.dropout)
        return network, network.labels.bias


@dataclass(eq=False)
class SPEN(_EnergyNetwork):
    """Structured prediction energy network, end to end: `steps` unrolled gradient steps."""

    def _loss(self, own_BL: Tensor, truth_BL: Tensor) -> Tensor:
        """Later steps count more: 1, 1/2, 1/3, ... from the last to the first."""
        stages = self.network_.unrolled(own_BL, self.steps)
        weights = [1 / (len(stages) - t) for t in range(len(stages))]
        losses = [weight * lamp_loss([stage], truth_BL) for weight, stage in zip(weights, stages, strict=True)]
        return torch.stack(losses).sum() / sum(weights)

    def _found(self, own_BL: Tensor) -> Tensor:
        return torch.sigmoid(self.network_.unrolled(own_BL, self.steps)[-1])


@dataclass(eq=False)
class DVN(_EnergyNetwork):
    """Deep value network: `steps` of gradient ascent on the predicted F1. Unknown labels count as absent.

    rate  of the ascent
    """

    steps: int = 20
    rate: float = 2.0

    def _loss(self, own_BL: Tensor, truth_BL: Tensor) -> Tensor:
        truth_BL = torch.nan_to_num(truth_BL)
        with torch.no_grad():
            still = own_BL.detach()
            found_BL = self.network_.ascent(still, self.steps, self.rate)
            misjudged_BL = self._misjudged(still, truth_BL)
        losses = []
        for y_BL in (found_BL, misjudged_BL, truth_BL):
            value_B = self.network_.score(own_BL, y_BL)
            losses.append(functional.binary_cross_entropy_with_logits(value_B, relaxed_f1(y_BL, truth_BL)))
        return torch.stack(losses).mean()

    def _misjudged(self, own_BL: Tensor, truth_BL: Tensor) -> Tensor:
        """Sets whose value is predicted badly: ascent on the loss itself, from random sets near the true ones."""
        y_BL = torch.where(torch.rand_like(truth_BL) < 0.1, torch.rand_like(truth_BL), truth_BL)
        with torch.enable_grad():
            for _ in range(3):
                y_BL = y_BL.detach().requires_grad_()
                value_B = self.network_.score(own_BL, y_BL)
                loss = functional.binary_cross_entropy_with_logits(value_B, relaxed_f1(y_BL, truth_BL), reduction="sum")
                (slope_BL,) = torch.autograd.grad(loss, y_BL)
                y_BL = (y_BL + 0.1 * torch.sign(slope_BL)).clamp(0, 1)
        return y_BL.detach()

    def _found(self, own_BL: Tensor) -> Tensor:
        return self.network_.ascent(own_BL, self.steps, self.rate)


def relaxed_f1(y_BL: Tensor, truth_BL: Tensor) -> Tensor:
    """F1 of each row's label set, (B,); of sets in between, by sums. Two empty sets agree.

    >>> relaxed_f1(torch.tensor([[1.0, 0.5, 0.5]]), torch.tensor([[1.0, 1.0, 0.0]])).tolist()
    [0.75]
    """
    both, total = (y_BL * truth_BL).sum(1), y_BL.sum(1) + truth_BL.sum(1)
    return torch.where(total > 0, 2 * both / total.clamp(min=1e-9), torch.ones_like(total))
