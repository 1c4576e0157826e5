"""Parquet, Arrow and Feather files: whole, or a chunk of the rows at a time.

Arrow files are read as the stream that they contain, so files and streams (as Hugging Face's `datasets` writes
them) are one format here. What a batch says it will decompress to is looked up before it is decompressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute, parquet, types

from lampnet.errors import FormatError
from lampnet.readers.files import ARROW_SUFFIXES, MAX_BYTES, MAX_DIMENSION, plain_suffix, too_large
from lampnet.readers.raw_table import EXACT, STRING, RawTable, TextColumn

MAGIC = (b"PAR1", b"ARROW1")
_FILE_START = b"ARROW1\0\0"


def is_arrow(path: Path) -> bool:
    """Whether a file is Parquet, Arrow or Feather, by its name or its first bytes."""
    return plain_suffix(path) in ARROW_SUFFIXES or _start(path).startswith(MAGIC)


def read_arrow(path: Path, max_bytes: int = MAX_BYTES) -> RawTable:
    """All rows of a Parquet, Arrow or Feather file."""
    with _reading(path):
        if _is_parquet(path):
            with parquet.ParquetFile(path) as file:
                size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
                if size > max_bytes:
                    raise FormatError(path, too_large(max_bytes))
                loaded = file.read()
        else:
            loaded = pa.Table.from_batches(list(_batches(path, max_bytes)))
        return raw_table(path, loaded, range(1, loaded.num_rows + 1))


def arrow_chunks(path: Path, size: int, columns: Sequence[str] | None = None) -> Iterator[RawTable]:
    """Tables of at most `size` rows, all or some of their columns."""
    line = 1
    with _reading(path):
        for table in _tables(path, size, None if columns is None else list(columns)):
            if table.num_rows:
                yield raw_table(path, table, range(line, line + table.num_rows))
                line += table.num_rows


def raw_table(path: Path, loaded: Any, lines: Sequence[int]) -> RawTable:
    """The columns of an Arrow table: numbers as floats, everything else as text or lists."""
    columns: list[Any] = []
    for column in loaded.columns:
        kind = column.type
        exact = not types.is_integer(kind) or not _beyond_floats(compute.min_max(column).as_py())
        if exact and (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            columns.append(column.cast(pa.float64()).to_numpy())
        elif types.is_string(kind) or types.is_large_string(kind):
            columns.append(TextColumn(column.cast(STRING)))
        elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            columns.append([[] if value is None else value for value in column.to_pylist()])
        else:
            columns.append(TextColumn(["" if value is None else str(value) for value in column.to_pylist()]))
    return RawTable(path, tuple(loaded.column_names), tuple(columns), lines)


def _beyond_floats(ends: dict[str, int | None]) -> bool:
    return any(abs(end or 0) >= EXACT for end in ends.values())


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What pyarrow says of a file becomes one sentence."""
    if not path.is_file():
        raise FormatError(path, "there is no such file; check the path")
    try:
        yield
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, struct.error) as error:
        kind = "Parquet" if _is_parquet(path) else "Arrow"
        raise FormatError(path, f"this is not a readable {kind} file ({' '.join(str(error).split())[:120]})") from None


def _tables(path: Path, size: int, columns: list[str] | None) -> Iterator[Any]:
    if _is_parquet(path):
        with parquet.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(size, columns=columns):
                yield pa.Table.from_batches([batch])
        return
    for batch in _batches(path, MAX_BYTES, whole=False):
        table = pa.Table.from_batches([batch])
        table = table if columns is None else table.select(columns)
        for start in range(0, table.num_rows, size):
            yield table.slice(start, size)


def _batches(path: Path, max_bytes: int, whole: bool = True) -> Iterator[Any]:
    """The record batches of an Arrow file; more than `max_bytes` in all, or in one where not `whole`, are refused."""
    with pa.memory_map(str(path)) as mapped:
        stream = mapped.read_buffer()
        if _start(path) == _FILE_START:
            if stream.slice(stream.size - 6).to_pybytes() != MAGIC[1]:
                raise FormatError(path, "the Arrow data ends too early (a truncated file?); write the file again")
            stream = stream.slice(len(_FILE_START))
        sizes = [_content(message) for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream))]
        if (sum(sizes) if whole else max(sizes, default=0)) > max_bytes:
            raise FormatError(path, too_large(max_bytes))
        rows = 0
        with pa.ipc.open_stream(pa.BufferReader(stream)) as batches:
            for batch in batches:
                rows += batch.num_rows
                if batch.num_rows > MAX_DIMENSION or (whole and rows > MAX_DIMENSION):
                    raise FormatError(path, f"{rows:,} rows are announced, more than {MAX_DIMENSION:,}; is it damaged?")
                batch.validate(full=True)  # places outside the data would be read as they are
                yield batch


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
