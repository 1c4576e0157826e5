"""Parquet, Arrow and Feather files: whole, or a chunk of the rows at a time.

Arrow files are read as the stream that they contain, so files and streams (as Hugging Face's `datasets` writes
them) are one format here. What is to be decompressed, decoded and turned into strings is counted before it is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet, types

from lampnet.data.names import repeated
from lampnet.errors import FormatError
from lampnet.readers.arrow_sizes import cell_sizes, is_binary, plain, viewed_bytes
from lampnet.readers.files import ARROW_SUFFIXES, MAX_DIMENSION, plain_suffix
from lampnet.readers.parquet_pages import ParquetPages
from lampnet.readers.raw_table import EXACT, STRING, RawTable, TextColumn
from lampnet.runtime.memory_limit import MemoryBudget

MAGIC = (b"PAR1", b"ARROW1")
_FILE_START = b"ARROW1\0\0"
_BATCH_ROWS = 1 << 16
_COUNTED_ROWS = 1 << 20
#: Columns of lists, by what types.is_... says of them.
LIST_KINDS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)
#: Of the memory, what one batch of a Parquet file may take at most while it is decoded.
_BATCH_SHARE = 8


def is_arrow(path: Path) -> bool:
    """Whether a file is Parquet, Arrow or Feather, by its name or its first bytes."""
    return plain_suffix(path) in ARROW_SUFFIXES or _start(path).startswith(MAGIC)


def read_arrow(path: Path) -> RawTable:
    """All rows of a Parquet, Arrow or Feather file."""
    with _reading(path):
        budget = MemoryBudget(path)
        batches = list(_batches(path, budget))
        loaded = pa.Table.from_batches(batches)
        return raw_table(path, loaded, range(1, loaded.num_rows + 1), budget)


def arrow_chunks(path: Path, size: int, columns: Sequence[str] | None = None) -> Iterator[RawTable]:
    """Tables of at most `size` rows, all or some of their columns."""
    line = 1
    with _reading(path):
        for batch in _batches(path, None, size, None if columns is None else list(columns)):
            for start in range(0, batch.num_rows, size):
                table = pa.Table.from_batches([batch.slice(start, size)])
                yield raw_table(path, table, range(line, line + table.num_rows), MemoryBudget(path))
                line += table.num_rows


def raw_table(path: Path, loaded: Any, lines: Sequence[int], budget: MemoryBudget) -> RawTable:
    """The columns of an Arrow table: numbers as floats, everything else as text or lists."""
    columns: list[Any] = []
    if (twice := repeated(loaded.column_names)) is not None:
        raise FormatError(path, f"the column name {twice!r} occurs twice; give every column a name of its own")
    for name, coded in zip(loaded.column_names, loaded.columns, strict=True):
        for chunk in coded.chunks:
            for start in range(0, len(chunk), _COUNTED_ROWS):
                budget.take(int(cell_sizes(chunk.slice(start, _COUNTED_ROWS), budget).sum()))
        column = pa.chunked_array([plain(chunk) for chunk in coded.chunks], None if coded.num_chunks else coded.type)
        if is_binary(column.type):
            column = _text_of_bytes(path, name, column, lines)
        kind = column.type
        exact = not types.is_integer(kind) or not _beyond_floats(compute.min_max(column).as_py())
        if exact and (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            columns.append(column.cast(pa.float64()).to_numpy())
        elif types.is_large_string(kind):
            columns.append(TextColumn(column.cast(STRING)))
        elif any(is_kind(kind) for is_kind in LIST_KINDS):
            columns.append(list_cells(column))
        elif types.is_nested(kind) and not types.is_struct(kind) and not types.is_map(kind):
            columns.append([[] if value is None else value for value in column.to_pylist()])
        else:
            columns.append(TextColumn(["" if value is None else str(value) for value in column.to_pylist()]))
    return RawTable(path, tuple(loaded.column_names), tuple(columns), lines)


def list_cells(column: Any) -> list[list[Any]]:
    """The cells of a list column, empty for null.

    `to_pylist` would make an object of every cell and every value first, which takes several times as long.

    >>> list_cells(pa.chunked_array([pa.array([["a", "b"], None, ["c"]])]))
    [['a', 'b'], [], ['c']]
    """
    lengths = compute.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    values: list[Any] = []
    for chunk in column.chunks:
        flat = compute.list_flatten(chunk)
        flat = plain(flat) if types.is_dictionary(flat.type) or types.is_string(flat.type) else flat
        if is_binary(flat.type):
            text = _decoded(flat)
            flat = flat if text is None else text
        is_text = types.is_large_string(flat.type)
        values += flat.to_numpy(zero_copy_only=False).tolist() if is_text else flat.to_pylist()
    ends = np.cumsum(lengths)
    return [values[first:last] for first, last in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def _text_of_bytes(path: Path, name: str, column: Any, lines: Sequence[int]) -> Any:
    """A column of bytes as text, which some programs write so; as it is where most of it is no text."""
    text = _decoded(column)
    if text is not None:
        return text
    wrong = [row for row, cell in enumerate(column.to_pylist()) if cell is not None and not _is_utf8(cell)]
    if 2 * len(wrong) < len(column):
        problem = f"the column {name!r} holds bytes that are not UTF-8; write it as text"
        raise FormatError(path, problem, lines[wrong[0]])
    return column


def _decoded(values: Any) -> Any:
    """Bytes as text with offsets of 64 bits; None where they are not UTF-8."""
    try:
        return values.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return None


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _beyond_floats(ends: dict[str, int | None]) -> bool:
    return any(abs(end or 0) >= EXACT for end in ends.values())


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What pyarrow says of a file becomes one sentence."""
    if not path.is_file():
        raise FormatError(path, "there is no such file; check the path")
    try:
        yield
    except (FormatError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, RecursionError, struct.error) as error:
        kind = "Parquet" if _is_parquet(path) else "Arrow"
        raise FormatError(path, f"this is not a readable {kind} file ({' '.join(str(error).split())[:120]})") from None


