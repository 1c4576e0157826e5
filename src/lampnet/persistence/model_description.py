"""`model.json` describes a model and names the file of its weights."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lampnet.errors import ModelFolderError
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import read_regular

FORMAT = "lampnet-model"
#: version 4 adds the calibration and the promises, version 5 what the rows of a kNN count; older models have none.
#: From version 6 on, what a shift by known labels counts depends on how much is known.
VERSION, READABLE = 6, (3, 4, 5, 6)
MODEL = "model.json"
CHECKPOINTS = "checkpoints"
MAX_JSON = 64_000_000
_PARTS = ("config", "label_names", "encoder", "decisions", "network_weight", "metadata", "weights_sha256")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_description(folder: Path) -> dict[str, Any]:
    """`model.json`, its outer shape checked."""
    path = folder / MODEL
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder {folder}; train one with: {_train_into(folder)}")
    try:
        data = parse_json(read_regular(path, MAX_JSON))
    except FileNotFoundError:
        raise ModelFolderError(_no_model(folder)) from None
    except OSError as fault:
        raise ModelFolderError(f"{path} cannot be read ({fault.strerror or fault})") from None
    except ValueError as fault:
        raise ModelFolderError(f"{path} is damaged: {fault}; train or copy the model again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFolderError(f"{path} does not describe a lampnet model")
    version = data.get("version")
    if type(version) is not int or version not in READABLE:
        raise ModelFolderError(
            f"{folder} has format version {str(version)[:20]}, this lampnet reads {' and '.join(map(str, READABLE))}; "
            "use the lampnet that wrote it or train again"
        )
    lacking = [part for part in _PARTS if part not in data]
    if lacking:
        raise ModelFolderError(f"{path} is damaged: it lacks {lacking[0]!r}")
    digest = data["weights_sha256"]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ModelFolderError(f"{path} is damaged: the digest of the weights is none")
    return data


def _no_model(folder: Path) -> str:
    resumed = f"with: {_train_into(folder, '--resume')}" if (folder / CHECKPOINTS).is_dir() else ""
    weights = weights_files(folder)
    if weights:
        again = f"write it again {resumed}" if resumed else "train again"
        there = f"though {weights[0].name} is there"
        return f"{folder} is damaged: it has no {MODEL}, {there}; copy the model again, or {again}"
    if resumed:
        return f"{folder} holds an unfinished training; finish it {resumed}"
    return f"{folder} is not a model folder: it has no {MODEL}; train one with: {_train_into(folder)}"


def _train_into(folder: Path, what: str = "DATA") -> str:
    return shlex.join(["lampnet", "train", what, "--out", str(folder)])


def weights_name(digest: str) -> str:
    """The weights' file of a model whose weights have this SHA-256 digest.

    >>> weights_name("0123456789abcdef" * 4)
    'weights-0123456789abcdef.safetensors'
    """
    return f"weights-{digest[:16]}.safetensors"


def weights_files(folder: Path) -> list[Path]:
    """All weights in a folder: those of its model, and what a process left that was killed while saving."""
    return sorted(folder.glob("weights-*.safetensors"))


def identity(data: Mapping[str, Any]) -> str:
    """A digest of all that decides a prediction; times and scores of the training are left out."""
    deciding = {part: data[part] for part in _PARTS if part != "metadata"}
    deciding |= {part: data[part] for part in ("shown", "hierarchy", "known") if data.get(part) is not None}
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
