"""Files of untrusted folders: regular files of a bounded size, never a pipe, a device or a link elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, BufferedWriter
from pathlib import Path

from lampnet.runtime.memory_limit import above, memory_limit

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
}


def open_regular(path: Path, most: int | None = None) -> BufferedReader:
    """A regular file of at most this many bytes, by default the memory limit, opened for reading.

    Raises
    ------
    OSError
        It is no regular file, too large, or cannot be opened; `strerror` says which.
    """
    _check(os.lstat(path), most)  # before opening: opening a device may already do something
    # The path may have become something else since: nothing is followed, waited for, or trusted before it is checked.
    handle = os.open(path, os.O_RDONLY | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK") | _flag("O_CLOEXEC"))
    try:
        _check(os.fstat(handle), most)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file of at most this many bytes, by default the memory limit; see `open_regular`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small"
    >>> file.write_bytes(b"abc")
    3
    >>> read_regular(file, 3)
    b'abc'
    """
    with open_regular(path, most) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(size + 1)
    if len(content) != size:
        raise OSError(errno.EIO, "it changed while it was read")
    return content


def append_regular(path: Path) -> BufferedWriter:
    """A regular file opened for writing at its end, made where it is missing; an `OSError` as of `open_regular`."""
    if os.path.lexists(path):
        _check(os.lstat(path), None)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK") | _flag("O_CLOEXEC")
    handle = os.open(path, flags, 0o666)
    try:
        _check(os.fstat(handle), None)
        return os.fdopen(handle, "ab")
    except BaseException:
        os.close(handle)
        raise


def _check(found: os.stat_result, most: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
    limit = memory_limit() if most is None else most
    if found.st_size > limit:
        size = f"{found.st_size:,} bytes"
        raise OSError(
            errno.EFBIG, f"it has {size}, {above(limit) if most is None else f'at most {most:,} are allowed'}"
        )


def _flag(name: str) -> int:
    """A flag of `os.open`; 0 where the system (Windows) has none."""
    return int(getattr(os, name, 0))
