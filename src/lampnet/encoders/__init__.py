"""Rows to nodes: one file per input kind, loaded when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lampnet.config import InputConfig
from lampnet.encoders.pretrained_folder import STATIC, folder_of, in_named_folder, static_files
from lampnet.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from lampnet.encoders.base import Encoder

_HOME = {
    "wordset": ("wordset", "WordSetEncoder"),
    "text": ("text", "TextEncoder"),
    "vector": ("vector", "VectorEncoder"),
    "columns": ("columns", "ColumnsEncoder"),
    "dna": ("dna", "DnaEncoder"),
    "molecule": ("molecule", "MoleculeEncoder"),
    "image": ("image", "ImageEncoder"),
    "parts": ("parts", "PartsEncoder"),
}

#: text with a pretrained encoder, by what it is used for
_PRETRAINED = {
    "nodes": ("pretrained", "PretrainedEncoder"),
    "pooled": ("pooled", "PooledEncoder"),
    "tokens": ("token_states", "TokenStateEncoder"),
}
_STATIC = ("static_vectors", "StaticEncoder")


def make_encoder(kind: str, config: InputConfig) -> Encoder:
    """An encoder for an input kind, ready to be fitted on training rows.

    >>> make_encoder("text", InputConfig()).kind
    'text'
    """
    return _class(kind, config)(config)


def restore_encoder(
    kind: str,
    config: InputConfig,
    state: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    pretrained: str | None = None,
) -> Encoder:
    """The encoder that `state()` and `arrays()` described; damaged or foreign data is a `DataError`.

    pretrained  the folder of a pretrained text encoder; the one that `config` states is not opened
    """
    if not isinstance(state, Mapping) or not isinstance(arrays, Mapping):
        raise DataError("a saved encoder is a JSON object and named arrays; the model folder is damaged or foreign")
    config = in_named_folder(config, pretrained)
    return _class(kind, config).restore(config, state, arrays)


def _class(kind: str, config: InputConfig) -> type[Encoder]:
    if kind not in _HOME:
        raise DataError(f"there is no input kind {kind!r}; {did_you_mean(str(kind), _HOME)}")
    module, name = _HOME[kind]
    if kind == "text" and config.pretrained:
        module, name = _PRETRAINED[config.pretrained_use]
        if config.pretrained_use != "nodes" and (
            config.pretrained == STATIC or static_files(folder_of(config.pretrained)) is not None
        ):
            module, name = _STATIC
    found: type[Encoder] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
