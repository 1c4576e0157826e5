"""The paper: Label Message Passing networks, whole in this file.

Labels are nodes u_1..u_L of a graph G_yy, the components of the input are nodes z_1..z_S. For T steps every
label first gathers messages from the input (MPNN_xy), then from its neighbours among the labels (MPNN_yy). A
readout tied to the label vectors turns each label's state into a logit, after every stage: 1.1, 1.2, ..., T.2.
Before that, MPNN_xx may pass messages among the input nodes.

Axes are named by suffix: B rows of a batch, S source nodes, R receiving nodes, L labels, H heads, D width,
C width of one head. Equation numbers follow the paper. What lampnet adds to the paper (base logits, a shortlist
of labels) is in `stacked.py`; the same numbers, computed faster, are in `kernels/`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.model.label_graph import LabelGraph
from lampnet.model.neighbourhood import Neighbourhood

if TYPE_CHECKING:
    from lampnet.encoders.base import Embedding


class MessagePassing(nn.Module):
    """One MPNN: attention messages M_atn over a neighbourhood, then the update U_mlp."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, hidden = config.width, config.width * config.hidden_multiple
        self.heads = config.heads
        self.scale = 1 / math.sqrt(d if config.score_scale == "width" else d // config.heads)
        self.pre_norm = config.norm == "pre"
        self.W_q, self.W_u, self.W_v, self.W_c = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.W_r, self.W_b = nn.Linear(d, hidden), nn.Linear(hidden, d)
        self.message_norm, self.update_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.residual = Residual(config.dropout)

    def forward(self, v: Tensor, sources: Tensor | None, neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor | None]:
        """States v_BRD (or v_1RD, shared by all rows) and the attention weights alpha_BHRS.

        sources_BSD are the nodes that send; None where the receiving nodes send to each other.
        """
        if self.pre_norm:
            x = self.message_norm(v)
            message, alpha = self.messages(x, x if sources is None else sources, neighbourhood)
            m = self.residual(v, message)  # eq. 7
            return self.residual(m, self.update(self.update_norm(m))), alpha  # eq. 9
        message, alpha = self.messages(v, v if sources is None else sources, neighbourhood)
        m = self.message_norm(self.residual(v, message))
        return self.update_norm(self.residual(m, self.update(m))), alpha

    def messages(self, v: Tensor, sources: Tensor, neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor | None]:
        """The sum over neighbours j of alpha_ij W_v v_j, all heads side by side, times W_c."""
        q_BHRC, u_BHSC, v_BHSC = (split_heads(x, self.heads) for x in self.project(v, sources))
        message_BHRC, alpha_BHRS = self.attend(q_BHRC, u_BHSC, v_BHSC, neighbourhood)
        message = self.W_c(join_heads(message_BHRC))
        if neighbourhood.empty_rows is not None:  # a row without any node sends nothing
            message = message.masked_fill(neighbourhood.empty_rows, 0.0)
        return message, alpha_BHRS

    def project(self, v: Tensor, sources: Tensor) -> tuple[Tensor, ...]:
        """W_q v (scaled), W_u v_j and W_v v_j."""
        return self.W_q(v) * self.scale, self.W_u(sources), self.W_v(sources)

    def attend(
        self, q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, neighbourhood: Neighbourhood
    ) -> tuple[Tensor, Tensor | None]:
        scores_BHRS = q_BHRC @ u_BHSC.transpose(-1, -2)  # eq. 5
        if neighbourhood.bias is not None:
            scores_BHRS = scores_BHRS + neighbourhood.bias
        alpha_BHRS = scores_BHRS.softmax(dim=-1)  # eq. 3
        return alpha_BHRS @ v_BHSC, alpha_BHRS  # eq. 6

    def update(self, m: Tensor) -> Tensor:
        """U_mlp, eq. 8."""
        update: Tensor = self.W_b(torch.relu(self.W_r(m)))
        return update


class Residual(nn.Module):
    """v + dropout(x)."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        return v + nn.functional.dropout(x, self.chance, self.training)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """..., N, D -> ..., H, N, C; a view."""
    return x.view(*x.shape[:-1], heads, -1).transpose(-3, -2)


def join_heads(x: Tensor) -> Tensor:
    """B, H, N, C -> B, N, D."""
    return x.transpose(1, 2).flatten(-2)


@dataclass(frozen=True)
class LabelInput:
    """What is known about the labels of a batch before any message; in the paper, nothing.

    base_logits_BLK  out-of-fold or predicted logits of K base learners
    stacked_BL       the same under the stacking weights: what the messages correct
    forced_BL        bool, labels that take part in the messages whatever their logits
    """

    base_logits_BLK: Tensor | None = None
    stacked_BL: Tensor | None = None
    forced_BL: Tensor | None = None


NOTHING_KNOWN = LabelInput()


@dataclass(frozen=True)
class LabelNodes:
    """The label nodes of a batch: all L labels, or a shortlist of M labels for each row.

    states         u^0, (1, L, D) where it is the same for every row, else (B, L or M, D)
    vectors        the label vectors W^y of these nodes, (L, D) or (B, M, D)
    neighbourhood  which of them exchange messages
    initial_BL     logits before any message, where there are any: the stacked base logits, or a cheap comparison
    stacked_BL     the stacked base logits, where there are any
    shortlist_BM   the labels of each row that take part, by number; None for all
    """

    states: Tensor
    vectors: Tensor
    neighbourhood: Neighbourhood
    initial_BL: Tensor | None = None
    stacked_BL: Tensor | None = None
    shortlist_BM: Tensor | None = None


@dataclass(frozen=True)
class Output:
    """What the network computes for a batch.

    stages     2T logits (B, L), of the stages 1.1, 1.2, ..., T.1, T.2; the last is the prediction
    initial    (B, L) logits before any message, where the model has base learners or a shortlist
    to_input   T attention weights (B, H, L, S) of the stages t.1, on request
    to_labels  T attention weights (B, H, L, L) of the stages t.2, on request
    shortlist  (B, M) the labels that exchanged messages, or None for all
    """

    stages: list[Tensor]
    initial: Tensor | None = None
    to_input: list[Tensor] | None = None
    to_labels: list[Tensor] | None = None
    shortlist: Tensor | None = None


Block = Callable[[ModelConfig], MessagePassing]


@dataclass(frozen=True)
class Blocks:
    """How MPNN_xx and MPNN_yy are made; MPNN_xy is always plain."""

    xx: Block = MessagePassing
    yy: Block = MessagePassing


PLAIN = Blocks()


class LaMP(nn.Module):
    """Label Message Passing on the nodes that `embedding` makes of a batch."""

    def __init__(self, config: ModelConfig, embedding: Embedding, graph: LabelGraph, blocks: Blocks = PLAIN) -> None:
        super().__init__()
        self.config, self.n_labels = config, graph.n_labels
        self.embedding = embedding  # W^x
        self.graph = graph  # G_yy
        spread = 1.0 if config.label_vectors == "unit" else 1 / config.width
        self.W_y = nn.Parameter(spread * torch.randn(graph.n_labels, config.width))  # label vectors and W^o: one tensor
        self.xx = nn.ModuleList(blocks.xx(config) for _ in range(config.feature_steps))
        self.xy = nn.ModuleList(MessagePassing(config) for _ in range(config.steps))
        self.yy = nn.ModuleList(blocks.yy(config) for _ in range(config.steps))

    def forward(
        self,
        batch: Any,
        label_input: LabelInput = NOTHING_KNOWN,
        return_attention: bool = False,
        final_stage_only: bool = False,
    ) -> Output:
        """NodeBatch -> logits of every stage, or of the last one only (for prediction)."""
        z_BSD, present_BS, edge_types_BSS = self.embedding(batch)
        z_BSD = self.pass_among_features(z_BSD, present_BS, edge_types_BSS)
        labels = self.label_nodes(z_BSD, present_BS, label_input)
        from_input = Neighbourhood.of_present_nodes(present_BS)
        u = labels.states
        stages: list[Tensor] = []
        to_input, to_labels = [], []
        for t, (xy, yy) in enumerate(zip(self.xy, self.yy, strict=True), start=1):  # t = 1..T
            u, alpha = xy(u, z_BSD, from_input)  # u^t', stage t.1
            to_input.append(alpha)
            if not final_stage_only:
                stages.append(self.readout(u, labels))
            u, alpha = yy(u, None, labels.neighbourhood)  # u^{t+1}, stage t.2
            to_labels.append(alpha)
            if not final_stage_only or t == len(self.xy):
                stages.append(self.readout(u, labels))
        if not return_attention:
            return Output(stages, labels.initial_BL, None, None, labels.shortlist_BM)
        return Output(stages, labels.initial_BL, to_input, to_labels, labels.shortlist_BM)

    def pass_among_features(self, z_BSD: Tensor, present_BS: Tensor, edge_types_BSS: Tensor | None) -> Tensor:
        """MPNN_xx for T_x steps (FMP), along the known edges where there are any; without steps, Emb."""
        if not self.xx:
            return z_BSD
        if edge_types_BSS is None:
            among = Neighbourhood.of_present_nodes(present_BS)
        else:
            among = Neighbourhood.along_edges(present_BS, edge_types_BSS)
        for xx in self.xx:
            z_BSD, _ = xx(z_BSD, None, among)
        return z_BSD

    def label_nodes(self, z_BSD: Tensor, present_BS: Tensor, label_input: LabelInput) -> LabelNodes:
        """All labels, each starting from its own vector: u^0 = W^y."""
        return LabelNodes(self.W_y.unsqueeze(0), self.W_y, self.graph.neighbourhood())

    def readout(self, u: Tensor, labels: LabelNodes) -> Tensor:
        """R: a row-wise dot product with the label's own vector, eq. 14."""
        return (u * labels.vectors).sum(-1)
