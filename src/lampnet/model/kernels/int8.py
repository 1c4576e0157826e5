"""Prediction with 8-bit products, where this processor is faster with them.

Weights become int8 with one scale per output; activations are scaled as a whole when they arrive. Scores,
softmax, layer norms, residual sums, base logits and readout stay in float32.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from lampnet.errors import ConfigError
from lampnet.model.kernels.prediction_layout import PredictionMessagePassing, laid_out
from lampnet.model.kernels.swap import Network
from lampnet.runtime.torch_state import announced_once

#: int8 is refused unless its products are at least this much faster than those of float32
WORTH_IT = 1.15
_PROBE_ROWS = 2048


class Int8Linear(nn.Module):
    """A linear map with packed int8 weights; inference only."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> None:
        super().__init__()
        # Torch will move its int8 tensors elsewhere one day; until then this is where they are.
        announced_once("int8", lambda: _as_int8(torch.eye(1)))
        integers = _as_int8(weight.detach().float())
        self.packed = torch.ops.quantized.linear_prepack(integers, None if bias is None else bias.detach().float())
        ops: Any = torch.ops.quantized
        self._product = ops.linear_relu_dynamic if relu else ops.linear_dynamic

    def forward(self, x: Tensor) -> Tensor:
        # Seven bits for activations: eight could overflow the 16-bit sums of AVX2.
        result: Tensor = self._product(x, self.packed, True)
        return result


def _as_int8(weight: Tensor) -> Tensor:
    scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
    return torch.quantize_per_channel(weight, scales, torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8)


class Int8MessagePassing(PredictionMessagePassing):
    """The same MPNN with int8 products."""

    to_q: Int8Linear
    to_uv: Int8Linear
    to_quv: Int8Linear

    def _lay_out(self) -> None:
        W_q, W_u, W_v = self.W_q.weight * self.scale, self.W_u.weight, self.W_v.weight
        self.W_uv = torch.cat([W_u, W_v])
        self.to_q = Int8Linear(W_q)
        self.to_uv = Int8Linear(self.W_uv)
        self.to_quv = Int8Linear(torch.cat([W_q, W_u, W_v]))
        self.add_module("W_v", Int8Linear(W_v))
        self.add_module("W_c", Int8Linear(self.W_c.weight))
        self.add_module("W_r", Int8Linear(self.W_r.weight, self.W_r.bias, relu=True))
        self.add_module("W_b", Int8Linear(self.W_b.weight, self.W_b.bias))

    def _normed(self, v: Tensor, norm: nn.LayerNorm) -> Tensor:
        normed: Tensor = norm(v)
        return normed

    def _projected(self, x: Tensor, sources: Tensor | None) -> tuple[Tensor, ...]:
        if sources is None:
            return tuple(self.to_quv(x).chunk(3, dim=-1))
        known = self.to_uv(sources) if self.own_sources is None else sources[..., self.own_sources]
        return self.to_q(x), *known.chunk(2, dim=-1)

    def _collected(self, v: Tensor, heads: Tensor) -> Tensor:
        collected: Tensor = self.W_c(heads).add_(v)
        return collected

    def _updated(self, m: Tensor, seen: Tensor) -> Tensor:
        update: Tensor = self.W_b(self.W_r(seen))
        return update.add_(m)


def quantised(network: Network, n_nodes: int = 0) -> Network:
    """A copy of the network that predicts with int8 products; embedding and readout stay as they are.

    Where many nodes will be predicted from, keys and values of words are computed once, in float32.
    """
    return laid_out(network, n_nodes, Int8MessagePassing)


def check_int8_pays(width: int) -> None:
    """Refuse int8 where its products are hardly faster than those of float32 on this processor."""
    gain = int8_gain(width)
    if gain < WORTH_IT:
        raise ConfigError(
            f"int8 is refused: at width {width} this processor's int8 products run at {gain:.2f}x the "
            f"speed of float32 (at least {WORTH_IT:.2f}x is worth the lost digits); use --precision float32"
        )


def int8_gain(width: int, rounds: int = 9) -> float:
    """How many times faster an int8 product is here than one of float32, measured in turns (some milliseconds)."""
    if torch.backends.quantized.engine not in ("x86", "fbgemm", "onednn"):
        return 0.0
    x, weight = torch.ones(_PROBE_ROWS, width), torch.eye(width)
    layers = (nn.Linear(width, width, bias=False), Int8Linear(weight))
    times: tuple[list[float], list[float]] = ([], [])
    with torch.inference_mode():
        for _ in range(rounds + 1):
            for layer, taken in zip(layers, times, strict=True):
                began = time.process_time()
                layer(x)
                taken.append(time.process_time() - began)
    plain, small = (min(taken[1:]) for taken in times)
    return plain / max(small, 1e-9)
