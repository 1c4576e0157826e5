"""Dropout that does not wait for its random numbers.

Torch draws one Mersenne-Twister number an element on one thread, a quarter of a training step at
these sizes. Here eight decisions come from each 64-bit word of a SFC64 stream, so a chance is
rounded to a multiple of 1/256; training begins a stream of its own for every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class RandomBytes:
    """A seeded stream of random bytes whose place can be saved and restored."""

    def __init__(self, seed: int = 0) -> None:
        self._stream = np.random.SFC64(seed)

    def reseed(self, seed: int | Sequence[int]) -> None:
        """Begin the stream of another seed (numbers that are mixed to one)."""
        self._stream = np.random.SFC64(seed)

    def keep(self, shape: tuple[int, ...], chance: float) -> Tensor:
        """A bool tensor, False with the given chance (rounded to 1/256)."""
        count = int(np.prod(shape))
        words = self._stream.random_raw(count // 8 + 1)
        numbers = torch.from_numpy(words.view(np.uint8)[:count]).view(shape)
        return numbers >= round(chance * 256)

    def state(self) -> dict[str, Any]:
        """The stream's place, as plain data."""
        inner = self._stream.state
        return {"words": [int(w) for w in inner["state"]["state"]],
                "has_uint32": int(inner["has_uint32"]), "uinteger": int(inner["uinteger"])}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a place that `state` gave."""
        self._stream.state = {
            "bit_generator": "SFC64",
            "state": {"state": np.array(state["words"], dtype=np.uint64)},
            "has_uint32": state["has_uint32"],
            "uinteger": state["uinteger"],
        }


class _Drop(torch.autograd.Function):
    """x * keep * scale, remembering one byte an element instead of four."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return x.mul(keep).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return grads[0].mul(keep).mul_(ctx.scale), None, None


class ByteDropout(nn.Module):
    """Dropout whose decisions come from a shared `RandomBytes` stream.

    >>> drop = ByteDropout(0.5, RandomBytes(0))
    >>> bool((drop.eval()(torch.ones(4)) == torch.ones(4)).all())
    True
    """

    def __init__(self, chance: float, random: RandomBytes) -> None:
        super().__init__()
        self.chance = chance
        self.random = random

    def forward(self, x: Tensor) -> Tensor:
        eighths = round(self.chance * 256)
        if not self.training or eighths == 0:
            return x
        kept: Tensor = _Drop.apply(x, self.random.keep(tuple(x.shape), self.chance), 256 / (256 - eighths))
        return kept
