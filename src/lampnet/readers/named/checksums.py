"""SHA256SUMS: the checksums of what was fetched first, compared whenever it is fetched again.

The file has the form that `sha256sum --check --ignore-missing SHA256SUMS` reads.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from lampnet.errors import FormatError
from lampnet.runtime.atomic_files import write_atomically
from lampnet.runtime.regular_files import open_regular, read_regular

SUMS = "SHA256SUMS"
_MOST_BYTES, _MOST_OF_A_FILE = 1 << 24, 1 << 40
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def recorded(folder: Path) -> dict[str, str]:
    """The recorded checksums by file name (folders separated by "/"); empty where nothing was fetched yet."""
    path = folder / SUMS
    if not os.path.lexists(path):
        return {}
    try:
        content = read_regular(path, _MOST_BYTES)
    except OSError as fault:
        raise FormatError(path, f"{fault.strerror or fault}; delete it and fetch again") from None
    found = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        matched = _LINE.fullmatch(line)
        if matched is None or not _is_inside(matched[2]):
            raise FormatError(path, "not a line of checksum and file name; delete the file and fetch again", number)
        found[matched[2]] = matched[1]
    return found


def _is_inside(name: str) -> bool:
    """Whether a name is that of a file in the folder or in one of its folders."""
    parts = name.split("/")
    return "\0" not in name and all(0 < len(part.encode()) < 256 and part not in (".", "..") for part in parts)


def record(folder: Path, sums: Mapping[str, str]) -> None:
    """Keep these checksums beside those that are recorded already."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted({**recorded(folder), **sums}.items()))
    write_atomically(folder / SUMS, "".join(lines).encode())


def sha256_of(path: Path) -> str:
    """The checksum of a file, which may be linked to; an `OSError` where it is no regular one."""
    with open_regular(path.resolve(), _MOST_OF_A_FILE) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
