"""lampnet: sets of labels by Label Message Passing.

The public names are loaded when first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lampnet.config import Config as Config
    from lampnet.data.dataset import Dataset as Dataset
    from lampnet.data.splits import Splits as Splits
    from lampnet.errors import LampnetError as LampnetError
    from lampnet.estimator import LaMPClassifier as LaMPClassifier
    from lampnet.readers.sources import load_data as load_data

__version__ = "0.1.0"

_HOME = {
    "Config": "config",
    "Dataset": "data.dataset",
    "LaMPClassifier": "estimator",
    "LampnetError": "errors",
    "Splits": "data.splits",
    "load_data": "readers.sources",
}

__all__ = ["Config", "Dataset", "LaMPClassifier", "LampnetError", "Splits", "__version__", "load_data"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
