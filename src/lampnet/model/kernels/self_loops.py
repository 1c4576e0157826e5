"""MPNN_yy of an edgeless label graph: every label receives from itself only, so alpha_ii = 1 needs no score."""

from __future__ import annotations

from torch import Tensor

from lampnet.model.label_graph import LabelNeighbourhood
from lampnet.model.lamp import MessagePassing
from lampnet.model.neighbourhood import Neighbourhood


class SelfLoopMessagePassing(MessagePassing):
    """One MPNN along self-loops; it keeps no attention weights."""

    def messages(self, v: Tensor, sources: Tensor, neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor | None]:
        if not isinstance(neighbourhood, LabelNeighbourhood):
            return super().messages(v, sources, neighbourhood)
        return self.W_c(self.W_v(sources)), None
