"""Messages along typed edges: a bond type changes what an atom sends to its neighbour."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.model.lamp import MessagePassing, split_heads
from lampnet.model.neighbourhood import Neighbourhood


class TypedMessagePassing(MessagePassing):
    """One MPNN in which each edge type adds its own vector to the source's key and message."""

    def __init__(self, config: ModelConfig, edge_types: int) -> None:
        super().__init__(config)
        # Type 0 is the node itself.
        self.edge_key = nn.Parameter(torch.zeros(edge_types + 1, config.width))
        self.edge_message = nn.Parameter(torch.zeros(edge_types + 1, config.width))

    def attend(
        self, q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, neighbourhood: Neighbourhood
    ) -> tuple[Tensor, Tensor | None]:
        if neighbourhood.edge_types is None:
            return super().attend(q_BHRC, u_BHSC, v_BHSC, neighbourhood)
        scores_BHRS = q_BHRC @ u_BHSC.transpose(-1, -2)
        type_BHRS = neighbourhood.edge_types.long()[:, None].expand_as(scores_BHRS)
        by_type_BHRE = q_BHRC @ split_heads(self.edge_key.unsqueeze(0), self.heads).transpose(-1, -2)
        scores_BHRS = scores_BHRS + by_type_BHRE.gather(-1, type_BHRS)
        if neighbourhood.bias is not None:
            scores_BHRS = scores_BHRS + neighbourhood.bias
        alpha_BHRS = scores_BHRS.softmax(dim=-1)
        weight_BHRE = alpha_BHRS.new_zeros(*alpha_BHRS.shape[:-1], len(self.edge_message))
        weight_BHRE = weight_BHRE.scatter_add(-1, type_BHRS, alpha_BHRS)
        message = alpha_BHRS @ v_BHSC + weight_BHRE @ split_heads(self.edge_message.unsqueeze(0), self.heads)
        return message, alpha_BHRS
