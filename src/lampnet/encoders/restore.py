"""Restoring an encoder from a model folder. The folder is untrusted, so every value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lampnet.errors import DataError


def saved_names(state: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts.

    >>> saved_names({"names": ["a", "b"]}, "names")
    ('a', 'b')
    """
    values = _entry(state, key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError(f"the saved encoder's {key!r} must be a list of texts, not {_shown(values)}")
    return tuple(values)


def saved_count(state: Mapping[str, Any], key: str, low: int = 0, high: int = 1_000_000_000) -> int:
    """A whole number between two bounds."""
    value = _entry(state, key)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DataError(f"the saved encoder's {key!r} must be a whole number from {low} to {high}, not {_shown(value)}")
    return value


def saved_array(arrays: Mapping[str, np.ndarray], key: str, kind: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """An array of this dtype and shape (None: any length), all of its numbers finite."""
    value = arrays.get(key)
    if not isinstance(value, np.ndarray):
        raise DataError(f"the saved encoder lacks the array {key!r}; the model folder is damaged or foreign")
    fits = value.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, value.shape, strict=True))
    if value.dtype != np.dtype(kind) or not fits:
        wanted = tuple("any" if want is None else want for want in shape)
        raise DataError(
            f"the saved encoder's array {key!r} has type {value.dtype} and shape {value.shape}; "
            f"expected {kind} of shape {wanted}"
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise DataError(f"the saved encoder's array {key!r} holds values that are not numbers")
    return value


def _entry(state: Mapping[str, Any], key: str) -> Any:
    if not isinstance(state, Mapping) or key not in state:
        raise DataError(f"the saved encoder lacks {key!r}; the model folder is damaged or foreign")
    return state[key]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
