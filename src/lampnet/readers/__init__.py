"""Raw files to `Dataset`: one file a format, and the registry of named data sets.

The public names are loaded when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lampnet.readers.arff import read_arff as read_arff
    from lampnet.readers.digit_scenes import digit_truth as digit_truth
    from lampnet.readers.digit_scenes import planted_dependencies as planted_dependencies
    from lampnet.readers.registry import NAMES as NAMES
    from lampnet.readers.registry import describe as describe
    from lampnet.readers.registry import load as load

_HOME = {
    "NAMES": "registry",
    "load": "registry",
    "describe": "registry",
    "read_arff": "arff",
    "digit_truth": "digit_scenes",
    "planted_dependencies": "digit_scenes",
}

__all__ = ["NAMES", "describe", "digit_truth", "load", "planted_dependencies", "read_arff"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
