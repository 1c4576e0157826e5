"""One MPNN in training as a single operation, its backward pass written by hand.

The equations and the numbers are those of `MessagePassing`; what is saved are passes over memory:
gradients of joined matrices are written where they belong, sums and masks are made in place, and
scores stay near the cache, one row of the batch at a time.

Axes as in `lamp.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from lampnet.model.kernels.byte_dropout import ByteResidual
from lampnet.model.kernels.swap import Network, block_as, with_blocks
from lampnet.model.lamp import MessagePassing, split_heads
from lampnet.model.neighbourhood import Neighbourhood
from lampnet.runtime.random_bytes import RandomBytes

# One row's pairs (R * S): below, one call per row costs more than it saves; above, its scores leave the cache.
MIN_PAIRS, MAX_PAIRS = 4_000, 60_000
#: what the hand-written backward pass calls; a torch release that lacks one of them trains by autograd
_PRIVATE_OPERATORS = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "native_layer_norm_backward",
    "threshold_backward",
)


def with_training_kernels(network: Network, random: RandomBytes) -> Network:
    """A copy of the network that trains faster, sharing its weights; dropout is drawn from `random`."""

    def make(name: str, step: int, block: MessagePassing) -> MessagePassing:
        made = block_as(FusedMessagePassing if type(block) is MessagePassing else type(block), block)
        made._modules["residual"] = ByteResidual(block.residual.chance, random)
        return made

    return with_blocks(network, make)


class FusedMessagePassing(MessagePassing):
    """One MPNN as a single autograd operation; by torch's fused attention where that does not apply."""

    residual: ByteResidual

    def forward(self, v: Tensor, sources: Tensor | None, neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor | None]:
        if not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or not _available():
            return super().forward(v, sources, neighbourhood)
        rows, receivers, width = (v if sources is None else sources).shape[0], v.shape[1], v.shape[2]
        pairs = receivers * (v if sources is None else sources).shape[1]
        by_row = MIN_PAIRS <= pairs <= MAX_PAIRS and (neighbourhood.bias is None or neighbourhood.lengths is not None)
        if not by_row and neighbourhood.empty_rows is not None:
            return super().forward(v, sources, neighbourhood)
        drop = self.residual
        threshold = round(drop.chance * 256) if drop.training else 0
        shape = (rows, receivers, width)
        bits = [drop.random.kept_bits(shape, drop.chance) if threshold else None for _ in range(2)]
        plan = Plan(
            pre_norm=self.pre_norm,
            heads=self.heads,
            score_scale=self.scale,
            kept_scale=256 / (256 - threshold),
            by_row=by_row,
            lengths=neighbourhood.lengths,
            bias=None if by_row or neighbourhood.bias is None else neighbourhood.bias.to(v.dtype),
            eps=self.message_norm.eps,
        )
        # Torch gives `apply` no types.
        result: Tensor = _Fused.apply(  # type: ignore[no-untyped-call]
            plan, v.contiguous(), sources, *bits,  # a convolution's output, e.g. of DNA, is transposed
            self.W_q.weight, self.W_u.weight, self.W_v.weight, self.W_c.weight,
            self.W_r.weight, self.W_r.bias, self.W_b.weight, self.W_b.bias,
            self.message_norm.weight, self.message_norm.bias, self.update_norm.weight, self.update_norm.bias,
        )  # fmt: skip
        return result, None

    def project(self, v: Tensor, sources: Tensor) -> tuple[Tensor, ...]:
        """Matrices that meet the same vectors are one product."""
        W_q = self.W_q.weight * self.scale
        if sources is v:
            return linear(v, torch.cat([W_q, self.W_u.weight, self.W_v.weight])).chunk(3, dim=-1)
        u, v_j = linear(sources, torch.cat([self.W_u.weight, self.W_v.weight])).chunk(2, dim=-1)
        return linear(v, W_q), u, v_j

    def attend(
        self, q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, neighbourhood: Neighbourhood
    ) -> tuple[Tensor, Tensor | None]:
        """Equations 3, 5 and 6 at once: no score leaves the cache, and no attention weight is kept."""
        bias = None if neighbourhood.bias is None else neighbourhood.bias.to(q_BHRC.dtype)
        q_BHRC = q_BHRC.expand(u_BHSC.shape[0], -1, -1, -1)
        return scaled_dot_product_attention(q_BHRC, u_BHSC, v_BHSC, bias, scale=1.0), None

    def update(self, m: Tensor) -> Tensor:
        update: Tensor = self.W_b(torch.relu_(self.W_r(m)))
        return update


