"""A delimited text cut into its cells by NumPy: where each begins and ends; strings and numbers are made on demand.

Only texts of the plain form are cut: every line with the same number of cells, quotation marks (if any) around
whole cells, doubled inside them. Of anything else the caller makes out what is wrong, line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np

from lampnet.readers.number_fields import number_rows

_LINE_FEED, _QUOTE = ord("\n"), ord('"')
_BLOCK = 1 << 16
_FEW = 500  # strings that are made as fast without pyarrow
_LOOK = 200  # cells that tell most columns of words from columns of numbers
_DIGIT = np.full(256, -1.0)
_DIGIT[ord("0") : ord("9") + 1] = range(10)
_DIGIT[ord("?")] = np.nan
_BEGINS_A_NUMBER = np.isin(np.arange(256), list(b"0123456789+-.?"))


@dataclass(frozen=True)
class Cells:
    """Cells of a UTF-8 text.

    bounds          places (n * C + 1,) of the signs before the first cell and after each cell, row by row
    columns         C
    quoted          whether cells may stand in quotation marks
    doubled, wide   numbers (row * C + column) of the cells with doubled quotation marks, with other than ASCII signs
    lines           the line on which each row begins
    """

    raw: bytes
    bounds: np.ndarray
    columns: int
    quoted: bool
    doubled: np.ndarray
    wide: np.ndarray
    lines: Sequence[int]
    _kept: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def signs(self) -> np.ndarray:
        """The bytes, uint8."""
        return np.frombuffer(self.raw, dtype=np.uint8)

    def places(self, number: int, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Where the cells of a column begin and end, without their quotation marks."""
        starts = self.bounds[number : -1 : self.columns][rows] + 1
        ends = self.bounds[number + 1 :: self.columns][rows]
        if not self.quoted:
            return starts, ends
        opened = self.signs[starts] == _QUOTE
        return starts + opened, ends - opened

    def apart(self) -> tuple[list[str], Cells]:
        """The strings of the first row, a header, and the rows below it."""
        head = [self.texts(number, slice(1))[0] for number in range(self.columns)]
        doubled, wide = (cells[cells >= self.columns] - self.columns for cells in (self.doubled, self.wide))
        bounds, lines = self.bounds[self.columns :], self.lines[1:]
        return head, Cells(self.raw, bounds, self.columns, self.quoted, doubled, wide, lines, self._kept)

    def column(self, number: int) -> CellColumn:
        return CellColumn(self, number)

    def texts(self, number: int, rows: slice = slice(None)) -> list[str]:
        """The cells of a column, as text."""
        starts, ends = self.places(number, rows)
        out = _strings(self.raw, starts, ends) if len(starts) > _FEW and self.bounds.dtype == np.int32 else None
        if out is None:
            out = self._sliced(number, rows, starts.tolist(), ends.tolist())
        for row in self._rows(self.doubled, number, rows):
            out[row] = out[row].replace('""', '"')
        return out

    def _sliced(self, number: int, rows: slice, starts: list[int], ends: list[int]) -> list[str]:
        # One byte a sign keeps the places; the few cells with wider signs are decoded by themselves.
        if "narrow" not in self._kept:
            self._kept["narrow"] = self.raw.decode("latin-1")
        narrow = self._kept["narrow"]
        out = [narrow[start:end] for start, end in zip(starts, ends, strict=True)]
        for row in self._rows(self.wide, number, rows):
            out[row] = self.raw[starts[row] : ends[row]].decode()
        return out

    def _rows(self, cells: np.ndarray, number: int, rows: slice) -> list[int]:
        if not len(cells):
            return []
        first, last, _ = rows.indices(len(self))
        found = cells[cells % self.columns == number] // self.columns
        chosen: list[int] = (found[(found >= first) & (found < last)] - first).tolist()
        return chosen

    @cached_property
    def _digits(self) -> dict[int, np.ndarray]:
        """The columns of single digits (0/1 labels, mostly), converted together."""
        lengths = np.diff(self.bounds).reshape(len(self), self.columns) - 1
        short = np.flatnonzero(lengths.max(axis=0) <= 1)
        if self.quoted or not len(short):
            return {}
        places, lengths = self.bounds[:-1].reshape(lengths.shape)[:, short] + 1, lengths[:, short]
        values = _DIGIT[self.signs[places]]
        values[lengths == 0] = np.nan
        good = ~(values < 0).any(axis=0)
        return {int(number): values[:, place] for place, number in enumerate(short) if good[place]}

    def numbers(self, number: int) -> np.ndarray | None:
        """A column as float64 (n,), NaN for empty cells and ``?``; None when a cell is not a plain number."""
        if not len(self):
            return np.zeros(0)
        if number in self._digits:
            return self._digits[number]
        starts, ends = self.places(number)
        signs, lengths = self.signs, ends - starts
        codes = signs[starts]  # of an empty cell, the sign after it
        if not _BEGINS_A_NUMBER[codes[:_LOOK]][lengths[:_LOOK] > 0].all():
            return None
        widths = lengths + 1
        after = np.cumsum(widths)
        copied = signs[np.arange(after[-1]) + np.repeat(starts - (after - widths), widths)]
        copied[after - 1] = _LINE_FEED
        found = number_rows(copied.tobytes(), 1, b"\n")
        return None if found is None else found[:, 0]


