"""What labels mean in words, where their names do not say it: read by a pretrained text encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.names import half_a_character, unwritable
from lampnet.errors import ConfigError, did_you_mean


def checked_descriptions(given: Any, label_names: Sequence[str]) -> dict[str, str]:
    """Texts by label, of labels that there are.

    >>> checked_descriptions({"cpi": "consumer prices"}, ("cpi", "gnp"))
    {'cpi': 'consumer prices'}
    >>> checked_descriptions({"cpu": "consumer prices"}, ("cpi", "gnp"))
    Traceback (most recent call last):
    lampnet.errors.ConfigError: a description was given for 'cpu', which is not a label; did you mean 'cpi'?
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"label descriptions are {type(given).__name__}; give a dict, label: text")
    known = set(label_names)
    for name, text in given.items():
        if name not in known:
            shown = str(name)[:80]
            raise ConfigError(
                f"a description was given for {shown!r}, which is not a label; {did_you_mean(shown, label_names)[:300]}"
            )
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"the description of {str(name)[:80]!r} is {str(text)[:80]!r}; it must be a text")
        if unwritable([text]) is not None:
            raise ConfigError(half_a_character(f"the description of {str(name)[:80]!r}", text))
    return dict(given)


def with_descriptions(data: Dataset, given: Any, config: Config) -> Dataset:
    """The rows with what their labels mean; refused where nothing reads it."""
    if not config.input.pools:
        raise ConfigError(
            "label descriptions are read by a pretrained text encoder, and none is given; give --pretrained auto "
            "(pretrained='auto'), or leave them out"
        )
    return replace(data, label_descriptions=checked_descriptions(given, data.label_names))
