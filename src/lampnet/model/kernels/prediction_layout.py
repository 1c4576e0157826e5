"""A trained network laid out for prediction: the equations of `lamp.py` with fewer passes over memory.

Done once: the scale and shift of a layer norm go into the product behind it, matrices that meet the same vectors
are one, and where nodes are plain words their keys and values are looked up instead of computed. Done for each
batch: rows of one length attend without a mask, and residual sums are made by the products, in place.

Axes as in `lamp.py`. The numbers differ from the network's by rounding only.
"""

from __future__ import annotations

from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from lampnet.model.kernels.swap import Network, block_as, with_blocks
from lampnet.model.lamp import LaMP, MessagePassing, split_heads
from lampnet.model.neighbourhood import Neighbourhood
from lampnet.model.stacked import StackedLaMP

#: rows of one length attend by themselves, without a mask, where each such call has this many products to do
RUN_WORK = 2_000_000


class PredictionMessagePassing(MessagePassing):
    """One MPNN with its matrices laid out; `overwrites` allows its states to be changed in place."""

    overwrites: bool
    own_sources: slice | None
    W_quv: Tensor
    b_quv: Tensor | None
    W_uv: Tensor
    W_hidden: Tensor
    b_hidden: Tensor

    @classmethod
    def of(cls, block: MessagePassing, overwrites: bool) -> PredictionMessagePassing:
        """A trained MPNN, its weights shared, its layouts made."""
        made = block_as(cls, block)
        made.training = False
        made.overwrites, made.own_sources = overwrites, None
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

    def forward(self, v: Tensor, sources: Tensor | None, neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor | None]:
        """As `MessagePassing.forward`, but v may be overwritten and no attention weight is kept."""
        heads = self._heads(v, sources, neighbourhood)
        if self.pre_norm:
            m = self._collected(v, heads)
            return self._updated(m, self._normed(m, self.update_norm)), None
        m = self.message_norm(self._collected(v, heads))
        return self.update_norm(self._updated(m, m)), None

    def _normed(self, v: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The layer norm without its scale and shift: they are in the next product."""
        return layer_norm(v, norm.normalized_shape, None, None, norm.eps)

    def _heads(self, v: Tensor, sources: Tensor | None, neighbourhood: Neighbourhood) -> Tensor:
        """The sum over neighbourhood j of alpha_ij W_v v_j, all heads side by side, (B, R, D)."""
        x = self._normed(v, self.message_norm) if self.pre_norm else v
        q, u, v_j = (split_heads(part, self.heads) for part in self._projected(x, sources))
        runs = [(length, len(list(rows))) for length, rows in groupby(neighbourhood.lengths or ())]
        if not runs or len(runs) * RUN_WORK > u.numel() * q.shape[2]:
            bias = None if neighbourhood.bias is None else neighbourhood.bias.to(q.dtype)
            heads = _attended(q, u, v_j, bias)
            return heads if neighbourhood.empty_rows is None else heads.masked_fill_(neighbourhood.empty_rows, 0.0)
        parts, first = [], 0
        for length, rows in runs:
            last = first + rows
            mine = slice(first, last)
            queries = q if q.shape[0] == 1 else q[mine]
            if length:
                parts.append(_attended(queries, u[mine, :, :length], v_j[mine, :, :length], None))
            else:  # empty_rows sends
                parts.append(v.new_zeros(last - first, q.shape[2], v.shape[-1]))
            first = last
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _projected(self, x: Tensor, sources: Tensor | None) -> tuple[Tensor, ...]:
        """q of the receivers, u and v of the sources."""
        d = x.shape[-1]
        if sources is None:
            return linear(x, self.W_quv, self.b_quv).chunk(3, dim=-1)
        known = linear(sources, self.W_uv) if self.own_sources is None else sources[..., self.own_sources]
        b_q = None if self.b_quv is None else self.b_quv[:d]
        return linear(x, self.W_quv[:d], b_q), *known.chunk(2, dim=-1)

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


def laid_out(
    network: Network, n_nodes: int = 0, block: type[PredictionMessagePassing] = PredictionMessagePassing
) -> Network:
    """A copy of a trained network for prediction only, sharing its weights; the network itself is left as it is.

    Parameters
    ----------
    network : the trained network
    n_nodes : how many nodes will be predicted from; keys and values of words are kept where that saves work
    block : how a single MPNN is laid out
    """

    def make(name: str, step: int, module: MessagePassing) -> MessagePassing:
        if type(module) is not MessagePassing:
            return module  # another kernel, or typed edges
        # The first states are the label vectors themselves, or the user's own input: they stay as they are.
        return block.of(module, overwrites=name == "yy" or step > 0)

    made = with_blocks(network, make)
    _look_words_up(made, n_nodes)
    return made


def _look_words_up(made: LaMP, n_nodes: int) -> None:
    width, blocks = 2 * made.config.width, cast(list[PredictionMessagePassing], list(made.xy))
    if made.xx or (isinstance(made, StackedLaMP) and made.initial_gate is not None):  # these need the vectors
        return
    projected = made.embedding.projected([block.W_uv for block in blocks], n_nodes)
    if projected is None:
        return
    made._modules["embedding"] = projected
    for t, block in enumerate(blocks):
        block.own_sources = slice(t * width, (t + 1) * width)