@cache
def _available() -> bool:
    """Whether this torch release has the private operators of the backward pass."""
    named = all(hasattr(torch.ops.aten, name) for name in _PRIVATE_OPERATORS)
    return named and hasattr(torch, "_softmax_backward_data")


@dataclass(frozen=True)
class Plan:
    """The constants of one operation: see `MessagePassing` and `Neighbourhood`.

    pre_norm  layer norms before the message and the update; else after their residual sums, as in the paper
    by_row    attention one row of the batch at a time, by its own length; else the fused kernel of torch, with a bias
    """

    pre_norm: bool
    heads: int
    score_scale: float
    kept_scale: float
    by_row: bool
    lengths: list[int] | None
    bias: Tensor | None
    eps: float


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Plan, v: Tensor, sources: Tensor | None, bits_m: Tensor | None, bits_u: Tensor | None,
        W_q: Tensor, W_u: Tensor, W_v: Tensor, W_c: Tensor, W_r: Tensor, b_r: Tensor, W_b: Tensor, b_b: Tensor,
        g_m: Tensor, c_m: Tensor, g_u: Tensor, c_u: Tensor,
    ) -> Tensor:  # fmt: skip
        d = v.shape[-1]

        def norm(x: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
            return torch.native_layer_norm(x, (d,), scale, shift, plan.eps)

        x_m, *of_first = norm(v, g_m, c_m) if plan.pre_norm else (v,)
        if sources is None:
            q, u, v_j = torch.matmul(x_m, torch.cat([W_q * plan.score_scale, W_u, W_v]).T).chunk(3, dim=-1)
        else:
            q = torch.matmul(x_m, (W_q * plan.score_scale).T)
            u, v_j = torch.matmul(sources, torch.cat([W_u, W_v]).T).chunk(2, dim=-1)
        heads, *kept = _attend_by_row(plan, q, u, v_j) if plan.by_row else _attend(plan, q, u, v_j)
        m = _add_kept(v, torch.matmul(heads, W_c.T), bits_m, plan.kept_scale)  # eq. 7
        x_u, *of_middle = norm(m, g_u, c_u) if plan.pre_norm else norm(m, g_m, c_m)
        hidden = torch.addmm(b_r, x_u.view(-1, d), W_r.T).relu_()
        update = torch.addmm(b_b, hidden, W_b.T).view_as(m)
        summed = _add_kept(m if plan.pre_norm else x_u, update, bits_u, plan.kept_scale)  # eq. 9
        out, *of_last = (summed,) if plan.pre_norm else norm(summed, g_u, c_u)
        ctx.plan = plan
        ctx.save_for_backward(
            v, sources, bits_m, bits_u, W_q, W_u, W_v, W_c, W_r, W_b, g_m, c_m, g_u, c_u,
            x_m, q, u, v_j, heads, m, x_u, hidden, None if plan.pre_norm else summed,
            *of_first, *of_middle, *of_last, *kept,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (
            v, sources, bits_m, bits_u, W_q, W_u, W_v, W_c, W_r, W_b, g_m, c_m, g_u, c_u,
            x_m, q, u, v_j, heads, m, x_u, hidden, summed, mean_1, spread_1, mean_2, spread_2, *kept,
        ) = ctx.saved_tensors  # fmt: skip
        plan: Plan = ctx.plan
        (d_out,), d = grads, v.shape[-1]

        def norm_back(
            pull: Tensor, x: Tensor, mean: Tensor, spread: Tensor, g: Tensor, c: Tensor
        ) -> tuple[Tensor, ...]:
            found: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
                pull.contiguous(), x, (d,), mean, spread, g, c, (True, True, True)
            )
            return found

        if not plan.pre_norm:
            d_out, d_g_u, d_c_u = norm_back(d_out, summed, mean_2, spread_2, g_u, c_u)
        # The update: its dropout's scale goes into the small matrices.
        pull = _masked(d_out, bits_u).view(-1, d)
        scale = plan.kept_scale
        d_W_b, d_b_b = (pull.T @ hidden).mul_(scale), pull.sum(0).mul_(scale)
        d_hidden = pull @ (W_b * scale)
        torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0, grad_input=d_hidden)
        d_W_r, d_b_r = d_hidden.T @ x_u.view(-1, d), d_hidden.sum(0)
        d_x_u = (d_hidden @ W_r).view_as(m)
        if plan.pre_norm:
            d_m, d_g_u, d_c_u = norm_back(d_x_u, m, mean_2, spread_2, g_u, c_u)
            d_m.add_(d_out)
        else:
            d_m, d_g_m, d_c_m = norm_back(d_x_u.add_(d_out), m, mean_1, spread_1, g_m, c_m)
        # The message.
        pull = _masked(d_m, bits_m).view(-1, d)
        d_W_c = (pull.T @ heads.reshape(-1, d)).mul_(scale)
        d_heads = (pull @ (W_c * scale)).view_as(m)
        attend_back = _attend_by_row_back if plan.by_row else _attend_back
        d_all, d_q, d_uv = attend_back(plan, d_heads, q, u, v_j, heads, kept, sources is None)
        W_q_scaled = W_q * plan.score_scale
        d_senders = None
        if d_all is not None:
            flat = d_all.view(-1, 3 * d)
            d_x_m = (flat @ torch.cat([W_q_scaled, W_u, W_v])).view_as(x_m)
            d_W_q, d_W_u, d_W_v = (flat.T @ x_m.view(-1, d)).chunk(3)
        else:
            assert d_q is not None
            assert d_uv is not None
            d_x_m = torch.matmul(d_q, W_q_scaled)
            d_W_q = d_q.view(-1, d).T @ x_m.view(-1, d)
            flat = d_uv.view(-1, 2 * d)
            d_W_u, d_W_v = (flat.T @ sources.reshape(-1, d)).chunk(2)
            if ctx.needs_input_grad[2]:
                d_senders = (flat @ torch.cat([W_u, W_v])).view_as(sources)
        if plan.pre_norm:
            d_v, d_g_m, d_c_m = norm_back(d_x_m, v, mean_1, spread_1, g_m, c_m)
        else:
            d_v = d_x_m
        d_v.add_(d_m if len(v) == len(d_m) else d_m.sum(0, keepdim=True))
        return (
            None, d_v, d_senders, None, None, d_W_q.mul_(plan.score_scale), d_W_u, d_W_v, d_W_c,
            d_W_r, d_b_r, d_W_b, d_b_b, d_g_m, d_c_m, d_g_u, d_c_u,
        )  # fmt: skip


