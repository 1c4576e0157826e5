"""Dropout that does not wait for its random numbers.

Torch draws one Mersenne-Twister number an element on one thread, a quarter of a training step at
these sizes. Here eight decisions come from each 64-bit word of a SFC64 stream, so a chance is
rounded to a multiple of 1/256; training begins a stream of its own for every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class RandomBytes:
    """A seeded stream of random bytes."""

    def __init__(self, seed: int = 0) -> None:
        self._stream = np.random.SFC64(seed)

    def reseed(self, seed: int | Sequence[int]) -> None:
        """Begin the stream of another seed (numbers that are mixed to one)."""
        self._stream = np.random.SFC64(seed)

    def keep(self, shape: tuple[int, ...], chance: float) -> Tensor:
        """A bool tensor, False with the given chance (rounded to 1/256)."""
        return self.kept_bits(shape, chance).bool()

    def kept_bits(self, shape: tuple[int, ...], chance: float) -> Tensor:
        """The same decisions as bytes: 0 with the given chance, else 1."""
        threshold = round(chance * 256)
        count = math.prod(shape)
        numbers = torch.from_numpy(self._stream.random_raw(count // 8 + 1).view(np.uint8)[:count]).view(shape)
        if threshold == 0:
            return torch.ones_like(numbers)
        # Byte arithmetic runs 32 to an instruction; a comparison to bool does not.
        return numbers.clamp_(threshold - 1, threshold).sub_(threshold - 1)


class _AddDropped(torch.autograd.Function):
    """v + x * bits * scale, remembering one byte an element instead of four."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, x: Tensor, bits: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(bits)
        ctx.scale, ctx.shape = scale, v.shape
        return torch.addcmul(v, x, bits.to(x.dtype), value=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (bits,) = ctx.saved_tensors
        return grads[0].sum_to_size(ctx.shape), bits.to(grads[0].dtype).mul_(grads[0]).mul_(ctx.scale), None, None


class ByteDropout(nn.Module):
    """Dropout whose decisions come from a shared `RandomBytes` stream.

    >>> drop = ByteDropout(0.5, RandomBytes(0))
    >>> drop.eval()(torch.ones(4))
    tensor([1., 1., 1., 1.])
    """

    def __init__(self, chance: float, random: RandomBytes) -> None:
        super().__init__()
        self.chance = chance
        self.random = random

    def forward(self, x: Tensor) -> Tensor:
        return self.added(x.new_zeros(()), x)

    def added(self, v: Tensor, x: Tensor) -> Tensor:
        """v + dropout(x); `x` must be a fresh result: it is overwritten where nothing needs it again."""
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