class CellColumn(Sequence[str]):
    """The strings of a column; made when they are first asked for."""

    def __init__(self, cells: Cells, number: int) -> None:
        self.cells, self.number = cells, number

    @cached_property
    def texts(self) -> list[str]:
        return self.cells.texts(self.number)

    @cached_property
    def distinct(self) -> list[str]:
        """Each value once, in the order of its first row."""
        return list(dict.fromkeys(self.texts))

    @property
    def stripped(self) -> list[str]:
        """The strings without blanks around them."""
        signs, (starts, ends) = self.cells.signs, self.cells.places(self.number)
        if not len(self.cells.wide) and (signs[starts] > 32).all() and (signs[ends - 1] > 32).all():
            return self.texts
        return [text.strip() for text in self.texts]

    def numbers(self) -> np.ndarray | None:
        """As `Cells.numbers`."""
        return self.cells.numbers(self.number)

    def __len__(self) -> int:
        return len(self.cells)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if "texts" not in self.__dict__ and isinstance(index, slice) and index.step is None:
            return self.cells.texts(self.number, index)
        return self.texts[index]


def cut_cells(raw: bytes, delimiter: bytes, quotes: bool = True) -> Cells | None:
    """The cells of a text; None when it is not of the plain form.

    >>> cells = cut_cells(b'name,"says"\\n1,"a ""b"", c"\\n', b",")
    >>> cells.texts(0), cells.texts(1), cells.lines
    (['name', '1'], ['says', 'a "b", c'], range(1, 3))
    >>> cut_cells(b'a,b\\n1\\n', b",") is None, cut_cells(b'a,b\\n5" pipe,2\\n', b",") is None
    (True, True)

    Parameters
    ----------
    raw : bytes
        UTF-8 with bare line feeds; trailing empty lines are left out.
    delimiter : bytes
        One sign.
    quotes : bool
        Whether quotation marks quote; otherwise they are signs like any other.
    """
    if b"\0" in raw:
        return None
    raw = raw if raw.endswith(b"\n") and not raw.endswith(b"\n\n") else raw.rstrip(b"\n") + b"\n"
    signs = np.frombuffer(raw, dtype=np.uint8)
    quoted = quotes and b'"' in raw
    found = _Found(len(raw), ord(delimiter), quoted, raw.isascii())
    for start in range(0, len(raw), _BLOCK):
        found.add(signs[start : start + _BLOCK], start)
    bounds = np.concatenate([[found.kind(-1)], *found.ends])
    lines_end = np.concatenate([np.zeros(0, dtype=bool), *found.line_ends])
    columns = int(np.argmax(lines_end)) + 1 if len(lines_end) else 0
    rows = int(np.count_nonzero(lines_end))
    if columns < 2 or len(lines_end) != rows * columns or not lines_end[columns - 1 :: columns].all():
        return None
    nothing = np.zeros(0, dtype=np.int64)
    wide = _cells_at(bounds, np.concatenate([nothing, *found.wide]))
    doubled = nothing
    lines: Sequence[int] = range(1, rows + 1)
    if quoted:
        places = _doubled_quotes(signs, np.concatenate([nothing, *found.marks]), ord(delimiter))
        if places is None:
            return None
        doubled = _cells_at(bounds, places)
        breaks = np.concatenate([nothing, *found.breaks])
        if len(breaks) > rows:  # line feeds within cells
            lines = [1, *(np.searchsorted(breaks, bounds[columns:-1:columns]) + 2).tolist()]
    return Cells(raw, bounds, columns, quoted, doubled, wide, lines)


