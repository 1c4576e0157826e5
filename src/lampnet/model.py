"""The paper: Label Message Passing networks, whole in this file.

Labels are nodes u_1..u_L of a graph G_yy, the input's components are nodes z_1..z_S. For T steps
every label first gathers messages from the input (MPNN_xy), then from its neighbour labels
(MPNN_yy); a readout tied to the label vectors turns each label's state into a logit, after every
stage: 1.1, 1.2, ..., T.1, T.2. Before that, MPNN_xx may pass messages among the input nodes.

Axes are named by suffix: B rows of a batch, S input nodes, R receiving nodes, L labels, H heads,
D width, C width of one head, K opinions, M candidate labels. Equation numbers follow the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.dropout import ByteDropout, RandomBytes
from lampnet.label_attention import LabelGraph


class MessagePassing(nn.Module):
    """One MPNN: attention messages M_atn over a neighbourhood, then the update U_mlp."""

    def __init__(self, config: ModelConfig, random: RandomBytes, edge_types: int = 0) -> None:
        super().__init__()
        d, hidden = config.width, config.width * config.hidden_multiple
        self.heads = config.heads
        self.scale = 1 / math.sqrt(d if config.score_scale == "width" else d // config.heads)
        self.pre_norm = config.norm == "pre"
        self.W_q, self.W_u, self.W_v, self.W_c = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.W_r, self.W_b = nn.Linear(d, hidden), nn.Linear(hidden, d)
        self.message_norm, self.update_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.drop = ByteDropout(config.dropout, random)
        # A typed edge (a chemical bond) adds its own vector to the sender's key and message.
        self.edge_key = nn.Parameter(torch.zeros(edge_types, d)) if edge_types else None
        self.edge_message = nn.Parameter(torch.zeros(edge_types, d)) if edge_types else None

    def forward(self, v: Tensor, senders: Tensor | None, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        """v_BRD (or v_1RD, shared by all rows), senders_BSD or None for v itself -> v'_BRD, attention_BHRS."""
        if self.pre_norm:
            asked = self.message_norm(v)
            message, attention = self._messages(asked, asked if senders is None else senders, neighbours)
            m = v + self.drop(message)  # eq. 7
            return m + self.drop(self._update(self.update_norm(m))), attention  # eq. 9
        message, attention = self._messages(v, v if senders is None else senders, neighbours)
        m = self.message_norm(v + self.drop(message))
        return self.update_norm(m + self.drop(self._update(m))), attention

    def _messages(self, v: Tensor, senders: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        """The sum over neighbours j of alpha_ij W_v v_j, all heads side by side, times W_c."""
        if neighbours.own_only:  # an edgeless graph: alpha_ii = 1, so no score is needed
            ones = v.new_ones(v.shape[0], self.heads, v.shape[1], 1) if neighbours.record else None
            return self.W_c(self.W_v(senders)), ones
        q_BHRC, u_BHSC, v_BHSC = (_split(x, self.heads) for x in (self.W_q(v), self.W_u(senders), self.W_v(senders)))
        if neighbours.graph is not None:  # few edges among many labels: cost by the edges
            heads, attention = neighbours.graph(q_BHRC * self.scale, u_BHSC, v_BHSC, neighbours.record)
            return self.W_c(_join(heads)), attention
        scores_BHRS = (q_BHRC * self.scale) @ u_BHSC.transpose(-1, -2)  # eq. 5
        if self.edge_key is not None and neighbours.edge_types is not None:
            keys = _split(self.edge_key.unsqueeze(0), self.heads)
            by_type_BHRE = (q_BHRC * self.scale) @ keys.transpose(-1, -2)
            scores_BHRS = scores_BHRS + by_type_BHRE.gather(-1, neighbours.edge_index(scores_BHRS))
        if neighbours.bias is not None:
            scores_BHRS = scores_BHRS + neighbours.bias
        alpha_BHRS = scores_BHRS.softmax(dim=-1)  # eq. 3
        message_BHRC = alpha_BHRS @ v_BHSC  # eq. 6
        if self.edge_message is not None and neighbours.edge_types is not None:
            by_type = alpha_BHRS.new_zeros(*alpha_BHRS.shape[:-1], len(self.edge_message))
            by_type = by_type.scatter_add(-1, neighbours.edge_index(alpha_BHRS), alpha_BHRS)
            message_BHRC = message_BHRC + by_type @ _split(self.edge_message.unsqueeze(0), self.heads)
        message = self.W_c(_join(message_BHRC))
        if neighbours.nobody is not None:  # a row without any node sends nothing
            message = message.masked_fill(neighbours.nobody, 0.0)
        return message, alpha_BHRS if neighbours.record else None

    def _update(self, m: Tensor) -> Tensor:
        """U_mlp, eq. 8."""
        update: Tensor = self.W_b(torch.relu_(self.W_r(m)))
        return update


@dataclass(frozen=True)
class Neighbours:
    """N(i): who may send to whom.

    bias        added to the scores, broadcast to BHRS: -inf (the lowest float) where j is no neighbour
    nobody      (B, 1, 1) True for a row where nobody sends
    edge_types  (B, R, S) 0 = no edge or itself, k + 1 = an edge of type k
    graph       a sparse label graph, walked edge by edge
    own_only    every node hears only itself
    record      return the attention weights
    """

    bias: Tensor | None = None
    nobody: Tensor | None = None
    edge_types: Tensor | None = None
    graph: LabelGraph | None = None
    own_only: bool = False
    record: bool = False

    @classmethod
    def present(cls, present_BS: Tensor, record: bool = False) -> Neighbours:
        """Everyone hears every node that is there."""
        if bool(present_BS.all()):
            return cls(record=record)
        nobody_B = ~present_BS.any(dim=1)
        return cls(
            bias=_closed(~present_BS)[:, None, None, :],
            nobody=nobody_B[:, None, None] if bool(nobody_B.any()) else None,
            record=record,
        )

    @classmethod
    def along_edges(cls, present_BS: Tensor, edge_types_BSS: Tensor, record: bool = False) -> Neighbours:
        """Every node hears itself and the nodes with an edge to it."""
        itself = torch.eye(present_BS.shape[1], dtype=torch.bool)
        open_BSS = (edge_types_BSS > 0) | itself
        return cls(bias=_closed(~open_BSS)[:, None], edge_types=edge_types_BSS, record=record)

    def edge_index(self, like_BHRS: Tensor) -> Tensor:
        """Edge types as an index of the shape BHRS; type 0 is the node itself (or a closed pair)."""
        assert self.edge_types is not None
        return self.edge_types.long()[:, None].expand_as(like_BHRS)


def _closed(shut: Tensor) -> Tensor:
    bias = torch.zeros(shut.shape)
    return bias.masked_fill_(shut, torch.finfo(bias.dtype).min)


def _split(x: Tensor, heads: int) -> Tensor:
    """B, N, D -> B, H, N, C."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    """B, H, N, C -> B, N, D."""
    return x.transpose(1, 2).flatten(-2)


@dataclass(frozen=True)
class Output:
    """What the network says about a batch.

    stages      2T logits (B, L), of the stages 1.1, 1.2, ..., T.1, T.2; the last is the prediction
    opinion     (B, L) logits before any message, where the model has evidence or candidates
    to_input    T attention weights (B, H, L, S) of the stages t.1, on request
    to_labels   T attention weights (B, H, L, L) of the stages t.2, on request
    candidates  (B, M) the labels that exchanged messages, or None for all
    """

    stages: list[Tensor]
    opinion: Tensor | None = None
    to_input: list[Tensor] | None = None
    to_labels: list[Tensor] | None = None
    candidates: Tensor | None = None


class LaMP(nn.Module):
    """Label Message Passing on the nodes that `embedding` makes of a batch."""

    def __init__(
        self,
        config: ModelConfig,
        n_labels: int,
        embedding: nn.Module,
        graph: LabelGraph,
        edge_types: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config, self.n_labels = config, n_labels
        self.random = RandomBytes(seed)
        self.embedding = embedding  # W^x
        self.graph = graph  # G_yy
        self.W_y = nn.Parameter(torch.randn(n_labels, config.width))  # label vectors, and the readout W^o: one tensor
        self.xx = nn.ModuleList(
            MessagePassing(config, self.random, edge_types + 1 if edge_types else 0)
            for _ in range(config.feature_steps)
        )
        self.xy = nn.ModuleList(MessagePassing(config, self.random) for _ in range(config.steps))
        self.yy = nn.ModuleList(MessagePassing(config, self.random) for _ in range(config.steps))
        scaled = config.readout == "scaled"
        self.readout_scale = 1 / math.sqrt(config.width) if scaled else 1.0
        self.bias = nn.Parameter(torch.zeros(n_labels)) if scaled else None
        opinions = len(config.evidence)
        if opinions:
            self.evidence_vector = nn.Parameter(torch.randn(opinions, config.width) * 0.1)  # e_k
            self.evidence_weight = nn.Parameter(torch.full((n_labels, opinions), 1.0 / opinions))  # a_ik
            self.gate = nn.Parameter(torch.tensor(0.1))
        if config.candidates:
            self.opinion_gate = nn.Parameter(torch.tensor(1.0))

    def forward(
        self, batch: Any, evidence_BLK: Tensor | None = None, record: bool = False, must_BL: Tensor | None = None
    ) -> Output:
        """NodeBatch -> logits of every stage; `must_BL` marks labels that stay candidates (training)."""
        z_BSD, present_BS, edge_types_BSS = self.embedding(batch)
        z_BSD = self._pass_among_features(z_BSD, present_BS, edge_types_BSS)
        u = self.W_y.unsqueeze(0)  # the same for every row until a message differs
        floor_BL = self._floor(evidence_BLK)
        if evidence_BLK is not None:
            u = u + evidence_BLK @ self.evidence_vector
        chosen_BM, opinion_BL = self._choose_candidates(z_BSD, present_BS, floor_BL, must_BL)
        if chosen_BM is not None:
            rows = torch.arange(len(chosen_BM))[:, None] if u.shape[0] > 1 else torch.zeros(1, 1, dtype=torch.long)
            u = u[rows, chosen_BM]
        from_input = Neighbours.present(present_BS, record)
        from_labels = self._label_neighbours(chosen_BM, record)
        output = Output([], opinion_BL, [], [], chosen_BM)
        assert output.to_input is not None and output.to_labels is not None
        for xy, yy in zip(self.xy, self.yy, strict=True):  # t = 1..T
            u, attention = xy(u, z_BSD, from_input)  # u^t', stage t.1
            output.stages.append(self._readout(u, floor_BL, chosen_BM, opinion_BL))
            output.to_input.append(attention)
            u, attention = yy(u, None, from_labels)  # u^{t+1}, stage t.2
            output.stages.append(self._readout(u, floor_BL, chosen_BM, opinion_BL))
            output.to_labels.append(attention)
        return output if record else Output(output.stages, opinion_BL, None, None, chosen_BM)

    def _pass_among_features(self, z_BSD: Tensor, present_BS: Tensor, edge_types_BSS: Tensor | None) -> Tensor:
        """FMP: MPNN_xx for T_x steps, along the known edges where there are any."""
        if not self.xx:
            return z_BSD
        among = (
            Neighbours.present(present_BS)
            if edge_types_BSS is None
            else Neighbours.along_edges(present_BS, edge_types_BSS)
        )
        for xx in self.xx:
            z_BSD, _ = xx(z_BSD, None, among)
        return z_BSD

    def _floor(self, evidence_BLK: Tensor | None) -> Tensor | None:
        """sum_k a_ik g_ik: what the cheap opinions say, before any message."""
        if evidence_BLK is None:
            return None
        return (evidence_BLK * self.evidence_weight).sum(-1)

    def _readout(self, u: Tensor, floor_BL: Tensor | None, chosen_BM: Tensor | None, opinion_BL: Tensor | None) -> Tensor:
        """R: a row-wise dot product with the label's own vector, eq. 14."""
        W_o = self.W_y if chosen_BM is None else self.W_y[chosen_BM]
        logits = (u * W_o).sum(-1) * self.readout_scale
        if floor_BL is not None:
            logits = logits * self.gate
        if self.bias is not None:
            logits = logits + (self.bias if chosen_BM is None else self.bias[chosen_BM])
        if floor_BL is not None:
            logits = logits + (floor_BL if chosen_BM is None else floor_BL.gather(1, chosen_BM))
        if chosen_BM is None:
            return logits
        assert opinion_BL is not None
        return opinion_BL.scatter(1, chosen_BM, logits)  # the others keep their first opinion

    def _choose_candidates(
        self, z_BSD: Tensor, present_BS: Tensor, floor_BL: Tensor | None, must_BL: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The M most promising labels of each row, by a first opinion that costs L * d."""
        bias = 0.0 if self.bias is None else self.bias
        M = min(self.config.candidates, self.n_labels)
        if not self.config.candidates:
            return None, None if floor_BL is None else floor_BL + bias
        counts = present_BS.sum(1, keepdim=True).clamp(min=1)
        mean_BD = (z_BSD * present_BS.unsqueeze(-1)).sum(1) / counts
        opinion_BL = mean_BD @ self.W_y.T * (self.readout_scale * self.opinion_gate) + bias
        if floor_BL is not None:
            opinion_BL = opinion_BL + floor_BL
        if M == self.n_labels:
            return None, opinion_BL
        ranked = opinion_BL.detach()
        if must_BL is not None:
            ranked = ranked.masked_fill(must_BL, torch.inf)
        return ranked.topk(M, dim=1, sorted=False).indices, opinion_BL

    def _label_neighbours(self, chosen_BM: Tensor | None, record: bool) -> Neighbours:
        if self.graph.kind == "edgeless":
            return Neighbours(own_only=True, record=record)
        if self.graph.kind == "full":
            return Neighbours(record=record)
        if chosen_BM is None and self.graph.sparse:
            return Neighbours(graph=self.graph, record=record)
        shut = ~self.graph.open_pairs(chosen_BM)  # (L, L) or (B, M, M)
        bias = _closed(shut)
        return Neighbours(bias=bias if chosen_BM is None else bias[:, None], record=record)