def _batches(
    path: Path, whole: MemoryBudget | None, size: int = _BATCH_ROWS, columns: list[str] | None = None
) -> Iterator[Any]:
    """Record batches, their content checked; `whole`: all of them are kept, and counted in this budget."""
    budget = MemoryBudget(path) if whole is None else whole
    if _is_parquet(path):
        found = _parquet_batches(path, budget, whole is not None, size, columns)
    else:
        found = _arrow_batches(path, budget, whole is not None)
    rows = 0
    for batch in found:
        rows += batch.num_rows
        if batch.num_rows > MAX_DIMENSION or (whole is not None and rows > MAX_DIMENSION):
            raise FormatError(path, f"{rows:,} rows are announced, more than {MAX_DIMENSION:,}; is it damaged?")
        batch.validate()
        budget.check(sum(viewed_bytes(column) for column in batch.columns))  # the next check reads every view's text
        try:
            batch.validate(full=True)  # places outside the data would be read as they are
        except pa.ArrowInvalid as error:
            where = _row_of_bytes(batch, str(error))
            if where is None:
                raise
            problem = f"the column {where[0]!r} holds bytes that are not UTF-8; write it as text"
            raise FormatError(path, problem, rows - batch.num_rows + where[1] + 1) from None
        yield batch if columns is None else batch.select(columns)


def _row_of_bytes(batch: Any, problem: str) -> tuple[str, int] | None:
    """The column and the row of a text that is not UTF-8, from what Arrow says of it; None for other problems.

    The cells themselves are not looked at: their places may be wrong.
    """
    found = re.search(r"In column (\d+): .*Invalid UTF8 sequence at string index (\d+)", problem)
    if found is None:
        return None
    column, value = batch.column(int(found[1])), int(found[2])
    name, kind = batch.schema.names[int(found[1])], column.type
    if types.is_list(kind) or types.is_large_list(kind):
        if types.is_dictionary(kind.value_type):
            value = int(np.argmax(column.values.indices.to_numpy(zero_copy_only=False) == value))
        value = int(np.searchsorted(column.offsets.to_numpy(), value, side="right")) - 1
    elif types.is_dictionary(kind):
        value = int(np.argmax(column.indices.to_numpy(zero_copy_only=False) == value))
    return name, value


