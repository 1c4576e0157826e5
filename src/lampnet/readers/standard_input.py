"""Rows that come through stdin.

They are copied into a temporary file, so that a reader can look at their beginning first and a file of any length
needs the memory of one chunk.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from lampnet.errors import ConfigError, DataError, did_you_mean
from lampnet.readers.any_format import FORMATS

#: what rows without an id and errors call the file
NAME = "stdin"


@contextmanager
def spooled(form: str) -> Iterator[str]:
    """A file with what came through stdin, in a format named as by a file's ending; removed afterwards."""
    if f".{form}" not in FORMATS:
        raise ConfigError(f"--input-format {form!r} is not known; {did_you_mean(form, [e[1:] for e in FORMATS])}")
    if sys.stdin.isatty():
        raise ConfigError("rows from stdin (-) were asked for, but stdin is a terminal; pipe a file into the command")
    folder = tempfile.mkdtemp(prefix="lampnet-")
    path = os.path.join(folder, f"{NAME}.{form}")
    try:
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        except OSError as fault:
            raise DataError(f"the rows from stdin could not be kept ({fault.strerror or fault})") from None
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)
