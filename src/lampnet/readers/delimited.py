"""Comma- and tab-separated files as columns: the plain ones at once, the others record by record.

What NumPy can cut or convert as a whole is (`number_fields`, `cells`); whatever is not of the plain form goes
through Python's csv module, which knows every rule of quoting and can say on which line something is wrong.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from lampnet.errors import FormatError
from lampnet.readers.cells import cut_cells
from lampnet.readers.column_roles import EXACT, RawTable
from lampnet.readers.files import decode, plain_suffix, read_bytes
from lampnet.readers.number_fields import number_rows
from lampnet.readers.number_text import LARGEST, blocks_of_lines, dense_block

_FIELD_LIMIT = 1 << 27
_BLOCK = 1 << 20  # bytes; larger blocks fall out of the processor's cache
_READERS = 2  # chunks of a table of numbers that are read at the same time


def read_delimited(path: Path, on_bad_row: str, max_bytes: int, as_text: bool = False) -> RawTable:
    """The columns of a CSV or TSV file with a header line; a table of numbers only as one matrix.

    `as_text` keeps the cells of such a table as they are written.
    """
    raw = utf8_lines(path, read_bytes(path, max_bytes))
    if not raw or raw.isspace():
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    head_end = raw.find(b"\n") + 1 or len(raw)
    delimiter = _delimiter(path, raw[:head_end])
    table = None
    if delimiter == b"," and not as_text:
        table = _all_numbers(path, raw, head_end)
    if table is None:
        table = _plain(path, raw, delimiter)
    return table if table is not None else with_csv_module(path, raw.decode(), delimiter.decode(), on_bad_row)


def utf8_lines(path: str | Path, raw: bytes) -> bytes:
    """The content of a text file as UTF-8 with bare line feeds and without a byte order mark, checked."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return decode(path, raw).encode()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.isascii():
        try:
            for chunk in _pieces(raw, 1 << 16):
                chunk.decode()
        except UnicodeDecodeError:
            decode(path, raw)  # says where
    return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in raw else raw


def _pieces(raw: bytes, size: int, start: int = 0) -> Iterator[bytes]:
    """Whole lines, about `size` bytes at a time: what fits the processor's cache is gone through much faster."""
    while start < len(raw):
        end = raw.find(b"\n", min(start + size, len(raw))) + 1 or len(raw)
        yield raw[start:end]
        start = end


def _delimiter(path: Path, head: bytes) -> bytes:
    if plain_suffix(path) in (".tsv", ".tab"):
        return b"\t"
    counts = {sign: head.count(sign) for sign in (b",", b";", b"\t")}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else b","


def _all_numbers(path: Path, raw: bytes, head_end: int) -> RawTable | None:
    """A table of plain numbers; None when it holds anything else."""
    names = tuple(part.strip() for part in raw[:head_end].decode().strip().split(","))
    first = raw[head_end : raw.find(b"\n", head_end) + 1 or len(raw)]
    if len(names) < 2 or first.count(b",") + 1 != len(names) or not _looks_numeric(first) or b'"' in raw:
        return None
    if not raw.endswith(b"\n") or raw.endswith(b"\n\n"):
        raw = raw.rstrip(b"\n") + b"\n"
    signs = np.frombuffer(raw, dtype=np.uint8)[head_end:]
    values = np.empty((np.count_nonzero(signs == ord("\n")), len(names)))
    done = 0
    # NumPy and pyarrow let go of the interpreter while they work, so that two chunks are read at a time.
    with ThreadPoolExecutor(_READERS) as readers:
        for block in readers.map(partial(number_rows, columns=len(names)), _pieces(raw, _BLOCK, head_end)):
            if block is None or (block >= EXACT).any() or (block <= -EXACT).any():
                # Long numbers may be names: their digits are kept.
                long = block is not None and (np.isnan(block) | (np.abs(block) <= LARGEST)).all()
                return None if long else _numbers_by_line(path, names, raw[head_end:])
            values[done : done + len(block)] = block
            done += len(block)
    _check_names(path, names)
    return RawTable(path, names, tuple(values.T), range(2, len(values) + 2), values)


def _numbers_by_line(path: Path, names: tuple[str, ...], body: bytes) -> RawTable | None:
    """As `_all_numbers`, with empty lines, blanks around numbers, and errors that name their line."""
    blocks, lines = [], []
    for part in blocks_of_lines(body, 2):
        if any(text.count(b",") + 1 != len(names) for text in part.text):
            return None
        block = dense_block(part, len(names), path)
        if block is None:
            return None
        blocks.append(block)
        lines.extend(part.numbers)
    _check_names(path, names)
    values = np.concatenate(blocks)
    return RawTable(path, names, tuple(values.T), lines, values)


def _looks_numeric(line: bytes) -> bool:
    return not line.strip().translate(None, b"0123456789.,+-eE? \t")


def _plain(path: Path, raw: bytes, delimiter: bytes) -> RawTable | None:
    """A table that `cut_cells` can cut."""
    cells = cut_cells(raw, delimiter, not _quotes_are_text(delimiter, raw.count(b'"')))
    if cells is None or (len(raw) > _FIELD_LIMIT and np.diff(cells.bounds).max() > _FIELD_LIMIT):
        return None
    head, rows = cells.apart()
    names = [name.strip() for name in head]
    _check_names(path, names)
    return RawTable(path, tuple(names), tuple(map(rows.column, range(len(names)))), rows.lines)


def _quotes_are_text(delimiter: bytes, count: int) -> bool:
    """Tab-separated files seldom quote; a lone quotation mark there is part of the text."""
    return delimiter == b"\t" and count % 2 == 1


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise FormatError(path, f"the column name {twice!r} occurs twice; the first line must name the columns", 1)


def with_csv_module(path: Path, text: str, delimiter: str, on_bad_row: str) -> RawTable:
    """Every rule of quoting; an error names its line."""
    plain = _quotes_are_text(delimiter.encode(), text.count('"'))
    before = csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL,
        strict=True,
    )
    records: list[list[str]] = []
    lines: list[int] = []
    names: list[str] | None = None
    line, skipped = 1, 0
    try:
        for record in reader:
            here, line = line, reader.line_num + 1
            if not record or (len(record) == 1 and not record[0].strip()):
                continue
            if names is None:
                names = [name.strip() for name in record]
                continue
            if len(record) != len(names):
                if on_bad_row == "skip":
                    skipped += 1
                    continue
                raise FormatError(path, f"the line has {len(record)} fields, the header {len(names)}", here)
            records.append(record)
            lines.append(here)
    except csv.Error as error:
        raise FormatError(path, f"the line cannot be split into fields ({error})", line) from None
    finally:
        csv.field_size_limit(before)
    if names is None:
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    _check_names(path, names)
    columns = tuple(list(column) for column in zip(*records, strict=True)) if records else tuple([] for _ in names)
    return RawTable(path, tuple(names), columns, lines, skipped=skipped)