def _parquet_batches(
    path: Path, budget: MemoryBudget, whole: bool, size: int, columns: list[str] | None
) -> Iterator[Any]:
    every_page = ParquetPages(path, budget)
    with parquet.ParquetFile(path, memory_map=True) as file:
        metadata, schema = file.metadata, file.schema
    leaves = {number: schema.column(number) for number in range(metadata.num_columns)}
    if columns is not None:
        leaves = {n: leaf for n, leaf in leaves.items() if {leaf.path, leaf.path.partition(".")[0]} & set(columns)}
    texts = {leaf.path for leaf in leaves.values() if leaf.physical_type == "BYTE_ARRAY"}
    in_lists = {number: leaf.path in texts and "." in leaf.path for number, leaf in leaves.items()}
    delta: set[str] = set()
    bytes_per_row = 0
    total = 24 * metadata.num_rows * len(leaves) if whole else 0
    for group in range(metadata.num_row_groups):
        budget.check(total)
        per_row = here = 0
        for leaf, pages in zip(leaves.values(), every_page.columns(group, in_lists), strict=True):
            if leaf.path in texts:
                most = pages.largest if pages.delta else 4 + pages.entry  # 4: a code into a dictionary
            else:
                most = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else 8
            if pages.delta:
                delta.add(leaf.path)
            here += pages.total if whole else pages.largest
            if leaf.max_repetition_level:
                here += most * pages.values  # one row may hold them all
            else:
                per_row += most
        budget.check(here)
        total += here if whole else 0
        bytes_per_row = max(bytes_per_row, per_row)
    # Texts are read as codes into a dictionary, as most are stored: a long text is in memory once. pyarrow cannot do
    # so for texts in lists.
    coded = {path for path in texts - delta if "." not in path}
    rows = max(1, min(size, _BATCH_ROWS, budget.limit // _BATCH_SHARE // max(1, bytes_per_row)))
    budget.check(bytes_per_row)
    names = [leaf.path for leaf in leaves.values() if leaf.path not in coded and "BYTE_ARRAY" in leaf.physical_type]
    expanding = {name.partition(".")[0] for name in names}
    with parquet.ParquetFile(path, memory_map=True, read_dictionary=sorted(coded)) as file:
        for batch in file.iter_batches(rows, columns=columns):
            if whole:
                budget.take(sum(batch.column(name).nbytes for name in expanding.intersection(batch.schema.names)))
            yield batch


def _arrow_batches(path: Path, budget: MemoryBudget, whole: bool) -> Iterator[Any]:
    with pa.memory_map(str(path)) as mapped:
        stream = mapped.read_buffer()
        if _start(path) == _FILE_START:
            if stream.slice(stream.size - 6).to_pybytes() != MAGIC[1]:
                raise FormatError(path, "the Arrow data ends too early (a truncated file?); write the file again")
            stream = stream.slice(len(_FILE_START))
        sizes = [_content(message) for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream))]
        budget.check(sum(sizes) if whole else max(sizes, default=0))
        with pa.ipc.open_stream(pa.BufferReader(stream)) as batches:
            yield from batches


def _content(message: Any) -> int:
    """How many bytes a message's body has once it is decompressed, as it says itself.

    A message is a FlatBuffers table; https://arrow.apache.org/docs/format/Columnar.html names its fields.
    """
    if message.type not in ("record batch", "dictionary"):
        return 0
    data, body = message.metadata.to_pybytes(), message.body
    batch = _table(data, _field(data, _table(data, 0), 2))
    if message.type == "dictionary":
        batch = _table(data, _field(data, batch, 1))
    if not _field(data, batch, 3):  # nothing is compressed
        return int(body.size)
    buffers = _table(data, _field(data, batch, 2))
    total = 0
    for number in range(struct.unpack_from("<I", data, buffers)[0]):
        offset, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * number)
        if length >= 8:
            (size,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
            total += length if size == -1 else size  # -1: this one was not worth compressing
    return total


def _table(data: bytes, place: int) -> int:
    """Where the table, or the vector, begins that the offset at `place` leads to."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands; 0 where it is left out."""
    described = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, described)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", data, described + place)[0] if place < size else 0
    return table + int(offset) if offset else 0


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_FILE_START))
    except OSError:
        return b""


def _is_parquet(path: Path) -> bool:
    return plain_suffix(path) in (".parquet", ".pq") or _start(path).startswith(MAGIC[0])
