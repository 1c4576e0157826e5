"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from lampnet.errors import CheckpointError


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
        remove_file(temporary)
        if isinstance(fault, OSError):
            raise CheckpointError(
                f"{path} could not be written ({fault.strerror or fault}); what was there before is untouched: "
                "free some space or give another folder"
            ) from fault
        raise


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder that has become read-only keeps it; the message is about the write
        return
