"""N(i): which nodes send messages to which.

Axes: B rows of a batch, S source nodes, R receiving nodes, H heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Neighbourhood:
    """Which source j may send to which receiver i; with nothing given, every node receives from all.

    bias        added to the scores, broadcast to BHRS: a very negative number where j is no neighbour of i
    empty_rows  (B, 1, 1) True for a row without any source
    lengths     of each row, how many of the first nodes send, where these are all that send
    edge_types  (B, R, S) 0 = no edge or the node itself, k + 1 = an edge of type k
    """

    bias: Tensor | None = None
    empty_rows: Tensor | None = None
    lengths: list[int] | None = None
    edge_types: Tensor | None = None

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    @classmethod
    def of_present_nodes(cls, present_BS: Tensor) -> Neighbourhood:
        """Every receiver has all nodes of its row as neighbours, and none of the padding."""
        if bool(present_BS.all()):
            return cls()
        empty_B = ~present_BS.any(dim=1)
        padded_behind = bool((present_BS[:, 1:] <= present_BS[:, :-1]).all())
        return cls(
            lengths=present_BS.sum(dim=1).tolist() if padded_behind else None,
            bias=closed_bias(~present_BS)[:, None, None, :],
            empty_rows=empty_B[:, None, None] if bool(empty_B.any()) else None,
        )

    @classmethod
    def along_edges(cls, present_BS: Tensor, edge_types_BSS: Tensor) -> Neighbourhood:
        """Every node receives from itself and from the nodes with an edge to it."""
        itself = torch.eye(present_BS.shape[1], dtype=torch.bool)
        open_BSS = (edge_types_BSS > 0) | itself
        return cls(bias=closed_bias(~open_BSS)[:, None], edge_types=edge_types_BSS)


def closed_bias(closed: Tensor) -> Tensor:
    """Zero where a pair is open, a very negative number where it is closed."""
    # The lowest bfloat16 is finite in every precision: a row where everything is closed stays finite.
    return torch.zeros(closed.shape).masked_fill_(closed, torch.finfo(torch.bfloat16).min)
