"""Rows that come through stdin.

They are copied into a temporary file, so that a reader can look at their beginning first and a file of any length
needs the memory of one chunk.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from lampnet.errors import ConfigError, DataError, FormatError, did_you_mean
from lampnet.readers.any_format import FORMATS

#: what rows without an id and errors call the file
NAME = "stdin"


#: bytes that show a format
_START = 1 << 16
_SIGNS = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"MATLAB", "mat"),
    (b"PK\x03\x04", "npz"),
    (b"{", "jsonl"),
    (b"@", "arff"),
)


@contextmanager
def spooled(form: str | None = None) -> Iterator[str]:
    """A file with what came through stdin, removed afterwards.

    `form` is named as by a file's ending; without it, the first bytes tell. Errors call the file "stdin".
    """
    if form is not None and f".{form}" not in FORMATS:
        raise ConfigError(f"--input-format {form!r} is not known; {did_you_mean(form, [e[1:] for e in FORMATS])}")
    if sys.stdin.isatty():
        raise ConfigError("rows from stdin (-) were asked for, but stdin is a terminal; pipe a file into the command")
    folder = tempfile.mkdtemp(prefix="lampnet-")
    try:
        start = sys.stdin.buffer.read(_START)
        path = os.path.join(folder, f"{NAME}.{form or format_by_start(start)}")
        try:
            with open(path, "wb") as file:
                file.write(start)
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        except OSError as fault:
            raise DataError(f"the rows from stdin could not be kept ({fault.strerror or fault})") from None
        try:
            yield path
        except FormatError as fault:
            raise DataError(str(fault).replace(path, NAME)) from fault
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def format_by_start(start: bytes) -> str:
    """The ending that a file which begins like this would have; refused where it does not show.

    >>> format_by_start(b'{"text": "a, b"}'), format_by_start(b"id,text\\n1,a"), format_by_start(b"id\\ttext, long\\n")
    ('jsonl', 'csv', 'tsv')
    """
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    for sign, form in _SIGNS:
        if text.startswith(sign):
            return form
    header = text.partition(b"\n")[0]
    if not text:
        return "jsonl"
    if b"\0" in text or not re.search(rb"[,;\t]", header):
        raise ConfigError(
            "the rows from stdin do not show their format: neither JSON lines nor a table with a header; "
            "name it, for example: --input-format csv"
        )
    return "tsv" if b"\t" in header else "csv"