def _add_kept(v: Tensor, x: Tensor, bits: Tensor | None, scale: float) -> Tensor:
    """v + dropout(x), in the place of x."""
    return x.add_(v) if bits is None else torch.addcmul(v, x, bits.to(x.dtype), value=scale, out=x)


def _masked(x: Tensor, bits: Tensor | None) -> Tensor:
    return x.contiguous() if bits is None else bits.to(x.dtype).mul_(x)


def _attend(plan: Plan, q: Tensor, u: Tensor, v_j: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 3, 5 and 6 by torch's kernel, which recomputes the weights in the backward pass."""
    q, u, v_j = (split_heads(x, plan.heads) for x in (q.expand(len(u), -1, -1), u, v_j))
    heads, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, u, v_j, 0.0, False, attn_mask=plan.bias, scale=1.0
    )
    return heads.transpose(1, 2).flatten(-2), total


def _attend_back(
    plan: Plan, pull: Tensor, q: Tensor, u: Tensor, v_j: Tensor, heads: Tensor, kept: list[Tensor], together: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    shared = len(q) == 1
    parts = (split_heads(x, plan.heads) for x in (pull, q.expand(len(u), -1, -1), u, v_j, heads))
    found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *parts, kept[0], 0.0, False, attn_mask=plan.bias, scale=1.0
    )
    d_q, d_u, d_v = (x.transpose(1, 2).flatten(-2) for x in found)
    if together:
        return torch.cat([d_q, d_u, d_v], dim=-1), None, None
    return None, d_q.sum(0, keepdim=True) if shared else d_q, torch.cat([d_u, d_v], dim=-1)


