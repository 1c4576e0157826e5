"""Rows to predict, a chunk at a time, so that a file of any length needs the memory of one chunk.

JSON lines are read chunk by chunk; other formats are read whole and then cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import plain_suffix, read_lines
from lampnet.readers.sources import Source

CHUNK_ROWS = 1024


def chunks(
    source: Source,
    split: str,
    seed: int,
    skip: int = 0,
    size: int = CHUNK_ROWS,
    *,
    notice: Callable[[str], None] | None = None,
) -> Iterator[Dataset]:
    """Data sets of at most `size` rows, in order, without the first `skip` rows."""
    if not source.named and Path(source.data).is_file() and plain_suffix(source.data) in (".jsonl", ".ndjson"):
        yield from _jsonl_chunks(source, skip, size)
        return
    whole = source.part(split, seed, notice)
    if whole.ids is None:
        whole = replace(whole, ids=tuple(str(row) for row in range(len(whole))))
    for first in range(skip, len(whole), size):
        yield whole.take(np.arange(first, min(first + size, len(whole))))


def _jsonl_chunks(source: Source, skip: int, size: int) -> Iterator[Dataset]:
    from lampnet.readers.any_format import readable_molecules
    from lampnet.readers.jsonl import read_jsonl_lines

    path = Path(source.data)
    unlabelled = source.known is not None and source.known.unlabelled
    numbered = ((n, line) for n, line in enumerate(_lines(path), start=1) if line.strip())
    row = 0
    while block := list(islice(numbered, size)):
        try:
            data = read_jsonl_lines(path, block, on_bad_row=source.on_bad_row, first_row=row, unlabelled=unlabelled)
            if source.on_bad_row == "skip":
                data = readable_molecules(data)
        except DataError:
            if source.on_bad_row == "skip" and row:
                continue  # a chunk without one good row
            raise
        row += len(data)
        if row <= skip:
            continue
        yield data if row - len(data) >= skip else data.take(np.arange(skip - (row - len(data)), len(data)))
    if row == 0:
        raise FormatError(path, "the file has no rows; expected one JSON object per line", 1)


def _lines(path: Path) -> Iterator[str]:
    for number, raw in enumerate(read_lines(path), start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise FormatError(path, "the bytes are not UTF-8; save the file as UTF-8", number) from None
