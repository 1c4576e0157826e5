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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, scaled_dot_product_attention

from lampnet.config import ModelConfig
from lampnet.model.kernels.byte_dropout import ByteDropout
from lampnet.model.kernels.fused_training import fused
from lampnet.model.label_edges import LabelGraph
from lampnet.model.neighbourhood import Neighbours as Neighbours
from lampnet.model.neighbourhood import closed_bias
from lampnet.runtime.random_bytes import RandomBytes

if TYPE_CHECKING:
    from lampnet.encoders.base import Embedding


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

    def forward(self, v: Tensor, sources: Tensor | None, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        """v_BRD (or v_1RD, shared by all rows), senders_BSD or None for v itself -> v'_BRD, attention_BHRS."""
        if type(self) is MessagePassing and (known := fused(self, v, sources, neighbours)) is not None:
            return known, None  # training: the lines below as one operation
        if self.pre_norm:
            asked = self.message_norm(v)
            message, attention = self._messages(asked, asked if sources is None else sources, neighbours)
            m = self.drop.added(v, message)  # eq. 7
            return self.drop.added(m, self._update(self.update_norm(m))), attention  # eq. 9
        message, attention = self._messages(v, v if sources is None else sources, neighbours)
        m = self.message_norm(self.drop.added(v, message))
        return self.update_norm(self.drop.added(m, self._update(m))), attention

    def _messages(self, v: Tensor, sources: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        """The sum over neighbours j of alpha_ij W_v v_j, all heads side by side, times W_c."""
        if neighbours.self_loops_only:  # an edgeless graph: alpha_ii = 1, so no score is needed
            ones = v.new_ones(v.shape[0], self.heads, v.shape[1], 1) if neighbours.record else None
            return self.W_c(self.W_v(sources)), ones
        q_BHRC, u_BHSC, v_BHSC = (_split(x, self.heads) for x in self._projected(v, sources))
        if neighbours.graph is not None:  # few edges among many labels: cost by the edges
            heads, attention = neighbours.graph(q_BHRC, u_BHSC, v_BHSC, neighbours.record)
            return self.W_c(_join(heads)), attention
        if not neighbours.record and (self.edge_key is None or neighbours.edge_types is None):
            message = self.W_c(_join(_attend(q_BHRC, u_BHSC, v_BHSC, neighbours.bias)))
            return message if neighbours.empty_rows is None else message.masked_fill(neighbours.empty_rows, 0.0), None
        scores_BHRS = q_BHRC @ u_BHSC.transpose(-1, -2)  # eq. 5
        if self.edge_key is not None and neighbours.edge_types is not None:
            keys = _split(self.edge_key.unsqueeze(0), self.heads)
            by_type_BHRE = q_BHRC @ keys.transpose(-1, -2)
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
        if neighbours.empty_rows is not None:  # a row without any node sends nothing
            message = message.masked_fill(neighbours.empty_rows, 0.0)
        return message, alpha_BHRS if neighbours.record else None

    def _projected(self, v: Tensor, sources: Tensor) -> tuple[Tensor, ...]:
        """W_q v (scaled), W_u v_j and W_v v_j; matrices that meet the same vectors are one product."""
        W_q = self.W_q.weight * self.scale
        if sources is v:
            return linear(v, torch.cat([W_q, self.W_u.weight, self.W_v.weight])).chunk(3, dim=-1)
        u, v_j = linear(sources, torch.cat([self.W_u.weight, self.W_v.weight])).chunk(2, dim=-1)
        return linear(v, W_q), u, v_j

    def _update(self, m: Tensor) -> Tensor:
        """U_mlp, eq. 8."""
        update: Tensor = self.W_b(torch.relu_(self.W_r(m)))
        return update


def _attend(q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, bias: Tensor | None) -> Tensor:
    """Equations 3, 5 and 6 at once: no score leaves the cache."""
    if bias is not None:
        bias = bias.to(q_BHRC.dtype)
    q_BHRC = q_BHRC.expand(u_BHSC.shape[0], -1, -1, -1)
    return scaled_dot_product_attention(q_BHRC, u_BHSC, v_BHSC, bias, scale=1.0)


def _split(x: Tensor, heads: int) -> Tensor:
    """B, N, D -> B, H, N, C."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def _of(x_BL: Tensor, chosen_BM: Tensor | None) -> Tensor:
    """(B, L) or (B, L, X) of the chosen labels only."""
    if chosen_BM is None:
        return x_BL
    index = chosen_BM if x_BL.ndim == 2 else chosen_BM.unsqueeze(-1).expand(-1, -1, x_BL.shape[-1])
    return x_BL.gather(1, index)


def _join(x: Tensor) -> Tensor:
    """B, H, N, C -> B, N, D."""
    return x.transpose(1, 2).flatten(-2)


@dataclass(frozen=True)
class Output:
    """What the network says about a batch.

    stages      2T logits (B, L), of the stages 1.1, 1.2, ..., T.1, T.2; the last is the prediction
    initial     (B, L) logits before any message, where the model has evidence or candidates
    to_input    T attention weights (B, H, L, S) of the stages t.1, on request
    to_labels   T attention weights (B, H, L, L) of the stages t.2, on request
    candidates  (B, M) the labels that exchanged messages, or None for all
    """

    stages: list[Tensor]
    initial: Tensor | None = None
    to_input: list[Tensor] | None = None
    to_labels: list[Tensor] | None = None
    candidates: Tensor | None = None


class LaMP(nn.Module):
    """Label Message Passing on the nodes that `embedding` makes of a batch."""

    def __init__(
        self,
        config: ModelConfig,
        n_labels: int,
        embedding: Embedding,
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
        opinions = len(config.base_learners)
        if opinions:
            self.base_vector = nn.Parameter(torch.randn(opinions, config.width) * 0.1)  # e_k
            self.stacking_weight = nn.Parameter(torch.full((n_labels, opinions), 1.0 / opinions))  # a_ik
        # How loud the messages are: beside the opinions they start softly.
        self.gate = nn.Parameter(torch.tensor(0.1 if opinions else 1.0)) if scaled or opinions else None
        self.candidates = max(0, config.candidates)  # M; may be set on a trained model, whatever it was trained with
        # Without evidence, rows and labels are compared by their vectors for a first opinion.
        self.initial_gate = nn.Parameter(torch.tensor(1.0)) if config.candidates > 0 and not opinions else None

    def forward(
        self,
        batch: Any,
        base_logits_BLK: Tensor | None = None,
        record: bool = False,
        forced_BL: Tensor | None = None,
        final_stage_only: bool = False,
    ) -> Output:
        """NodeBatch -> logits of every stage, or of the last one (`final_stage_only`, for prediction).

        `forced_BL` marks labels that are candidates whatever the first opinion says: those that a committee agreed on.
        """
        z_BSD, present_BS, edge_types_BSS = self.embedding(batch)
        z_BSD = self._pass_among_features(z_BSD, present_BS, edge_types_BSS)
        floor_BL = self._floor(base_logits_BLK)
        initial_BL = self._initial_logits(z_BSD, present_BS, floor_BL)
        chosen = self._chosen(initial_BL, forced_BL)
        W_o = self.W_y if chosen is None else embedding(chosen, self.W_y)
        u = W_o if chosen is not None else W_o.unsqueeze(0)  # the same for every row until a message differs
        if base_logits_BLK is not None:
            u = u + _of(base_logits_BLK, chosen) @ self.base_vector
        from_input, from_labels = Neighbours.present(present_BS, record), self._label_neighbours(chosen, record)
        stages: list[Tensor] = []
        to_input, to_labels = [], []
        for t, (xy, yy) in enumerate(zip(self.xy, self.yy, strict=True), start=1):  # t = 1..T
            u, attention = xy(u, z_BSD, from_input)  # u^t', stage t.1
            to_input.append(attention)
            if not final_stage_only or (self.candidates and initial_BL is None):
                stages.append(self._readout(u, W_o, floor_BL, chosen, initial_BL))
            if self.candidates and initial_BL is None:  # no cheaper opinion: stage 1.1 has looked at all labels
                initial_BL = stages[-1]
                chosen = self._chosen(initial_BL, forced_BL)
                if chosen is not None:
                    W_o, u = embedding(chosen, self.W_y), _of(u, chosen)
                    from_labels = self._label_neighbours(chosen, record)
            u, attention = yy(u, None, from_labels)  # u^{t+1}, stage t.2
            to_labels.append(attention)
            if not final_stage_only or t == len(self.xy):
                stages.append(self._readout(u, W_o, floor_BL, chosen, initial_BL))
        if not record:
            return Output(stages, initial_BL, None, None, chosen)
        return Output(stages, initial_BL, to_input, to_labels, chosen)

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

    def _floor(self, base_logits_BLK: Tensor | None) -> Tensor | None:
        """sum_k a_ik g_ik: what the cheap opinions say, before any message."""
        if base_logits_BLK is None:
            return None
        return (base_logits_BLK * self.stacking_weight).sum(-1)

    def _readout(
        self, u: Tensor, W_o: Tensor, floor_BL: Tensor | None, chosen: Tensor | None, initial_BL: Tensor | None
    ) -> Tensor:
        """R: a row-wise dot product with the label's own vector, eq. 14."""
        logits = (u * W_o).sum(-1) * self.readout_scale
        if self.gate is not None:
            logits = logits * self.gate
        if floor_BL is not None:
            logits = logits + _of(floor_BL, chosen)
        if self.bias is not None:
            logits = logits + (self.bias if chosen is None else self.bias[chosen])
        if chosen is None:
            return logits
        assert initial_BL is not None
        return initial_BL.to(logits.dtype).scatter(1, chosen, logits)  # the others keep their first opinion

    def _initial_logits(self, z_BSD: Tensor, present_BS: Tensor, floor_BL: Tensor | None) -> Tensor | None:
        """What can be said before any message: the evidence, or a comparison that costs L * d; None for neither."""
        bias = 0.0 if self.bias is None else self.bias
        if floor_BL is not None:
            return floor_BL + bias
        if self.initial_gate is None:
            return None
        counts = present_BS.sum(1, keepdim=True).clamp(min=1)
        mean_BD = (z_BSD * present_BS.unsqueeze(-1)).sum(1) / counts
        return mean_BD @ self.W_y.T * (self.readout_scale * self.initial_gate) + bias

    def _chosen(self, initial_BL: Tensor | None, forced_BL: Tensor | None) -> Tensor | None:
        """The M most promising labels of each row (B, M), by number; None where all labels take part."""
        if initial_BL is None or not 0 < self.candidates < self.n_labels:
            return None
        ranked = initial_BL.detach()
        if forced_BL is not None:
            ranked = ranked.masked_fill(forced_BL, torch.inf)
        return ranked.topk(self.candidates, dim=1, sorted=False).indices.sort(dim=1).values

    def _label_neighbours(self, chosen_BM: Tensor | None, record: bool) -> Neighbours:
        if self.graph.kind == "edgeless":
            return Neighbours(self_loops_only=True, record=record)
        if self.graph.kind == "full":
            return Neighbours(record=record)
        if chosen_BM is None and self.graph.sparse:
            return Neighbours(graph=self.graph, record=record)
        shut = ~self.graph.open_pairs(chosen_BM)  # (L, L) or (B, M, M)
        bias = closed_bias(shut)
        return Neighbours(bias=bias if chosen_BM is None else bias[:, None], record=record)
