"""What the columns of a Parquet file will take when they are read, from the headers of their pages.

The summary at the end of the file says where the columns lie; what it says besides may be wrong, the pages are what is
read. Both are Thrift structures in the compact protocol; https://parquet.apache.org/docs/file-format names their
fields. pyarrow is not asked for them: a summary that it finds wrong only then would end the whole process.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lampnet.errors import FormatError
from lampnet.runtime.memory_limit import MemoryBudget

#: No page is stored in fewer bytes than this; more pages than fit the file are counted from the same bytes.
_LEAST_PAGE = 8
#: What pyarrow takes for a structure of the summary, such as the description of a column, however short it is.
_STRUCTURE = 800
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
#: Fields of a page's header, and of the two kinds of data page in it.
_TYPE, _UNCOMPRESSED, _COMPRESSED, _DATA, _DATA_V2, _NUM_VALUES = 1, 2, 3, 5, 8, 1
_ENCODING = {_DATA: 2, _DATA_V2: 4}
_DICTIONARY = 2
_DELTA = (5, 6, 7)
#: Fields of the summary: row groups, their columns, the description of a column, and what is used of that.
_ROW_GROUPS, _COLUMNS, _DESCRIBED, _CODEC, _COUNT, _DATA_PAGES, _DICTIONARY_PAGE = 4, 1, 3, 4, 5, 9, 11
_USED: Mapping[int, Any] = {
    _ROW_GROUPS: {_COLUMNS: {_DESCRIBED: {field: {} for field in (_CODEC, _COUNT, _DATA_PAGES, _DICTIONARY_PAGE)}}}
}
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
#: After the summary: its length and four letters.
_LENGTH, _TAIL = 4, 8
_FAULTS = (IndexError, KeyError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True)
class ColumnPages:
    """One column of one row group: how many values it has, and the decompressed bytes of its pages.

    entry  the length of the longest text in its dictionary, 0 where it has none or was not asked for it
    delta  whether values are stored by what they share with those before, so that short ones stand for long
    """

    values: int
    largest: int
    total: int
    entry: int
    delta: bool


class ParquetPages:
    """The pages of a Parquet file. Its summary is walked first, so that pyarrow can read it within the budget."""

    def __init__(self, path: Path, budget: MemoryBudget) -> None:
        self.path, self.budget = path, budget
        self._summary = self._read_summary()

    def _read_summary(self) -> dict[int, Any]:
        """What leads to the columns; empty where there is none."""
        if self.path.stat().st_size < _TAIL:
            return {}
        with self._content() as content:
            end = len(content) - _TAIL
            start = end - int.from_bytes(content[end : end + _LENGTH], "little")
            if start < 0:
                return {}
            try:
                return _Thrift(content, self.budget).structure(start, _USED)[0]
            except _FAULTS:
                return {}  # pyarrow says what is wrong with it

    def columns(self, group: int, columns: Mapping[int, bool]) -> Iterator[ColumnPages]:
        """Leaf columns of a row group, by their numbers; with each, whether its longest text is asked for."""
        with self._content() as content:
            left = len(content) // _LEAST_PAGE
            thrift = _Thrift(content, None)
            for number, asks in columns.items():
                place, count, codec = self._described(group, number)
                values = largest = total = entry = 0
                delta = False
                while values < count:
                    left -= 1
                    try:
                        header, place = thrift.structure(place)
                        size, stored = header[_UNCOMPRESSED], header[_COMPRESSED]
                        kind = _DATA if header.get(_DATA) else _DATA_V2
                        described = header.get(kind) or {_NUM_VALUES: 0}
                        more = described[_NUM_VALUES]
                        delta |= described.get(_ENCODING[kind]) in _DELTA
                    except _FAULTS:
                        raise self._damaged("the header of a page") from None
                    if left < 0 or any(not isinstance(number, int) or number < 0 for number in (size, stored, more)):
                        raise self._damaged("the header of a page")
                    if header.get(_TYPE) == _DICTIONARY and asks:
                        self.budget.check(2 * size)
                        entry = _longest(content[place : place + stored], size, codec)
                    values, largest, total = values + more, max(largest, size), total + size
                    place += stored
                yield ColumnPages(values, largest, total, entry, delta)

    def _described(self, group: int, number: int) -> tuple[int, int, int]:
        """Of one column in one row group: where it begins, its number of values and its codec."""
        try:
            described = self._summary[_ROW_GROUPS][group][_COLUMNS][number][_DESCRIBED]
            place, count, codec = (described[field] for field in (_DATA_PAGES, _COUNT, _CODEC))
            place = min(place, described.get(_DICTIONARY_PAGE) or place)
            if place < 0 or not isinstance(count, int) or not isinstance(codec, int):
                raise ValueError
        except _FAULTS:
            raise self._damaged("its summary") from None
        return place, count, codec

    @contextmanager
    def _content(self) -> Iterator[mmap.mmap]:
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content

    def _damaged(self, what: str) -> FormatError:
        return FormatError(self.path, f"this is not a readable Parquet file ({what} is damaged)")


def _longest(stored: bytes, size: int, codec: int) -> int:
    """The longest text of a dictionary page; the whole page where it cannot be looked into."""
    try:
        texts = stored if codec == 0 else pa.Codec(_CODECS[codec]).decompress(stored, size).to_pybytes()
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return size  # whoever reads the page says what is wrong with it
    place = longest = 0
    while place + 4 <= len(texts):
        length = int.from_bytes(texts[place : place + 4], "little")
        place += 4 + length
        longest = max(longest, length)
    return min(longest, size)


class _Thrift:
    """Structures of the compact protocol in a file; `IndexError` where there is none.

    What structures in lists will take is counted in the budget, where there is one.
    """

    def __init__(self, content: mmap.mmap, budget: MemoryBudget | None) -> None:
        self.content, self.budget, self.structures = content, budget, 0

    def structure(self, place: int, only: Mapping[int, Any] | None = None) -> tuple[dict[int, Any], int]:
        """Fields by number, of numbers and structures; and where the structure ends.

        `only` names the fields to keep, and for each the fields to keep of the structures in it; then lists are
        kept too.
        """
        fields: dict[int, Any] = {}
        number = 0
        while sign := self.content[place]:
            place += 1
            kind, step = sign & 15, sign >> 4
            if step:
                number += step
            else:
                number, place = self._integer(place)
            value, place = self._value(place, kind, None if only is None else only.get(number, {}))
            if only is None or number in only:
                fields[number] = value
        return fields, place + 1

    def _value(self, place: int, kind: int, only: Mapping[int, Any] | None) -> tuple[Any, int]:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE, place
        if kind in _INTEGERS:
            return self._integer(place)
        if kind == _STRUCT:
            return self.structure(place, only)
        if kind == _BYTE:
            return None, place + 1
        if kind == _DOUBLE:
            return None, place + 8
        if kind == _BINARY:
            length, place = self._varint(place)
            return None, place + length
        if kind in (_LIST, _SET):
            return self._list(place, only)
        raise IndexError  # a map, or no type at all: no file has it

    def _list(self, place: int, only: Mapping[int, Any] | None) -> tuple[list[Any], int]:
        count, kind = self.content[place] >> 4, self.content[place] & 15
        place += 1
        if count == 15:
            count, place = self._varint(place)
        if count > len(self.content) - place:  # each takes a byte or more
            raise IndexError
        if self.budget is not None and kind == _STRUCT:
            self.structures += count
            self.budget.check(self.structures * _STRUCTURE)
        values = []
        for _ in range(count):
            value, place = self._value(place + (kind in (_TRUE, _FALSE)), kind, only)
            if only:
                values.append(value)
        return values, place

    def _varint(self, place: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self.content[place]
            place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, place
            shift += 7
            if shift > 63:
                raise IndexError

    def _integer(self, place: int) -> tuple[int, int]:
        value, place = self._varint(place)
        return (value >> 1) ^ -(value & 1), place
