"""What lampnet adds to the paper's network, in three places that `lamp.py` leaves open.

- Label states start from the logits of the base learners, and the readout corrects the stacked logits: its own part
  enters through a learned gate. The stacking weights belong to the base learners and are not trained here.
- The readout is scaled by 1 / sqrt(d) and has one bias per label.
- Of many labels, only a shortlist of the most promising ones per row exchanges messages; the others keep their
  initial logits.

Axes as in `lamp.py`; K base learners, M labels of the shortlist.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding as look_up

from lampnet.config import ModelConfig
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import NOTHING_KNOWN, PLAIN, Blocks, LabelInput, LabelNodes, LaMP
from lampnet.model.neighbourhood import Neighbourhood

if TYPE_CHECKING:
    from lampnet.encoders.base import Embedding

#: what the gate of the messages starts from beside base logits: they correct more than they decide
INITIAL_GATE = 0.1


class StackedLaMP(LaMP):
    """Label Message Passing on top of base learners, among a shortlist of labels."""

    def __init__(self, config: ModelConfig, embedding: Embedding, graph: LabelGraph, blocks: Blocks = PLAIN) -> None:
        super().__init__(config, embedding, graph, blocks)
        scaled = config.readout == "scaled"
        self.readout_scale = 1 / math.sqrt(config.width) if scaled else 1.0
        self.bias = nn.Parameter(torch.zeros(self.n_labels)) if scaled else None
        learners = len(config.base_learners)
        if learners:
            self.base_vector = nn.Parameter(torch.randn(learners, config.width) * 0.1)  # e_k
        start = INITIAL_GATE if learners else 1.0
        self.gate = nn.Parameter(torch.tensor(start)) if scaled or learners else None
        self.shortlist = max(0, config.shortlist)  # M; 0 for all labels; may be set on a copy of a trained model
        # Without base learners, rows and labels are compared by their vectors for initial logits.
        self.initial_gate = nn.Parameter(torch.tensor(1.0)) if config.shortlist > 0 and not learners else None

    def label_nodes(self, z_BSD: Tensor, present_BS: Tensor, label_input: LabelInput) -> LabelNodes:
        """All labels or each row's shortlist, starting from their vectors and base logits."""
        base_logits_BLK, stacked_BL = label_input.base_logits_BLK, label_input.stacked_BL
        initial_BL = self.initial_logits(z_BSD, present_BS) if stacked_BL is None else stacked_BL
        shortlist_BM = self._choose(initial_BL, label_input.forced_BL)
        vectors = self.W_y if shortlist_BM is None else look_up(shortlist_BM, self.W_y)
        states = vectors if shortlist_BM is not None else vectors.unsqueeze(0)
        if base_logits_BLK is not None:
            states = states + _of(base_logits_BLK, shortlist_BM) @ self.base_vector
        neighbourhood = self.graph.neighbourhood(shortlist_BM)
        return LabelNodes(states, vectors, neighbourhood, initial_BL, stacked_BL, shortlist_BM)

    def initial_logits(self, z_BSD: Tensor, present_BS: Tensor) -> Tensor | None:
        """Without base learners, logits before any label message (B, L), for a shortlist: a cheap comparison."""
        if self.initial_gate is not None:
            bias = 0.0 if self.bias is None else self.bias
            counts = present_BS.sum(1, keepdim=True).clamp(min=1)
            mean_BD = (z_BSD * present_BS.unsqueeze(-1)).sum(1) / counts
            return mean_BD @ self.W_y.T * (self.readout_scale * self.initial_gate) + bias
        if not self.shortlist:
            return None
        # Trained among all labels, predicting among a shortlist: stage 1.1, which reads the input only.
        every = super().label_nodes(z_BSD, present_BS, NOTHING_KNOWN)
        u, _ = self.xy[0](every.states, z_BSD, Neighbourhood.of_present_nodes(present_BS))
        return self.readout(u, every)

    def readout(self, u: Tensor, labels: LabelNodes) -> Tensor:
        """Eq. 14 scaled and gated, added to the stacked base logits; labels off the shortlist keep theirs."""
        logits = (u * labels.vectors).sum(-1) * self.readout_scale
        if self.gate is not None:
            logits = logits * self.gate
        if labels.stacked_BL is not None:
            logits = logits + _of(labels.stacked_BL, labels.shortlist_BM)
        if self.bias is not None:
            logits = logits + (self.bias if labels.shortlist_BM is None else self.bias[labels.shortlist_BM])
        if labels.shortlist_BM is None:
            return logits
        assert labels.initial_BL is not None
        return labels.initial_BL.to(logits.dtype).scatter(1, labels.shortlist_BM, logits)

    def _choose(self, initial_BL: Tensor | None, forced_BL: Tensor | None) -> Tensor | None:
        """The M most promising labels of each row (B, M), by number; None where all labels take part."""
        if initial_BL is None or not 0 < self.shortlist < self.n_labels:
            return None
        ranked = initial_BL.detach()
        if forced_BL is not None:
            ranked = ranked.masked_fill(forced_BL, torch.inf)
        return ranked.topk(self.shortlist, dim=1, sorted=False).indices.sort(dim=1).values


def _of(x_BL: Tensor, shortlist_BM: Tensor | None) -> Tensor:
    """(B, L) or (B, L, K) of the labels on the shortlist only."""
    if shortlist_BM is None:
        return x_BL
    index = shortlist_BM if x_BL.ndim == 2 else shortlist_BM.unsqueeze(-1).expand(-1, -1, x_BL.shape[-1])
    return x_BL.gather(1, index)