def _attend_by_row(plan: Plan, q: Tensor, u: Tensor, v_j: Tensor) -> tuple[Tensor, Tensor]:
    """The same, one row at a time; the weights of all rows are kept, one after the other."""
    B, S, R, H = len(u), u.shape[1], q.shape[1], plan.heads
    lengths = plan.lengths or [S] * B
    heads = u.new_empty(B, R, q.shape[2])
    weights = u.new_empty(H * R * sum(lengths))
    kept = torch.split(weights, [H * R * n for n in lengths])
    rows = zip(kept, lengths, *(_rows(x, B, H) for x in (q, u, v_j, heads)), strict=True)
    for alpha, n, q_HRC, u_HSC, v_HSC, out_HRC in rows:
        if not n:  # empty_rows sends
            out_HRC.zero_()
            continue
        alpha_HRS = alpha.view(H, R, n)
        torch.bmm(q_HRC, u_HSC[:, :n].transpose(1, 2), out=alpha_HRS)  # eq. 5
        torch.softmax(alpha_HRS, -1, out=alpha_HRS)  # eq. 3
        torch.bmm(alpha_HRS, v_HSC[:, :n], out=out_HRC)  # eq. 6
    return heads, weights


def _attend_by_row_back(
    plan: Plan, pull: Tensor, q: Tensor, u: Tensor, v_j: Tensor, heads: Tensor, kept: list[Tensor], together: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    B, S, R, H, d = len(u), u.shape[1], q.shape[1], plan.heads, q.shape[2]
    lengths = plan.lengths or [S] * B
    d_all = d_q = d_uv = None
    if together:
        d_all = u.new_empty(B, R, 3 * d)
        to_q, to_u, to_v = d_all.chunk(3, dim=-1)
    else:
        d_uv = u.new_empty(B, S, 2 * d)
        d_q = to_q = q.new_zeros(q.shape)
        to_u, to_v = d_uv.chunk(2, dim=-1)
    shared = len(q) < B
    summed = q.new_zeros(H, R, d // H) if shared else None
    scratch = u.new_empty(H * R * S)
    weights = torch.split(kept[0], [H * R * n for n in lengths])
    rows = zip(weights, lengths, *(_rows(x, B, H) for x in (q, u, v_j, pull, to_q, to_u, to_v)), strict=True)
    for alpha, n, q_HRC, u_HSC, v_HSC, pull_HRC, dq_HRC, du_HSC, dv_HSC in rows:
        if n < S:  # places without a node
            du_HSC[:, n:], dv_HSC[:, n:] = 0.0, 0.0
        if not n:
            dq_HRC.zero_()  # where it is shared, its sum comes last
            continue
        alpha_HRS, d_alpha_HRS = alpha.view(H, R, n), scratch[: H * R * n].view(H, R, n)
        torch.bmm(alpha_HRS.transpose(1, 2), pull_HRC, out=dv_HSC[:, :n])
        torch.bmm(pull_HRC, v_HSC[:, :n].transpose(1, 2), out=d_alpha_HRS)
        torch._softmax_backward_data(d_alpha_HRS, alpha_HRS, -1, alpha.dtype, grad_input=d_alpha_HRS)
        torch.bmm(d_alpha_HRS.transpose(1, 2), q_HRC, out=du_HSC[:, :n])
        if summed is None:
            torch.bmm(d_alpha_HRS, u_HSC[:, :n], out=dq_HRC)
        else:
            summed.baddbmm_(d_alpha_HRS, u_HSC[:, :n])
    if summed is not None:
        split_heads(to_q, H)[0].copy_(summed)
    return d_all, d_q, d_uv


def _rows(x: Tensor, rows: int, heads: int) -> tuple[Tensor, ...]:
    """Each row of (B, N, D), or of (1, N, D) shared by all, as a view (H, N, C)."""
    return split_heads(x.expand(rows, -1, -1), heads).unbind(0)
