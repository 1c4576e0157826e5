"""Checkpoints: written whole or not at all, checked when read, the newest good one wins.

A checkpoint is one file: safetensors, whose metadata holds the plain state as JSON, followed by the
SHA-256 digest of all that. It is written to a temporary file, flushed to disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from lampnet.errors import CheckpointError
from lampnet.runtime.atomic_files import remove_file, write_atomically
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import read_regular

DIGEST_BYTES = 32
#: What a checkpoint of a training holds for each parameter: names are `KIND.NUMBER`.
_OPTIMIZER = ("step", "exp_avg", "exp_avg_sq")
_KINDS = ("weight", "average", "best", *(f"optimizer.{name}" for name in _OPTIMIZER))


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and plain data, as they were at one moment of a run."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, number: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write checkpoint `number`; keep it and the one before it."""
    path = folder / f"checkpoint-{number:09d}"
    write_checkpoint(path, tensors, state)
    # Higher numbers are damaged ones that a resumed run has passed over.
    others = [other for other in numbered_checkpoints(folder) if other != path]
    before = [other for other in others if other.name < path.name]
    for old in others:
        if old not in before[-1:]:
            remove_file(old)
    return path


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write one file that `read_checkpoint` reads."""
    whole = safetensors.torch.save(
        {name: tensor.detach().contiguous() for name, tensor in tensors.items()},
        metadata={"state": json.dumps(state)},
    )
    write_atomically(path, whole, hashlib.sha256(whole).digest())


def latest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence for each damaged one that was passed over."""
    damaged: list[str] = []
    for path in reversed(numbered_checkpoints(folder)):
        try:
            return read_checkpoint(path), damaged
        except CheckpointError as fault:
            damaged.append(str(fault))
    return None, damaged


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint."""
    try:
        content = read_regular(path)
    except OSError as fault:
        raise CheckpointError(f"{path} could not be read ({fault.strerror or fault})") from fault
    whole, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if len(digest) < DIGEST_BYTES or hashlib.sha256(whole).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its contents do not match its digest")
    try:
        header = parse_json(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
        state = parse_json(header["__metadata__"]["state"].encode())
        if not isinstance(state, dict):
            raise ValueError("its state is not a JSON object")
        return Checkpoint(safetensors.torch.load(whole), state)
    except (ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as fault:
        raise CheckpointError(f"{path} is not a checkpoint of lampnet ({str(fault)[:200]})") from fault


def check_tensors(tensors: Mapping[str, Tensor], parameters: Sequence[Tensor]) -> None:
    """Refuse what cannot be the state of these parameters: each has its shape; counts of steps are single numbers."""
    for name, tensor in tensors.items():
        kind, _, number = name.rpartition(".")
        if kind not in _KINDS or number not in map(str, range(len(parameters))):
            raise ValueError(f"{name[:80]} belongs to nothing")
        parameter = parameters[int(number)]
        wanted = () if kind == "optimizer.step" else parameter.shape
        if (tensor.shape, tensor.dtype) != (wanted, parameter.dtype):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)} and type {tensor.dtype}")
    counts = {kind: sum(f"{kind}.{number}" in tensors for number in range(len(parameters))) for kind in _KINDS}
    for kind in ("average", "best"):
        if counts[kind] not in (0, len(parameters)):
            raise ValueError(f"{kind} weights are missing")
    for i in range(len(parameters)):
        if sum(f"optimizer.{name}.{i}" in tensors for name in _OPTIMIZER) not in (0, len(_OPTIMIZER)):
            raise ValueError(f"a part of the optimizer's state of weight {i} is missing")


def remove_checkpoints(folder: Path) -> None:
    """Forget an earlier run into this folder."""
    for path in numbered_checkpoints(folder):
        remove_file(path)


def numbered_checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a folder, oldest first."""
    return sorted(path for path in folder.glob("checkpoint-?????????") if path.suffix == "")


def check_same_run(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume with other data or other settings than the checkpoint's.

    saved, now  {"data": digest, "settings": {name: value}}
    """
    now = json.loads(json.dumps(now))  # tuples come back from JSON as lists
    before, after = saved.get("settings") if isinstance(saved, Mapping) else None, now["settings"]
    if not isinstance(before, Mapping):
        raise CheckpointError(f"the run in {folder} does not state its settings; start again in another folder")
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if changed:
        name = changed[0]
        raise CheckpointError(
            f"the run in {folder} was started with {name}={before.get(name)}, now it is {after.get(name)}"
            f"{f' ({len(changed)} settings differ)' if len(changed) > 1 else ''}; "
            "resume with the same settings or give another folder"
        )
    if saved.get("data") != now["data"]:
        raise CheckpointError(
            f"the run in {folder} was started on other data (its rows or labels differ); "
            "resume with the same data or give another folder"
        )
