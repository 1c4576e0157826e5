"""A trained network laid out for prediction: the equations of `model` with fewer passes over memory.

What is done once: the scale and shift of a layer norm go into the product behind it, matrices that
meet the same vectors are one, and where nodes are plain words their keys and values are looked up
instead of computed. What is done a batch: rows of one length attend without a mask, and residual
sums are made by the products, in place.

Axes as in `model`. The numbers differ from the model's by rounding only.
"""

from __future__ import annotations

import copy
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from lampnet.model.lamp import LaMP, MessagePassing
from lampnet.model.neighbourhood import Neighbours

#: rows of one length attend by themselves, without a mask, where each such call has this many products to do
RUN_WORK = 2_000_000


class PredictionMessagePassing(MessagePassing):
    """One MPNN with its matrices laid out; `overwrites` allows its states to be changed in place."""

    overwrites: bool
    own_senders: slice | None
    W_quv: Tensor
    b_quv: Tensor | None
    W_uv: Tensor
    W_hidden: Tensor
    b_hidden: Tensor

    @classmethod
    def of(cls, module: MessagePassing, overwrites: bool) -> PredictionMessagePassing:
        """A trained MPNN, its own modules shared, its layouts made."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.__dict__.update({k: v for k, v in module.__dict__.items() if not k.startswith("_")})
        made._modules, made._parameters = dict(module._modules), dict(module._parameters)
        made.training = False
        made.overwrites, made.own_senders = overwrites, None
        with torch.no_grad():
            made._lay_out()
        return made

    def _lay_out(self) -> None:
        W_u, W_v = self.W_u.weight, self.W_v.weight
        W_quv, W_r = torch.cat([self.W_q.weight * self.scale, W_u, W_v]), self.W_r.weight
        self.W_uv = torch.cat([W_u, W_v])
        self.W_quv, self.b_quv, self.W_hidden, self.b_hidden = W_quv, None, W_r.detach(), self.W_r.bias.detach()
        if self.pre_norm:  # W (g * x + b) = (W g) x + W b
            g, b = self.message_norm.weight, self.message_norm.bias
            self.W_quv, self.b_quv = W_quv * g, W_quv @ b
            g, b = self.update_norm.weight, self.update_norm.bias
            self.W_hidden, self.b_hidden = W_r * g, W_r @ b + self.W_r.bias

    def forward(self, v: Tensor, sources: Tensor | None, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        """As the model's; v may be overwritten."""
        typed = self.edge_key is not None and neighbours.edge_types is not None
        if neighbours.record or neighbours.self_loops_only or neighbours.graph is not None or typed:
            assert self.own_senders is None, "a network whose words are looked up keeps no attention weights"
            return super().forward(v, sources, neighbours)
        heads = self._heads(v, sources, neighbours)
        if self.pre_norm:
            m = self._collected(v, heads)
            return self._updated(m, self._normed(m, self.update_norm)), None
        m = self.message_norm(self._collected(v, heads))
        return self.update_norm(self._updated(m, m)), None

    def _normed(self, v: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The layer norm without its scale and shift: they are in the next product."""
        return layer_norm(v, norm.normalized_shape, None, None, norm.eps)

    def _heads(self, v: Tensor, sources: Tensor | None, neighbours: Neighbours) -> Tensor:
        """The sum over neighbours j of alpha_ij W_v v_j, all heads side by side, (B, R, D)."""
        asked = self._normed(v, self.message_norm) if self.pre_norm else v
        q, u, v_j = (x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2) for x in self._sent(asked, sources))
        runs = [(length, len(list(rows))) for length, rows in groupby(neighbours.lengths or ())]
        if not runs or len(runs) * RUN_WORK > u.numel() * q.shape[2]:
            bias = None if neighbours.bias is None else neighbours.bias.to(q.dtype)
            heads = _attended(q, u, v_j, bias)
            return heads if neighbours.empty_rows is None else heads.masked_fill_(neighbours.empty_rows, 0.0)
        parts, first = [], 0
        for length, rows in runs:
            last = first + rows
            mine = slice(first, last)
            asking = q if q.shape[0] == 1 else q[mine]
            if length:
                parts.append(_attended(asking, u[mine, :, :length], v_j[mine, :, :length], None))
            else:  # empty_rows sends
                parts.append(v.new_zeros(last - first, q.shape[2], v.shape[-1]))
            first = last
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _sent(self, asked: Tensor, sources: Tensor | None) -> tuple[Tensor, ...]:
        """q of the receivers, u and v of the sources."""
        d = asked.shape[-1]
        if sources is None:
            return linear(asked, self.W_quv, self.b_quv).chunk(3, dim=-1)
        known = linear(sources, self.W_uv) if self.own_senders is None else sources[..., self.own_senders]
        b_q = None if self.b_quv is None else self.b_quv[:d]
        return linear(asked, self.W_quv[:d], b_q), *known.chunk(2, dim=-1)

    def _collected(self, v: Tensor, heads: Tensor) -> Tensor:
        """v + W_c heads."""
        if not self.overwrites:
            collected: Tensor = self.W_c(heads).add_(v)
            return collected
        v.view(-1, v.shape[-1]).addmm_(heads.reshape(-1, v.shape[-1]), self.W_c.weight.T)
        return v

    def _updated(self, m: Tensor, seen: Tensor) -> Tensor:
        """m + U_mlp(seen); m, a fresh result, is overwritten."""
        hidden = linear(seen, self.W_hidden, self.b_hidden).relu_()
        m.add_(self.W_b.bias).view(-1, m.shape[-1]).addmm_(hidden.view(-1, hidden.shape[-1]), self.W_b.weight.T)
        return m


def _attended(q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, bias: Tensor | None) -> Tensor:
    q_BHRC = q_BHRC.expand(u_BHSC.shape[0], -1, -1, -1)
    return scaled_dot_product_attention(q_BHRC, u_BHSC, v_BHSC, bias, scale=1.0).transpose(1, 2).flatten(-2)


def prepared(model: LaMP, nodes: int = 0, block: type[PredictionMessagePassing] = PredictionMessagePassing) -> LaMP:
    """A copy of the network for prediction only, sharing its weights; the model itself is left as it is.

    Parameters
    ----------
    model : the trained network, or a committee of such
    nodes : how many nodes will be predicted from; keys and values of words are kept where that saves work
    block : how a single MPNN is laid out
    """
    made = copy.copy(model)
    made._modules = dict(model._modules)
    made.training = False
    if not isinstance(model, LaMP):  # several networks that are called as one
        members = (prepared(member, nodes, block) for member in model.members)
        made._modules["members"] = nn.ModuleList(members)
        return made
    if any(isinstance(module, PredictionMessagePassing) for module in model.xy):
        return model
    # The first states are the label vectors themselves, or the user's own input: they stay as they are.
    for name, first_overwrites in (("xx", False), ("xy", False), ("yy", True)):
        blocks = [block.of(module, first_overwrites or t > 0) for t, module in enumerate(getattr(model, name))]
        made._modules[name] = nn.ModuleList(blocks)
    _look_words_up(made, nodes)
    return made


def _look_words_up(made: LaMP, nodes: int) -> None:
    width, blocks = 2 * made.config.width, cast(list[PredictionMessagePassing], list(made.xy))
    if made.xx or made.initial_gate is not None:
        return
    projected = made.embedding.projected([block.W_uv for block in blocks], nodes)
    if projected is None:
        return
    made._modules["embedding"] = projected
    for t, module in enumerate(blocks):
        module.own_senders = slice(t * width, (t + 1) * width)
