"""Networks are built without memory, and get the stored weights once their shapes and types are found right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lampnet.errors import ModelFolderError

Network = TypeVar("Network", bound=nn.Module)


def without_memory(build: Callable[[], Network]) -> Network:
    """The network that `build` makes: shapes without numbers, for `with_weights`."""
    with torch.device("meta"), _Unfilled():
        return build()


def with_weights(folder: Path, network: Network, stored: Mapping[str, np.ndarray]) -> Network:
    """The network with its stored weights, ready to predict."""
    network.load_state_dict(_checked(folder, network.state_dict(), stored), assign=True)
    return network.eval()


def _checked(folder: Path, wanted: Mapping[str, Tensor], stored: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The stored weights as tensors, checked against the shapes and types that the network needs."""
    weights = {name: torch.from_numpy(array).clone() for name, array in stored.items()}
    for name, tensor in wanted.items():
        if name not in weights:
            raise ModelFolderError(f"{folder} is damaged: the weights {name!r} are missing")
        found = weights[name]
        if (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            raise ModelFolderError(
                f"{folder} is damaged: the weights {name!r} have shape {tuple(found.shape)} and type {found.dtype}, "
                f"expected {tuple(tensor.shape)} and {tensor.dtype}"
            )
    extra = sorted(set(weights) - set(wanted))
    if extra:
        raise ModelFolderError(f"{folder} is damaged: the weights {extra[0]!r} belong to no part of this model")
    return weights


class _Unfilled(TorchFunctionMode):
    """Skips filling and scaling tensors on the meta device, for which torch would load its compiler, for seconds.

    Tensors with memory (a pretrained transformer) are made as usual.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensor = args[0] if args else kwargs.get("tensor")
        if getattr(func, "__module__", "") == "torch.nn.init" and tensor.is_meta:
            return tensor
        if func in (torch.Tensor.normal_, torch.Tensor.uniform_) and tensor.is_meta:
            return tensor
        if func is torch.Tensor.mul and isinstance(args[1], float) and tensor.is_meta:
            return tensor
        if func is torch.randn and kwargs.get("device") is None:
            func = torch.empty
        return func(*args, **kwargs)
