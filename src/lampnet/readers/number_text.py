"""Text that is nearly all numbers, parsed a block of lines at a time.

Lines are checked one by one (a compiled pattern, so an error names its line); the numbers of a
whole block are then converted in one call instead of a Python loop over entries.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.errors import FormatError
from lampnet.readers.files import MAX_DIMENSION

NUMBER = rb"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
#: Rows are kept as float32; what is larger would become infinite.
LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 1 << 24
#: Below this many numbers the plain parser is as fast.
_FEW = 20_000
_DENSE_LINE = re.compile(rb"(?:" + NUMBER + rb"|\?)(?:,(?:" + NUMBER + rb"|\?))*+")
_BLANK_FIELD = re.compile(rb"([,;])[ \t\v\f]*+\1")
_LINES = bytes.maketrans(b" \t", b"\n\n")


@dataclass(frozen=True)
class Lines:
    """Lines of a file with the numbers they have in it."""

    text: list[bytes]
    numbers: list[int]


def blocks_of_lines(body: bytes, first_line: int, comment: bytes = b"", keep_empty: bool = False) -> Iterator[Lines]:
    """Cut a body into blocks of whole lines, leaving out comments and (unless they mean rows) empty lines."""
    start, line = 0, first_line
    while start < len(body):
        end = body.find(b"\n", min(start + _BLOCK, len(body)))
        end = len(body) if end < 0 else end + 1
        # The chunk after a closing line feed is not a line.
        lines = [text.strip() for text in body[start : end - (body[end - 1 : end] == b"\n")].split(b"\n")]
        kept = [
            (text, number)
            for number, text in enumerate(lines, start=line)
            if (text or keep_empty) and not (comment and text.startswith(comment))
        ]
        line += len(lines)
        start = end
        if kept:
            yield Lines([text for text, _ in kept], [number for _, number in kept])


def to_floats(text: bytes, separator: str) -> np.ndarray | None:
    """All numbers of a text as float64, or None when something in it is not a number."""
    if not text.strip():
        return np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, dtype=np.float64, sep=separator)
        except (DeprecationWarning, ValueError):
            return None


def checked_floats(text: bytes, count: int) -> np.ndarray | None:
    """`count` numbers, already known to be well-formed, separated by blanks or line feeds.

    SciPy's Matrix Market parser reads long columns of numbers several times as fast as NumPy does, but takes
    "1x" for 1: so this is only for text that a pattern has approved.
    """
    if count >= _FEW:
        from scipy.io import mmread

        head = f"%%MatrixMarket matrix array real general\n{count} 1\n".encode()
        try:
            column: np.ndarray = mmread(io.BytesIO(head + text.translate(_LINES)))[:, 0]
            return column
        except ValueError:  # a plus sign, for one
            pass
    values = to_floats(text, " ")
    return values if values is not None and len(values) == count else None


def plain_decimals(text: bytes) -> bool:
    """Whether a text is decimals like -12.5 between commas, and nothing else (an empty field may pass).

    >>> plain_decimals(b"1,-.5,3."), plain_decimals(b"1.2.3"), plain_decimals(b"1-2"), plain_decimals(b"1e5")
    (True, False, False, False)
    """
    if text.translate(None, b"0123456789.,-"):
        return False
    signs = np.frombuffer(text, dtype=np.uint8)
    minus = np.flatnonzero(signs == ord("-"))
    if not ((minus == 0) | (signs[minus - 1] == ord(","))).all():
        return False
    marks = signs[(signs == ord(".")) | (signs == ord(","))]
    return not ((marks[1:] == ord(".")) & (marks[:-1] == ord("."))).any()


def dense_block(lines: Lines, columns: int, path: Path, separator: bytes = b",") -> np.ndarray | None:
    """Lines of delimited numbers as float64 (n, columns), `?` and empty fields as NaN.

    None when a field is not a number, so that the caller can read the block field by field;
    a line with another number of fields is an error.
    """
    for text, number in zip(lines.text, lines.numbers, strict=True):
        if text.count(separator) + 1 != columns:
            if b"'" in text or b'"' in text:
                return None
            raise FormatError(path, f"the line has {text.count(separator) + 1} values, {columns} were expected", number)
    count = columns * len(lines.text)
    joined = separator.join(lines.text)
    if separator == b"," and (plain_decimals(joined) or all(map(_DENSE_LINE.fullmatch, lines.text))):
        values = checked_floats(joined.replace(b"?", b"nan").replace(b",", b"\n"), count)
    elif _BLANK_FIELD.search(b"%b%b%b" % (separator, joined, separator)):
        return None  # NumPy would make numbers of blanks
    else:
        values = to_floats(joined.replace(b"?", b"nan"), separator.decode())
    if values is None or len(values) != count:
        return None
    table: np.ndarray = values.reshape(-1, columns)
    large = np.abs(table) > LARGEST
    if large.any():
        row = int(np.flatnonzero(large.any(axis=1))[0])
        raise FormatError(
            path, "the line holds a value that is infinite or beyond 3.4e38; give finite numbers", lines.numbers[row]
        )
    return table


class SparseRows:
    """Collects the index-value pairs of rows and makes one CSR matrix of them.

    Indices must be in [0, columns) and differ within a row; they need not be sorted.
    """

    def __init__(self, path: Path, columns: int | None = None) -> None:
        self.path = path
        self.columns = columns
        self._indices: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []

    def add(self, indices: np.ndarray, values: np.ndarray, counts: np.ndarray, numbers: list[int]) -> None:
        """Add rows: `counts` entries each, all entries one after another."""
        rows = np.repeat(np.arange(len(counts)), counts)
        limit = self.columns if self.columns is not None else MAX_DIMENSION
        bad = np.flatnonzero((indices < 0) | (indices >= limit) | (indices != np.floor(indices)))
        if len(bad):
            raise FormatError(
                self.path,
                f"the index {indices[bad[0]]:g} is not a whole number from 0 to {limit - 1}",
                numbers[int(rows[bad[0]])],
            )
        infinite = np.flatnonzero(np.abs(values) > LARGEST)
        if len(infinite):
            raise FormatError(
                self.path,
                "the line holds a value that is infinite or beyond 3.4e38; give finite numbers",
                numbers[int(rows[infinite[0]])],
            )
        columns = indices.astype(np.int64)
        falling = np.flatnonzero((columns[1:] <= columns[:-1]) & (rows[1:] == rows[:-1]))
        if len(falling):
            order = np.lexsort((columns, rows))
            columns, values = columns[order], values[order]
            same = np.flatnonzero((columns[1:] == columns[:-1]) & (rows[1:] == rows[:-1]))
            if len(same):
                raise FormatError(
                    self.path,
                    f"the index {columns[same[0]]} occurs twice; an index may occur once a row",
                    numbers[int(rows[same[0]])],
                )
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


_COLONS = bytes.maketrans(b":", b" ")
_PAIRS = re.compile(rb"(?:\d++:" + NUMBER + rb"(?:\s++|$))*+")


def add_colon_pairs(rows: SparseRows, features: list[bytes], numbers: list[int], base: int) -> None:
    """Add lines of `index:value` pairs; `base` is the number of the first feature (0 or 1)."""
    for text, number in zip(features, numbers, strict=True):
        if not _PAIRS.fullmatch(text):
            wrong = next((token for token in text.split() if not _PAIRS.fullmatch(token)), text)
            raise FormatError(rows.path, f"{wrong[:40].decode(errors='replace')!r} is not an index:value pair", number)
    counts = np.array([text.count(b":") for text in features], dtype=np.int64)
    flat = checked_floats(b" ".join(features).translate(_COLONS), 2 * int(counts.sum()))
    if flat is None:  # pragma: no cover - the pattern above rules it out
        raise FormatError(rows.path, "the index:value pairs cannot be read", numbers[0])
    rows.add(flat[0::2] - base, flat[1::2], counts, numbers)
