"""Comma- and tab-separated files as columns of strings.

pyarrow.csv reads the plain ones at once. What it refuses, and what it would accept although the quoting is wrong,
goes through Python's csv module record by record, which names the line of an error.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from lampnet.data.names import repeated
from lampnet.errors import FormatError
from lampnet.readers.files import decode, plain_suffix, read_bytes, read_lines, transcoded, utf8_lines
from lampnet.readers.raw_table import STRING, RawTable, TextColumn, text_columns
from lampnet.runtime.memory_limit import STRING as PER_STRING
from lampnet.runtime.memory_limit import MemoryBudget

_MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
_NOT_UTF8 = "the bytes are not UTF-8; save the file as UTF-8, or name its encoding with --encoding latin-1"
_FIELD_LIMIT = 1 << 27
#: A column costs some 100 microseconds however short it is, and every one is an input node.
MAX_COLUMNS = 100_000
#: Bytes of memory for a cell: its offset, its number, its place in a table. For a row: its line and its texts.
_PER_CELL, _PER_ROW = 32, 200
_BLOCK = 1 << 21  # bytes that a thread of pyarrow takes at a time


def read_delimited(path: Path, on_bad_row: str = "error", encoding: str = "", unless_utf8: bool = False) -> RawTable:
    """The columns of a CSV or TSV file with a header line; `encoding` and `unless_utf8` as in `transcoded`."""
    raw = read_bytes(path)
    raw = utf8_lines(path, transcoded(path, raw, encoding, unless_utf8) if encoding else raw)
    if raw.isspace():
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    head = raw.partition(b"\n")[0]
    delimiter = _delimiter(path, head)
    if head.count(delimiter) >= MAX_COLUMNS:
        raise FormatError(
            path,
            f"the first line names {head.count(delimiter) + 1:,} columns; a table may have {MAX_COLUMNS:,}: give so "
            "many features as a matrix (.npz, libsvm or sparse ARFF)",
            1,
        )
    cells = raw.count(delimiter) + raw.count(b"\n")
    MemoryBudget(path).check(2 * len(raw) + _PER_CELL * cells + _PER_ROW * raw.count(b"\n"))
    records = Records(path, raw, delimiter)
    table = _plain(records)
    return table if table is not None else _record_by_record(records, on_bad_row)


def delimited_chunks(path: Path, size: int, on_bad_row: str = "error") -> Iterator[RawTable]:
    """The same rows, `size` at a time, in the memory of that many, by Python's csv module."""
    lines = (line + b"\n" for line in read_lines(path))
    head = next(lines, b"").removeprefix(_MARK)
    if not head.strip():
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    delimiter = _delimiter(path, head)
    quotes = not (delimiter == b"\t" and sum(line.count(b'"') for line in read_lines(path)) % 2)
    records = StreamedRecords(path, chain([head], lines), delimiter, quotes)
    names = [name.strip() for name in next(iter(records), (1, []))[1]]
    _check_names(path, names)
    while some := list(islice(records, size)):
        whole = [(line, record) for line, record in some if len(record) == len(names)]
        if len(whole) < len(some) and on_bad_row != "skip":
            line, record = next(pair for pair in some if len(pair[1]) != len(names))
            raise FormatError(path, _fields(record, names), line)
        columns = zip(*(record for _, record in whole), strict=True) if whole else [()] * len(names)
        made = tuple(TextColumn(list(column), delimiter == b";") for column in columns)
        yield RawTable(path, tuple(names), made, [line for line, _ in whole], len(some) - len(whole))


class StreamedRecords:
    """The records of delimited lines, each with the line on which it begins, empty ones left out; read once."""

    def __init__(self, path: Path, lines: Iterable[bytes], delimiter: bytes, quotes: bool) -> None:
        self.path, self.line = path, 1
        self._reader = csv.reader(
            self._decoded(lines),
            delimiter=delimiter.decode(),
            quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
            strict=True,
        )

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise FormatError(self.path, _NOT_UTF8, number) from None
            yield text[:-2] + "\n" if text.endswith("\r\n") else text

    def __iter__(self) -> StreamedRecords:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        before = csv.field_size_limit(_FIELD_LIMIT)
        try:
            while True:
                begins, record = self.line, next(self._reader)
                self.line = self._reader.line_num + 1
                if len(record) > 1 or any(field.strip() for field in record):
                    return begins, record
        except csv.Error as error:
            problem = f"the line cannot be split into fields ({error})"
            raise FormatError(self.path, problem, self.line) from None
        finally:
            csv.field_size_limit(before)


def _delimiter(path: Path, head: bytes) -> bytes:
    if plain_suffix(path) in (".tsv", ".tab"):
        return b"\t"
    counts = {sign: head.count(sign) for sign in (b",", b";", b"\t")}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else b","


