"""Files that are written whole or not at all, and stay so when a process is killed or the power fails.

A file is written under a temporary name, flushed to disk and renamed; then its folder is flushed too.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from lampnet.errors import CheckpointError

_TEMPORARY = re.compile(r"\..+\.\d+(-[0-9a-f]+)?\.tmp", re.DOTALL)


def write_atomically(path: Path, *parts: bytes) -> None:
    """All of `parts`, one after the other, at `path`; or, after any fault, what was there before."""
    try:
        replace_files({path: parts})
    except OSError as fault:
        raise CheckpointError(
            f"{path} could not be written ({fault.strerror or fault}); what was there before is untouched: "
            "free some space or give another folder"
        ) from fault


def replace_files(contents: Mapping[Path, tuple[bytes, ...]]) -> None:
    """Write all files under temporary names, then rename them in this order; an `OSError` leaves the old ones.

    Each file's name reaches the disk before the next one's: a last file that names the others never comes first.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, parts in contents.items():
            # The process in the name is for people; nobody else may be writing here (see `folder_lock.py`).
            staged[path] = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
            with open(os.open(staged[path], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                flush_to_disk(file.fileno())
        for path, temporary in staged.items():
            os.replace(temporary, path)
            flush_folder(path.parent)
    except BaseException:
        for temporary in staged.values():
            remove_file(temporary)
        raise


def make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it where they are missing; `made` gets the new ones."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(exist_ok=True)
        made.append(path)
        flush_folder(path.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def check_no_link(folder: Path) -> None:
    """Refuse a folder that is a link: what would be written or removed there may be anything of the user's."""
    if folder.is_symlink():
        raise CheckpointError(
            f"{folder} is a symbolic link, and files elsewhere would be written or removed; remove the link, or give "
            "another folder"
        )


def flush_to_disk(handle: int) -> None:
    """Return when the content of an open file is on the disk."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        os.fsync(handle)
        return
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone leaves it in the drive's cache
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def flush_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems flush names by themselves
            raise
    finally:
        os.close(handle)


def remove_leftovers(folder: Path, file: str = "") -> None:
    """Remove what killed processes left of all files, or of one; only whoever holds them may do that."""
    for path in folder.iterdir():
        if is_temporary(path.name) and (not file or _target(path.name) == file):
            remove_file(path)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that `replace_files` had not renamed yet.

    >>> is_temporary(".model.json.4711-0a1b2c3d.tmp"), is_temporary("model.json")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def _target(name: str) -> str:
    """The file that a temporary one was to become.

    >>> _target(".rows.csv.4711-0a1b2c3d.tmp"), _target(".rows.csv.old.4711-0a1b2c3d.tmp")
    ('rows.csv', 'rows.csv.old')
    """
    return name[1:].removesuffix(".tmp").rpartition(".")[0]


def remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder that has become read-only keeps it; the message is about the write
        return
