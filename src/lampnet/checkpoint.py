"""Checkpoints: written whole or not at all, checked when read, the newest good one wins.

A checkpoint is one file: safetensors, whose metadata holds the plain state as JSON, followed by the
SHA-256 digest of all that. It is written to a temporary file, flushed to disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from lampnet.errors import CheckpointError

KEEP = 2
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and plain data, as they were at one moment of a run."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_atomically(path: Path, content: bytes) -> None:
    """All of `content` at `path`, or, after any fault, what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except OSError as fault:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path} could not be written ({fault.strerror or fault}); what was there before is untouched: "
            "free some space or give another folder"
        ) from fault
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_checkpoint(folder: Path, number: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write checkpoint `number` and drop all but the last two."""
    whole = safetensors.torch.save(
        {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()},
        metadata={"state": json.dumps(state)},
    )
    path = folder / f"checkpoint-{number:09d}"
    write_atomically(path, whole + hashlib.sha256(whole).digest())
    for old in _numbered(folder)[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def latest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a sentence for each damaged one that was passed over."""
    damaged = []
    for path in reversed(_numbered(folder)):
        try:
            return read_checkpoint(path), damaged
        except CheckpointError as fault:
            damaged.append(str(fault))
    return None, damaged


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint."""
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise CheckpointError(f"{path} could not be read ({fault.strerror or fault})") from fault
    whole, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if len(digest) < DIGEST_BYTES or hashlib.sha256(whole).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its contents do not match its digest")
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    return Checkpoint(safetensors.torch.load(whole), json.loads(header["__metadata__"]["state"]))


def _numbered(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("checkpoint-?????????") if path.suffix == "")
