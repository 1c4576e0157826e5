"""Dropout that does not wait for its random numbers.

Torch draws one Mersenne-Twister number per element on one thread, a quarter of a training step at these sizes.
Here eight decisions come from each 64-bit word of a SFC64 stream, so a chance is rounded to a multiple of 1/256;
training begins a stream of its own for every step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lampnet.model.lamp import Residual
from lampnet.runtime.random_bytes import RandomBytes


class _AddDropped(torch.autograd.Function):
    """v + x * bits * scale, keeping one byte per element for the backward pass instead of four."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, x: Tensor, bits: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(bits)
        ctx.scale, ctx.shape = scale, v.shape
        return torch.addcmul(v, x, bits.to(x.dtype), value=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (bits,) = ctx.saved_tensors
        return grads[0].sum_to_size(ctx.shape), bits.to(grads[0].dtype).mul_(grads[0]).mul_(ctx.scale), None, None


class ByteResidual(Residual):
    """v + dropout(x), its decisions from a `RandomBytes` stream.

    >>> residual = ByteResidual(0.5, RandomBytes(0))
    >>> residual.eval()(torch.zeros(4), torch.ones(4))
    tensor([1., 1., 1., 1.])
    """

    def __init__(self, chance: float, random: RandomBytes) -> None:
        super().__init__(chance)
        self.random = random

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        """`x` must be a fresh result: it is overwritten where nothing needs it again."""
        threshold = round(self.chance * 256)
        if self.training and threshold:
            if v.dtype != x.dtype:  # mixed precision: the sum keeps the state's precision
                x = x.to(v.dtype)
            bits = self.random.kept_bits(tuple(x.shape), self.chance)
            summed: Tensor = _AddDropped.apply(v, x, bits, 256 / (256 - threshold))  # type: ignore[no-untyped-call]
            return summed
        if torch.is_grad_enabled() or v.dtype != x.dtype:
            return v + x
        return x.add_(v)
