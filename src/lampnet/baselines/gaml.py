"""GAML (Do et al. 2018): labels as extra nodes, joined to every node of the input by attention.

In each step a label gathers what it attends to among the input nodes, and an input node what its neighbours and the
labels send; highway gates decide how much of it enters. Labels reach each other through the input nodes only.

Axes: B rows, S input nodes, L labels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lampnet.baselines.node_networks import NodeNetwork, mean_of_nodes
from lampnet.encoders.nodes import NodeBatch


class _Highway(nn.Module):
    """(1 - g) * state + g * relu(W [state, message]): the gate g starts small, so that states change slowly."""

    def __init__(self, width: int, messages: int) -> None:
        super().__init__()
        self.change = nn.Linear((1 + messages) * width, width)
        self.gate = nn.Linear((1 + messages) * width, width)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, state: Tensor, *messages: Tensor) -> Tensor:
        seen = torch.cat([state, *messages], dim=-1)
        gate = torch.sigmoid(self.gate(seen))
        return (1 - gate) * state + gate * torch.relu(self.change(seen))


class _Network(nn.Module):
    def __init__(self, embedding: nn.Module, width: int, n_labels: int, steps: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.steps = embedding, steps
        self.labels = nn.Parameter(torch.randn(n_labels, width) * 0.3)
        self.compare = nn.Linear(width, width, bias=False)
        self.label_update = _Highway(width, 1)
        self.node_update = _Highway(width, 2)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(2 * width, width)
        self.readout = nn.Linear(width, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_labels))

    def forward(self, batch: NodeBatch) -> Tensor:
        z_BSD, present_BS, edge_types_BSS = self.embedding(batch)
        z_BSD = torch.where(present_BS.unsqueeze(-1), z_BSD, torch.zeros_like(z_BSD))
        u_BLD = self.labels.expand(len(z_BSD), -1, -1)
        empty_B = ~present_BS.any(1)
        scale = z_BSD.shape[-1] ** -0.5
        for _ in range(self.steps):
            scores_BLS = self.compare(u_BLD) @ z_BSD.transpose(1, 2) * scale
            alpha_BLS = scores_BLS.masked_fill(~present_BS.unsqueeze(1), -torch.inf).softmax(-1)
            alpha_BLS = alpha_BLS.masked_fill(empty_B[:, None, None], 0.0)  # a row without nodes sends nothing
            to_nodes_BSL = scores_BLS.transpose(1, 2).softmax(-1)
            neighbours_BSD = self._neighbours(z_BSD, present_BS, edge_types_BSS)
            new_u = self.label_update(self.dropout(u_BLD), alpha_BLS @ z_BSD)
            z_BSD = self.node_update(self.dropout(z_BSD), neighbours_BSD, to_nodes_BSL @ u_BLD)
            z_BSD = torch.where(present_BS.unsqueeze(-1), z_BSD, torch.zeros_like(z_BSD))
            u_BLD = new_u
        whole_BLD = mean_of_nodes(z_BSD, present_BS).unsqueeze(1).expand_as(u_BLD)
        hidden_BLD = torch.relu(self.hidden(torch.cat([u_BLD, whole_BLD], dim=-1)))
        logits: Tensor = self.readout(self.dropout(hidden_BLD)).squeeze(-1) + self.bias
        return logits

    def _neighbours(self, z_BSD: Tensor, present_BS: Tensor, edge_types_BSS: Tensor | None) -> Tensor:
        """The mean of each node's neighbours along known edges, else of all nodes of its row."""
        if edge_types_BSS is None:
            return mean_of_nodes(z_BSD, present_BS).unsqueeze(1).expand_as(z_BSD)
        joined_BSS = (edge_types_BSS > 0).to(z_BSD.dtype)
        return joined_BSS @ z_BSD / joined_BSS.sum(-1, keepdim=True).clamp(min=1)


@dataclass(eq=False)
class GAML(NodeNetwork):
    """Graph attention for multi-label learning, trained with binary cross-entropy."""

    width: int = 64
    steps: int = 2

    def _build(self, embedding: nn.Module, n_labels: int) -> tuple[nn.Module, Tensor]:
        network = _Network(embedding, self.width, n_labels, self.steps, self.dropout)
        return network, network.bias
