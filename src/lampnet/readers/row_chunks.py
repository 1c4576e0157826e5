"""Rows to predict, a chunk at a time, so that a file of any length needs the memory of one chunk.

JSON lines are always read so. CSV, TSV, Parquet, Arrow and libsvm files are where they are large; small ones, and other
formats, are read whole and then cut. What the columns of a large table are for is decided from its first chunk, where
neither the user nor the model says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import ARROW_SUFFIXES, plain_stem, plain_suffix, read_lines, read_start
from lampnet.readers.sources import Source

CHUNK_ROWS = 1024
#: Tables and libsvm files of more bytes than this are read in chunks; compressed ones of an eighth of it.
LARGE = 32 << 20


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
    done = 0
    for data in _streamed(source, size, notice) or _cut(source.part(split, seed, notice), size):
        first, done = done, done + len(data)
        if done <= skip:
            continue
        if data.ids is None:
            data = replace(data, ids=tuple(str(row) for row in range(first, done)))
        yield data if first >= skip else data.take(np.arange(skip - first, len(data)))


def _streamed(source: Source, size: int, notice: Callable[[str], None] | None) -> Iterator[Dataset] | None:
    """The rows of a file that is read in chunks; None for all others."""
    path = Path(source.data)
    if source.named or not path.is_file():
        return None
    ending = plain_suffix(path)
    if ending in (".jsonl", ".ndjson"):
        return _jsonl_chunks(source, size)
    compressed = path.suffix.lower() in (".gz", ".bz2")
    if path.stat().st_size <= (LARGE // 8 if compressed else LARGE):
        return None
    if ending in ARROW_SUFFIXES:
        return _table_chunks(source, size, notice)
    start = read_start(path, 1 << 16)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\r" in start.replace(b"\r\n", b""):
        return None  # UTF-16, or lines that end as on old machines
    if ending in (".csv", ".tsv", ".tab"):
        if "encoding" in source.columns or (source.known is not None and "encoding" in source.known.roles):
            return None  # another encoding is read whole
        return _table_chunks(source, size, notice)
    return _libsvm_chunks(path, size) if ending in (".svm", ".libsvm", ".svmlight") else None


def _cut(whole: Dataset, size: int) -> Iterator[Dataset]:
    for first in range(0, len(whole), size):
        yield whole.take(np.arange(first, min(first + size, len(whole))))


def _table_chunks(source: Source, size: int, notice: Callable[[str], None] | None) -> Iterator[Dataset]:
    from lampnet.readers.any_format import readable_molecules
    from lampnet.readers.arrow_files import arrow_chunks, is_arrow
    from lampnet.readers.column_roles import roles_of
    from lampnet.readers.delimited import delimited_chunks
    from lampnet.readers.tables import table_dataset

    path = Path(source.data)
    tables = arrow_chunks(path, size) if is_arrow(path) else delimited_chunks(path, size, source.on_bad_row)
    tables = (table for table in tables if len(table))
    first = next(tables, None)
    if first is None:
        raise FormatError(path, "there are no rows after the header line; give a file with rows", 1)
    roles = roles_of(first, source.columns) if source.known is None else source.known.roles_in(first, source.columns)
    if notice is not None:
        notice(f"{path.name}: {roles.sentence()}")
    skipped = 0
    for table in chain([first], tables):
        data, skipped = table_dataset(table, roles, None, plain_stem(path)), skipped + table.skipped
        yield readable_molecules(data) if source.on_bad_row == "skip" else data
    if skipped and notice is not None:
        notice(f"{path.name}: {skipped:,} rows could not be read and are left out")


def _libsvm_chunks(path: Path, size: int) -> Iterator[Dataset]:
    from lampnet.readers.libsvm import libsvm_rows, lowest_index

    base, line = lowest_index(path), 1
    lines = read_lines(path)
    found = False
    while block := list(islice(lines, size)):
        raw = b"\n".join(block).replace(b"\r", b"") + b"\n"
        if any(text.strip() and not text.lstrip().startswith(b"#") for text in block):
            found = True
            yield libsvm_rows(path, raw.removeprefix(b"\xef\xbb\xbf"), base=base, first_line=line)
        line += len(block)
    if not found:
        raise FormatError(path, "the file has no rows; expected lines of 'label,label index:value ...'", 1)


def _jsonl_chunks(source: Source, size: int) -> Iterator[Dataset]:
    from lampnet.readers.any_format import readable_molecules
    from lampnet.readers.jsonl import read_jsonl_lines
    from lampnet.readers.jsonl_table import has_parts, read_jsonl_table

    path = Path(source.data)
    unlabelled = source.known is not None and source.known.unlabelled
    numbered = ((n, line) for n, line in enumerate(_lines(path), start=1) if line.strip())
    row, roles, parts = 0, None, None
    while block := list(islice(numbered, size)):
        if parts is None:
            parts = has_parts(block[0][1], source.columns, source.known, path)
        how: dict[str, Any] = {"on_bad_row": source.on_bad_row, "first_row": row}
        try:
            if parts:
                columns: dict[str, Any] = {"columns": source.columns, "known": source.known, "roles": roles}
                data, roles = read_jsonl_table(path, block, **how, **columns)
            else:
                data = read_jsonl_lines(path, block, **how, unlabelled=unlabelled)
            if source.on_bad_row == "skip":
                data = readable_molecules(data)
        except DataError:
            if source.on_bad_row == "skip" and row:
                continue  # a chunk without one good row
            raise
        row += len(data)
        yield data
    if row == 0:
        raise FormatError(path, "the file has no rows; expected one JSON object per line", 1)


def _lines(path: Path) -> Iterator[str]:
    for number, raw in enumerate(read_lines(path), start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise FormatError(path, "the bytes are not UTF-8; save the file as UTF-8", number) from None
