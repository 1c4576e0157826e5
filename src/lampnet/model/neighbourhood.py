"""N(i): which nodes may send a message to which.

Axes: B rows of a batch, S sending nodes, R receiving nodes, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lampnet.model.label_edges import LabelGraph


@dataclass(frozen=True)
class Neighbours:
    """N(i): who may send to whom.

    bias        added to the scores, broadcast to BHRS: -inf (the lowest float) where j is no neighbour
    empty_rows      (B, 1, 1) True for a row where empty_rows sends
    lengths     of each row, how many of the first nodes send, where these are all that send
    edge_types  (B, R, S) 0 = no edge or itself, k + 1 = an edge of type k
    graph       a sparse label graph, walked edge by edge
    self_loops_only    every node hears only itself
    record      return the attention weights
    """

    bias: Tensor | None = None
    empty_rows: Tensor | None = None
    lengths: list[int] | None = None
    edge_types: Tensor | None = None
    graph: LabelGraph | None = None
    self_loops_only: bool = False
    record: bool = False

    @classmethod
    def present(cls, present_BS: Tensor, record: bool = False) -> Neighbours:
        """Everyone hears every node that is there."""
        if bool(present_BS.all()):
            return cls(record=record)
        nobody_B = ~present_BS.any(dim=1)
        padded_behind = bool((present_BS[:, 1:] <= present_BS[:, :-1]).all())
        return cls(
            lengths=present_BS.sum(dim=1).tolist() if padded_behind else None,
            bias=closed_bias(~present_BS)[:, None, None, :],
            empty_rows=nobody_B[:, None, None] if bool(nobody_B.any()) else None,
            record=record,
        )

    @classmethod
    def along_edges(cls, present_BS: Tensor, edge_types_BSS: Tensor, record: bool = False) -> Neighbours:
        """Every node hears itself and the nodes with an edge to it."""
        itself = torch.eye(present_BS.shape[1], dtype=torch.bool)
        open_BSS = (edge_types_BSS > 0) | itself
        return cls(bias=closed_bias(~open_BSS)[:, None], edge_types=edge_types_BSS, record=record)

    def edge_index(self, like_BHRS: Tensor) -> Tensor:
        """Edge types as an index of the shape BHRS; type 0 is the node itself (or a closed pair)."""
        assert self.edge_types is not None
        return self.edge_types.long()[:, None].expand_as(like_BHRS)


def closed_bias(shut: Tensor) -> Tensor:
    """Zero where a pair is open, the lowest number where it is shut."""
    # The lowest bfloat16 is finite in every precision: a row where all is closed stays a number.
    return torch.zeros(shut.shape).masked_fill_(shut, torch.finfo(torch.bfloat16).min)
