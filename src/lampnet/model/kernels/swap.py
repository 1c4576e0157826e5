"""Kernels are swapped in from outside: a copy of a network with other MPNNs, sharing every weight."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

from torch import nn

from lampnet.model.lamp import LaMP, MessagePassing

Network = TypeVar("Network", bound=LaMP)
Made = TypeVar("Made", bound=MessagePassing)


def with_blocks(network: Network, make: Callable[[str, int, MessagePassing], MessagePassing]) -> Network:
    """A copy of the network whose MPNNs are `make(name, step, MPNN)`, name being xx, xy or yy; weights are shared."""
    made = copy.copy(network)
    made._modules = dict(network._modules)
    for name in ("xx", "xy", "yy"):
        blocks = enumerate(getattr(network, name))
        made._modules[name] = nn.ModuleList(make(name, step, block) for step, block in blocks)
    return made


def block_as(cls: type[Made], block: MessagePassing) -> Made:
    """The same MPNN, its weights shared, as an object of another class."""
    made = cls.__new__(cls)
    made.__dict__.update(block.__dict__)
    made._modules, made._parameters = dict(block._modules), dict(block._parameters)
    return made


def plain(network: Network) -> Network:
    """A copy that passes label messages by the equations as written, so that attention weights can be read."""
    return with_blocks(network, lambda name, _, block: block_as(MessagePassing, block) if name == "yy" else block)
