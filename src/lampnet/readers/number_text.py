"""Text that is nearly all numbers, parsed a block of lines at a time.

The numbers of a whole block are converted in one call (pyarrow's, which is strict and rounds correctly); only
where that fails are its lines looked at one by one, to name the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.errors import FormatError
from lampnet.readers.files import LARGEST, MAX_DIMENSION
from lampnet.runtime.memory_limit import MemoryBudget

NUMBER = rb"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
_BLOCK = 1 << 18  # lines may be short, and every one is an object
#: Bytes of memory for a row and an entry of a sparse matrix, while it is put together.
_PER_ROW, _PER_ENTRY = 40, 24


@dataclass(frozen=True)
class Lines:
    """Lines of a file with the numbers they have in it."""

    text: list[bytes]
    numbers: Sequence[int]


def blocks_of_lines(body: bytes, first_line: int, comment: bytes = b"", keep_empty: bool = False) -> Iterator[Lines]:
    """Cut a body into blocks of whole lines, leaving out comments and (unless they mean rows) empty lines."""
    start, line = 0, first_line
    while start < len(body):
        end = body.find(b"\n", min(start + _BLOCK, len(body)))
        end = len(body) if end < 0 else end + 1
        # The chunk after a closing line feed is not a line.
        lines = [text.strip() for text in body[start : end - (body[end - 1 : end] == b"\n")].split(b"\n")]
        numbers: Sequence[int] = range(line, line + len(lines))
        line += len(lines)
        start = end
        left_out = () if keep_empty else (b"",)
        if (left_out and b"" in lines) or (comment and any(text.startswith(comment) for text in lines)):
            kept = [not text.startswith(comment or b"\n") and text not in left_out for text in lines]
            lines, numbers = list(compress(lines, kept)), list(compress(numbers, kept))
        if lines:
            yield Lines(lines, numbers)


def floats(text: bytes, count: int) -> np.ndarray | None:
    """`count` numbers, one per line, as float64, ``?`` as NaN; None when there are not just those.

    Empty lines do not count.

    >>> floats(b"1\\n-.5e+3\\n\\n?\\n2.", 4).tolist()
    [1.0, -500.0, nan, 2.0]
    >>> [floats(text, 1) for text in (b"1.2.3", b"1-2", b"-", b"1e", b"1x", b"1 2", b"1\\n2", b"'1'", b" ")]
    [None, None, None, None, None, None, None, None, None]
    """
    if not count:
        return None if text.strip() else np.zeros(0)
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=["number"]),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types={"number": pa.float64()}, null_values=["?"]),
        )
    except pa.ArrowInvalid:
        return None
    values: np.ndarray = table["number"].to_numpy()
    return values if len(values) == count else None


def dense_block(lines: Lines, columns: int, path: Path) -> np.ndarray | None:
    """Lines of numbers between commas as float64 (n, columns), `?` as NaN.

    None when a field is not a number, so that the caller can read the block field by field;
    a line with another number of fields is an error.
    """
    for text, number in zip(lines.text, lines.numbers, strict=True):
        if text.count(b",") + 1 != columns:
            if b"'" in text or b'"' in text:
                return None
            raise FormatError(path, f"the line has {text.count(b',') + 1} values, {columns} were expected", number)
    values = floats(b",".join(lines.text).replace(b",", b"\n"), columns * len(lines.text))
    if values is None:
        return None
    table: np.ndarray = values.reshape(-1, columns)
    large = np.abs(table) > LARGEST
    if large.any():
        raise _too_large(path, lines.numbers[int(np.argmax(large.any(axis=1)))])
    return table


def _too_large(path: Path, line: int) -> FormatError:
    return FormatError(path, "the line holds a value that is infinite or beyond 3.4e38; give finite numbers", line)


class SparseRows:
    """Collects the index-value pairs of rows and makes one CSR matrix of them.

    Indices must be in [0, columns) and differ within a row; they need not be sorted.
    """

    def __init__(self, path: Path, columns: int | None = None) -> None:
        self.path, self.columns, self._budget = path, columns, MemoryBudget(path)
        self._indices: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []

    def add(self, indices: np.ndarray, values: np.ndarray, counts: np.ndarray, numbers: Sequence[int]) -> None:
        """Add rows: `counts` entries each, all entries one after another."""
        self._budget.take(_PER_ROW * len(counts) + _PER_ENTRY * len(indices))
        rows = np.repeat(np.arange(len(counts)), counts)
        limit = self.columns if self.columns is not None else MAX_DIMENSION
        bad = np.flatnonzero((indices < 0) | (indices >= limit) | (indices != np.floor(indices)))
        if len(bad):
            problem = f"the index {indices[bad[0]]:g} is not a whole number from 0 to {limit - 1}"
            raise FormatError(self.path, problem, numbers[int(rows[bad[0]])])
        infinite = np.flatnonzero(np.abs(values) > LARGEST)
        if len(infinite):
            raise _too_large(self.path, numbers[int(rows[infinite[0]])])
        columns = indices.astype(np.int64)
        falling = np.flatnonzero((columns[1:] <= columns[:-1]) & (rows[1:] == rows[:-1]))
        if len(falling):
            order = np.lexsort((columns, rows))
            columns, values = columns[order], values[order]
            same = np.flatnonzero((columns[1:] == columns[:-1]) & (rows[1:] == rows[:-1]))
            if len(same):
                problem = f"the index {columns[same[0]]} occurs twice; an index may occur once per row"
                raise FormatError(self.path, problem, numbers[int(rows[same[0]])])
        self._indices.append(columns.astype(np.int32))
        self._values.append(values.astype(np.float32))
        self._counts.append(counts.astype(np.int64))

    def matrix(self) -> sparse.csr_matrix:
        """CSR float32 (rows, columns); columns is one more than the largest index when not given."""
        empty = np.zeros(0, dtype=np.int32)
        indices = np.concatenate([empty, *self._indices])
        values = np.concatenate([empty.astype(np.float32), *self._values])
        counts = np.concatenate([empty.astype(np.int64), *self._counts])
        columns = self.columns if self.columns is not None else int(indices.max(initial=-1)) + 1
        indptr = np.concatenate([[0], np.cumsum(counts)])
        matrix = sparse.csr_matrix((values, indices, indptr), shape=(len(counts), columns))
        matrix.has_sorted_indices = True
        return matrix


_LINES = bytes.maketrans(b": \t\r\v\f", b"\n" * 6)
_PAIRS = re.compile(rb"(?:\d++:" + NUMBER + rb"(?:\s++|$))*+")


def add_colon_pairs(rows: SparseRows, features: list[bytes], numbers: Sequence[int]) -> None:
    """Add lines of `index:value` pairs."""
    for text, number in zip(features, numbers, strict=True):
        if not _PAIRS.fullmatch(text):
            wrong = next((token for token in text.split() if not _PAIRS.fullmatch(token)), text)
            raise FormatError(rows.path, f"{wrong[:40].decode(errors='replace')!r} is not an index:value pair", number)
    counts = np.array([text.count(b":") for text in features], dtype=np.int64)
    flat = floats(b" ".join(features).translate(_LINES), 2 * int(counts.sum()))
    if flat is None:  # pragma: no cover - the pattern above rules it out
        raise FormatError(rows.path, "the index:value pairs cannot be read", numbers[0])
    rows.add(flat[0::2], flat[1::2], counts, numbers)
