"""Seeded random bytes: the source of every dropout decision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


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
