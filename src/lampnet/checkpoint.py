"""Checkpoints: written whole or not at all, checked when read, the newest good one wins.

A checkpoint is one file: safetensors, whose metadata holds the plain state as JSON, followed by the
SHA-256 digest of all that. It is written to a temporary file, flushed to disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from lampnet.errors import CheckpointError

DIGEST_BYTES = 32
LOCK = "lock"
_held: set[Path] = set()


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and plain data, as they were at one moment of a run."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_atomically(path: Path, *parts: bytes) -> None:
    """All of `parts`, one after the other, at `path`; or, after any fault, what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except BaseException as fault:
        _remove(temporary)
        if isinstance(fault, OSError):
            raise CheckpointError(
                f"{path} could not be written ({fault.strerror or fault}); what was there before is untouched: "
                "free some space or give another folder"
            ) from fault
        raise


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder that has become read-only keeps it; the message is about the write
        return


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Hold a training folder for this process alone; it is free again when the process ends, however it ends.

    Inside another `claimed` of the same folder, and for None, nothing happens.
    """
    if folder is None or folder.resolve() in _held:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as fault:
        raise CheckpointError(
            f"{folder} cannot be written to ({fault.strerror or fault}); give a folder of your own"
        ) from fault
    try:
        _lock(handle, folder)
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        for left_over in folder.glob(".checkpoint-*.tmp"):  # of a run that was killed while writing
            _remove(left_over)
        _held.add(folder.resolve())
        yield
    finally:
        _held.discard(folder.resolve())
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        raise CheckpointError(
            f"another run{f' (process {holder})' if holder else ''} is training into {folder}; "
            "wait for it to end or give another folder"
        ) from None


def save_checkpoint(folder: Path, number: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write checkpoint `number`; keep it and the one before it."""
    whole = safetensors.torch.save(
        {name: tensor.detach().contiguous() for name, tensor in tensors.items()},
        metadata={"state": json.dumps(state)},
    )
    path = folder / f"checkpoint-{number:09d}"
    write_atomically(path, whole, hashlib.sha256(whole).digest())
    # Higher numbers are damaged ones that a resumed run has passed over.
    others = [other for other in numbered_checkpoints(folder) if other != path]
    before = [other for other in others if other.name < path.name]
    for old in others:
        if old not in before[-1:]:
            _remove(old)
    return path


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
        content = path.read_bytes()
    except OSError as fault:
        raise CheckpointError(f"{path} could not be read ({fault.strerror or fault})") from fault
    whole, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if len(digest) < DIGEST_BYTES or hashlib.sha256(whole).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its contents do not match its digest")
    try:
        header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
        return Checkpoint(safetensors.torch.load(whole), json.loads(header["__metadata__"]["state"]))
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as fault:
        raise CheckpointError(f"{path} is not a checkpoint of lampnet ({fault})") from fault


def remove_checkpoints(folder: Path) -> None:
    """Forget an earlier run into this folder."""
    for path in numbered_checkpoints(folder):
        _remove(path)


def numbered_checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a folder, oldest first."""
    return sorted(path for path in folder.glob("checkpoint-?????????") if path.suffix == "")


def check_same_run(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume with other data or other settings than the checkpoint's.

    saved, now  {"data": digest, "settings": {name: value}}
    """
    now = json.loads(json.dumps(now))  # tuples come back from JSON as lists
    before, after = saved.get("settings", {}), now["settings"]
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