class Records:
    """The records of a delimited text by Python's csv module, each with the line on which it begins."""

    def __init__(self, path: Path, raw: bytes, delimiter: bytes) -> None:
        self.path, self.raw, self.delimiter = path, raw, delimiter
        # Tab-separated files seldom quote; a lone quotation mark there is part of the text.
        self.quotes = not (delimiter == b"\t" and raw.count(b'"') % 2)

    def header(self) -> list[str]:
        """The names in the first line; none where it is not a whole record."""
        try:
            head = self.raw.partition(b"\n")[0].decode()
            return [name.strip() for name in next(self._reader(io.StringIO(head)), [])]
        except (csv.Error, UnicodeDecodeError):
            return []

    def _reader(self, text: io.StringIO) -> Any:
        delimiter = self.delimiter.decode()
        return csv.reader(
            text, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE, strict=True
        )

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        before = csv.field_size_limit(_FIELD_LIMIT)
        reader = self._reader(io.StringIO(decode(self.path, self.raw), newline=""))
        line = 1
        try:
            for record in reader:
                if len(record) > 1 or any(field.strip() for field in record):
                    yield line, record
                line = reader.line_num + 1
        except csv.Error as error:
            raise FormatError(self.path, f"the line cannot be split into fields ({error})", line) from None
        finally:
            csv.field_size_limit(before)


class _Lines(Sequence[int]):
    """The lines on which the rows below a header begin; looked up only when one is asked for."""

    def __init__(self, records: Records, count: int) -> None:
        self._records, self._count = records, count

    @cached_property
    def _numbers(self) -> list[int]:
        return [line for line, _ in islice(self._records, 1, None)]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int | slice) -> Any:
        return self._numbers[index]


def _plain(records: Records) -> RawTable | None:
    """A table that pyarrow can read; None when it cannot, or might read otherwise than the csv module."""
    raw, first = records.raw, records.raw.find(b"\n") + 1
    if records.quotes and b'"' in raw and not _plainly_quoted(raw, records.delimiter):
        return None
    names = records.header()
    if len(names) < 2 or raw.startswith(_MARK, first):  # pyarrow drops such a mark, here part of the first cell
        return None
    columns = string_columns(raw, len(names), records.delimiter, quotes=records.quotes, skip=first)
    if columns is None:
        return None
    _check_names(records.path, names)
    rows = len(columns[0])
    # Empty lines, and line feeds within cells, move the rows away from the lines of their number.
    regular = raw.count(b"\n") == rows + 1
    lines = range(2, rows + 2) if regular else _Lines(records, rows)
    return RawTable(records.path, tuple(names), text_columns(columns, records.delimiter == b";"), lines)


def string_columns(
    raw: bytes, count: int, delimiter: bytes, *, quotes: bool = True, skip: int = 0
) -> list[pa.ChunkedArray] | None:
    """The `count` columns of a delimited text, null where empty; None where pyarrow refuses it.

    >>> [column.to_pylist() for column in string_columns(b'1,"a ""b"", c"\\n\\n2,\\n', 2, b",")]
    [['1', '2'], ['a "b", c', None]]
    >>> string_columns(b"1,2\\n3\\n", 2, b",") is None
    True
    """
    names = [str(number) for number in range(count)]
    column_types = dict.fromkeys(names, STRING)
    quote, newlines = ('"', b'"' in raw) if quotes else (False, False)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(raw).slice(skip)),
            arrow_csv.ReadOptions(column_names=names, block_size=min(max(_BLOCK, 64 * skip), _FIELD_LIMIT)),
            arrow_csv.ParseOptions(delimiter=delimiter.decode(), quote_char=quote, newlines_in_values=newlines),
            arrow_csv.ConvertOptions(column_types=column_types, strings_can_be_null=True, null_values=[""]),
        )
    except pa.ArrowInvalid:
        return None
    return list(table.columns)


def _plainly_quoted(raw: bytes, delimiter: bytes) -> bool:
    """Whether every quotation mark stands around a whole cell or is doubled within one."""
    signs = np.frombuffer(raw, dtype=np.uint8)
    marks = np.flatnonzero(signs == ord('"'))
    if len(marks) % 2:
        return False
    # The text ends with a line feed: so does place -1, before its first sign.
    beside = np.concatenate([signs[marks[0::2] - 1], signs[marks[1::2] + 1]])
    return bool(np.isin(beside, list(b'"\n' + delimiter)).all())


def _fields(record: Sequence[str], names: Sequence[str]) -> str:
    return (
        f"the line has {len(record)} fields, the header {len(names)}; put cells with the delimiter in quotation "
        "marks, or leave such lines out with --on-bad-row skip"
    )


def _check_names(path: Path, names: Sequence[str]) -> None:
    if (twice := repeated(names)) is not None:
        raise FormatError(path, f"the column name {twice!r} occurs twice; give every column a name of its own", 1)


def _record_by_record(records: Records, on_bad_row: str) -> RawTable:
    """Every rule of quoting; an error names its line."""
    MemoryBudget(records.path).check(PER_STRING * records.raw.count(records.delimiter) + 6 * len(records.raw))
    names: list[str] = []
    rows: list[list[str]] = []
    lines, skipped = [], 0
    for line, record in records:
        if not names:
            names = [name.strip() for name in record]
        elif len(record) == len(names):
            rows.append(record)
            lines.append(line)
        elif on_bad_row == "skip":
            skipped += 1
        else:
            raise FormatError(records.path, _fields(record, names), line)
    _check_names(records.path, names)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    made = tuple(TextColumn(list(column), records.delimiter == b";") for column in columns)
    return RawTable(records.path, tuple(names), made, lines, skipped)
