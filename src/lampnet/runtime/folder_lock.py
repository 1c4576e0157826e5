"""One process at a time writes into a folder, or into a file."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lampnet.errors import CheckpointError
from lampnet.runtime.atomic_files import make_folders, remove_file, remove_leftovers

LOCK = ".lampnet.lock"

#: lock file, process and thread: neither a forked process nor another thread may write here
_held: set[tuple[Path, int, int]] = set()


@contextmanager
def claimed(folder: Path | None, file: str = "") -> Iterator[None]:
    """Hold a folder for this thread of this process alone; it is free again when the process ends, however it ends.

    The folder is made where it is missing, and removed again if nothing was written to it. Inside another
    `claimed` of the same folder, and for None, nothing happens. With `file`, only the file of this name is held:
    others may write other files of the folder.
    """
    lock = Path() if folder is None else folder / (f".{file}.lock" if file else LOCK)
    mine = (lock.resolve(), os.getpid(), threading.get_ident())
    if folder is None or mine in _held:
        yield
        return
    made: list[Path] = []
    handle = -1
    try:
        try:
            handle = _locked(lock, folder / file, made)
            os.truncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            remove_leftovers(folder, file)
        except OSError as fault:
            raise CheckpointError(
                f"{folder} cannot be written to ({fault.strerror or fault}); give a folder of your own"
            ) from fault
        _held.add(mine)
        yield
    finally:
        _held.discard(mine)
        if handle >= 0:
            remove_file(lock)
            os.close(handle)
        with suppress(OSError):  # something was written there
            for path in reversed(made):
                path.rmdir()


def _locked(lock: Path, target: Path, made: list[Path]) -> int:
    """The open lock file; its folder is made where it is missing, and `made` gets what is new."""
    while True:
        make_folders(lock.parent, made)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(lock, flags, 0o644)
        except FileNotFoundError:  # whoever made the folder has just removed it again
            continue
        try:
            lock_file(handle, target)
            if _is_still(lock, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever held the folder has removed this file since: the next one is made anew


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def lock_file(handle: int, target: Path) -> None:
    """Hold an open file until it is closed; `target` is what the message says that another process is writing to."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise CheckpointError(f"{target} cannot be written to: its lock is not a regular file; give another one")
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        process = f" (process {holder})" if holder.isdecimal() else ""
        raise CheckpointError(
            f"another run{process} is writing to {target}; wait for it to end, or write somewhere else"
        ) from None