class _Found:
    """Places gathered block by block: arrays as large as the file would cost more to allocate than to fill."""

    def __init__(self, size: int, delimiter: int, quoted: bool, ascii_only: bool) -> None:
        self.kind = np.int32 if size < 1 << 31 else np.int64
        self.delimiter, self.quoted, self.ascii_only = delimiter, quoted, ascii_only
        self.ends: list[np.ndarray] = []
        self.line_ends: list[np.ndarray] = []
        self.wide: list[np.ndarray] = []
        self.marks: list[np.ndarray] = []
        self.breaks: list[np.ndarray] = []
        self._inside = 0

    def add(self, signs: np.ndarray, start: int) -> None:
        breaks = signs == _LINE_FEED
        at = breaks | (signs == self.delimiter)
        if self.quoted:
            marks = signs == _QUOTE
            before = np.cumsum(marks, dtype=np.uint8) + np.uint8(self._inside)
            at &= (before & 1) == 0
            self._inside = int(before[-1]) & 1
            self.marks.append(np.flatnonzero(marks) + start)
            self.breaks.append(np.flatnonzero(breaks) + start)
        places = np.flatnonzero(at)
        self.ends.append((places + start).astype(self.kind))
        self.line_ends.append(breaks[places])
        if not self.ascii_only:
            self.wide.append(np.flatnonzero(signs > 127) + start)


def _strings(raw: bytes, starts: np.ndarray, ends: np.ndarray) -> list[str] | None:
    """The strings between rising places of a UTF-8 text, made by pyarrow; None where it is not installed."""
    try:
        import pyarrow as arrow
    except ImportError:
        return None
    # Cells and what lies between them, in turn; every second one is taken.
    offsets = np.stack([starts, ends], axis=1).astype(np.int32).ravel()
    both = arrow.StringArray.from_buffers(len(offsets) - 1, arrow.py_buffer(offsets), arrow.py_buffer(raw))
    strings: list[str] = both.take(arrow.array(np.arange(0, len(offsets), 2))).to_pylist()
    return strings


def _cells_at(bounds: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The numbers of the cells in which these (rising) places lie, each once."""
    cells = np.searchsorted(bounds, places) - 1
    return cells[np.flatnonzero(np.diff(cells, prepend=-1))]


def _doubled_quotes(signs: np.ndarray, marks: np.ndarray, delimiter: int) -> np.ndarray | None:
    """Places of doubled quotation marks; None when a mark is neither around a cell nor doubled within one."""
    if len(marks) % 2:
        return None
    opening, closing = marks[0::2], marks[1::2]
    before, after = signs[opening - 1], signs[closing + 1]  # the text ends with a line feed: place -1 is one
    doubled = before == _QUOTE
    begins = doubled | (before == delimiter) | (before == _LINE_FEED)
    finishes = (after == _QUOTE) | (after == delimiter) | (after == _LINE_FEED)
    return opening[doubled] if begins.all() and finishes.all() else None
