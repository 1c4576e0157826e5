"""What the columns of a Parquet file will take when they are read, from the headers of their pages.

The file's own summary may state anything; the pages are what is read. A page's header is a Thrift structure in
the compact protocol; https://parquet.apache.org/docs/file-format names its fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lampnet.errors import FormatError
from lampnet.runtime.memory_limit import MemoryBudget

#: No page is stored in fewer bytes than this; more pages than fit the file are counted from the same bytes.
_LEAST_PAGE = 8
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_TYPE, _UNCOMPRESSED, _COMPRESSED, _DATA, _DATA_V2, _NUM_VALUES = 1, 2, 3, 5, 8, 1
_DICTIONARY = 2


@dataclass(frozen=True)
class ColumnPages:
    """One column of one row group: how many values it has, and the decompressed bytes of its pages.

    `entry` is the length of the longest text in its dictionary, 0 where it has none.
    """

    values: int
    largest: int
    total: int
    entry: int


def column_pages(
    path: Path, metadata: Any, group: int, numbers: Iterable[int], budget: MemoryBudget
) -> Iterator[ColumnPages]:
    """Leaf columns of a row group, by their numbers."""
    row_group = metadata.row_group(group)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        left = len(content) // _LEAST_PAGE
        for number in numbers:
            chunk = row_group.column(number)
            place = chunk.data_page_offset
            if chunk.dictionary_page_offset:
                place = min(place, chunk.dictionary_page_offset)
            values = largest = total = entry = 0
            while values < chunk.num_values:
                left -= 1
                try:
                    header, place = _header(content, place)
                    size, stored = header[_UNCOMPRESSED], header[_COMPRESSED]
                except (IndexError, KeyError, RecursionError):
                    raise _damaged(path) from None
                described = header.get(_DATA) or header.get(_DATA_V2)
                more = described.get(_NUM_VALUES, -1) if isinstance(described, dict) else 0
                if left < 0 or any(not isinstance(count, int) or count < 0 for count in (size, stored, more)):
                    raise _damaged(path)
                if header.get(_TYPE) == _DICTIONARY and chunk.physical_type == "BYTE_ARRAY":
                    budget.check(2 * size)
                    entry = _longest(content[place : place + stored], size, chunk.compression)
                values, largest, total = values + more, max(largest, size), total + size
                place += stored
            yield ColumnPages(values, largest, total, entry)


def _longest(stored: bytes, size: int, compression: str) -> int:
    """The longest text of a dictionary page; the whole page where it cannot be looked into."""
    try:
        codec = None if compression == "UNCOMPRESSED" else pa.Codec(compression.lower())
        texts = stored if codec is None else codec.decompress(stored, size).to_pybytes()
    except (pa.ArrowException, OSError, ValueError):
        return size  # whoever reads the page says what is wrong with it
    place = longest = 0
    while place + 4 <= len(texts):
        length = int.from_bytes(texts[place : place + 4], "little")
        place += 4 + length
        longest = max(longest, length)
    return min(longest, size)


def _damaged(path: Path) -> FormatError:
    return FormatError(path, "this is not a readable Parquet file (the header of a page is damaged)")


def _header(content: mmap.mmap, place: int) -> tuple[dict[int, Any], int]:
    """The fields of a Thrift structure by number, numbers and structures only; and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while sign := content[place]:
        place += 1
        kind, step = sign & 15, sign >> 4
        if step:
            number += step
        else:
            number, place = _integer(content, place)
        fields[number], place = _value(content, place, kind)
    return fields, place + 1


def _value(content: mmap.mmap, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in _INTEGERS:
        return _integer(content, place)
    if kind == _STRUCT:
        return _header(content, place)
    if kind == _BYTE:
        return None, place + 1
    if kind == _DOUBLE:
        return None, place + 8
    if kind == _BINARY:
        length, place = _varint(content, place)
        return None, place + length
    if kind in (_LIST, _SET):
        count, inner = content[place] >> 4, content[place] & 15
        place += 1
        if count == 15:
            count, place = _varint(content, place)
        for _ in range(count):
            _, place = _value(content, place + (inner in (_TRUE, _FALSE)), inner)
        return None, place
    raise IndexError  # a map, or no type at all: no page has it


def _varint(content: mmap.mmap, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise IndexError


def _integer(content: mmap.mmap, place: int) -> tuple[int, int]:
    value, place = _varint(content, place)
    return (value >> 1) ^ -(value & 1), place
