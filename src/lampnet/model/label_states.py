"""Messages among labels of which some are known: p(unknown labels | input, known labels).

Every label has a state: unknown, known to be true, known to be false. A label node starts from its vector, the vector
of its state, and the logits that it has before any message: what the input says (the model's own prediction with
nothing known), how far known labels shift it in closed form (`base_learners/label_dependence.py`), and both together,
weighted by how much is known (`base_learners/shift_weights.py`). Then labels exchange messages by the paper's MPNN_yy,
and a readout that starts at zero corrects the weighted logits.

Axes as in `lamp.py`; N labels per row that exchange messages: all that are known to be true, then the most promising.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding as look_up

from lampnet.config import KnownConfig, ModelConfig
from lampnet.model.kernels.self_loops import SelfLoopMessagePassing
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import MessagePassing

#: how far vectors are spread at the start: states stand out against labels, of which there are many
LABEL_SPREAD, STATE_SPREAD, LOGIT_SPREAD = 0.3, 1.0, 0.17


class LabelStates(nn.Module):
    """Label Message Passing conditioned on known labels.

    config    width, heads, steps and dropout; `shortlist` is N
    graph     which labels exchange messages
    n_shifts  how many closed-form shifts there are
    """

    def __init__(self, config: ModelConfig, graph: LabelGraph, n_shifts: int) -> None:
        super().__init__()
        self.config, self.graph, self.n_labels = config, graph, graph.n_labels
        L, D = graph.n_labels, config.width
        self.W_y = nn.Parameter(torch.randn(L, D) * LABEL_SPREAD)
        self.state_vector = nn.Parameter(torch.randn(3, D) * STATE_SPREAD)  # false, unknown, true
        self.logit_vector = nn.Parameter(torch.randn(2 + n_shifts, D) * LOGIT_SPREAD)
        block = SelfLoopMessagePassing if graph.kind == "edgeless" else MessagePassing
        self.yy = nn.ModuleList(block(config) for _ in range(config.steps))
        self.norm = nn.LayerNorm(D)
        self.W_o = nn.Parameter(torch.zeros(L, D))  # one readout per label, and one that all labels share
        self.w_o = nn.Parameter(torch.zeros(D))

    def forward(self, initial_BL: Tensor, logits_BL: Tensor, shifts_BLC: Tensor, states_BL: Tensor) -> Tensor:
        """Logits given what is known, (B, L).

        initial_BL  the logits that messages correct: what the input says, shifted by what is known
        logits_BL   what the input says
        shifts_BLC  how far what is known shifts that, C shifts in closed form
        states_BL   int64: 1 true, -1 false, 0 unknown

        A label that is known gets a logit too: what the model would say of it.
        """
        nodes_BN = self._taking_part(initial_BL, logits_BL, states_BL)
        own = partial(torch.gather, dim=1, index=nodes_BN)
        given_BLC = torch.cat([initial_BL.unsqueeze(-1), logits_BL.unsqueeze(-1), shifts_BLC], dim=-1)
        given_BNC = given_BLC.gather(1, nodes_BN.unsqueeze(-1).expand(-1, -1, given_BLC.shape[-1]))
        u = look_up(nodes_BN, self.W_y) + look_up(own(states_BL) + 1, self.state_vector)
        u = u + given_BNC @ self.logit_vector
        neighbourhood = self.graph.neighbourhood(nodes_BN)
        for yy in self.yy:
            u, _ = yy(u, None, neighbourhood)
        correction_BN = (self.norm(u) * (look_up(nodes_BN, self.W_o) + self.w_o)).sum(-1)
        return initial_BL.scatter_add(1, nodes_BN, correction_BN)

    def _taking_part(self, initial_BL: Tensor, logits_BL: Tensor, states_BL: Tensor) -> Tensor:
        """The labels of each row that exchange messages (B, N), by number.

        True labels first, then unknown labels by their logits and false ones by how promising they were: a label
        that nobody would have expected says nothing by being false.
        """
        if not 0 < self.config.shortlist < self.n_labels:
            return torch.arange(self.n_labels).expand(len(states_BL), -1)
        promising_BL = torch.where(states_BL < 0, logits_BL, initial_BL)
        ranked_BL = promising_BL.masked_fill(states_BL > 0, torch.inf)
        return ranked_BL.topk(self.config.shortlist, dim=1, sorted=False).indices.sort(dim=1).values


def build_label_states(known: KnownConfig, graph: LabelGraph, n_shifts: int) -> LabelStates:
    """An untrained network from torch's current random state."""
    config = ModelConfig(
        width=known.width,
        heads=known.heads,
        steps=known.steps,
        dropout=known.dropout,
        shortlist=known.shortlist,
        base_learners=(),
    )
    return LabelStates(config, graph, n_shifts)
