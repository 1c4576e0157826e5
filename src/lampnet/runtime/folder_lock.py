"""One process at a time in a training folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lampnet.errors import CheckpointError
from lampnet.runtime.atomic_files import remove_file

LOCK = "lock"


_held: set[Path] = set()


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
            remove_file(left_over)
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
