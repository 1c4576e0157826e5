"""Where a saved model finds its pretrained text encoder: in the folder that the user names, nowhere else.

A model folder may come from anyone. Were the path in it opened, it could make lampnet read any folder of the machine.
"""

from __future__ import annotations

import os
from dataclasses import replace

from lampnet.config import InputConfig
from lampnet.errors import DataError

VARIABLE = "LAMPNET_PRETRAINED"


def in_named_folder(config: InputConfig, given: str | None) -> InputConfig:
    """The settings with the text encoder in the folder that was given, else in the environment's LAMPNET_PRETRAINED.

    >>> in_named_folder(InputConfig(pretrained="/somewhere/minilm"), "models/minilm").pretrained
    'models/minilm'
    """
    if not config.pretrained:
        return config
    named = given or os.environ.get(VARIABLE)
    if not named:
        raise DataError(
            f"it was trained with the pretrained text encoder in {config.pretrained[:200]!r}, and paths that a saved "
            f"model states are not opened; name the folder with --pretrained (or {VARIABLE})"
        )
    return replace(config, pretrained=named)
