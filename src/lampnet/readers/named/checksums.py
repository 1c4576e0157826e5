"""SHA256SUMS: the checksums of what was fetched first, compared whenever it is fetched again.

The file has the form that `sha256sum --check --ignore-missing SHA256SUMS` reads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from lampnet.errors import FormatError
from lampnet.runtime.atomic_files import write_atomically

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def recorded(folder: Path) -> dict[str, str]:
    """The recorded checksums by file name (folders separated by "/"); empty where nothing was fetched yet."""
    path = folder / SUMS
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise FormatError(path, "not a line of checksum and file name; delete the file and fetch again", number)
        found[matched[2]] = matched[1]
    return found


def record(folder: Path, sums: Mapping[str, str]) -> None:
    """Keep these checksums beside those that are recorded already."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted({**recorded(folder), **sums}.items()))
    write_atomically(folder / SUMS, "".join(lines).encode())


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
