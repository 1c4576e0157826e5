"""The columns of a table as they stand in the file, before anybody knows what they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from pyarrow import compute

from lampnet.data.yes_no import yes_or_no

#: Written when a value is not there.
MISSING = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))
#: From here on, whole numbers run into each other as float64.
EXACT = 2.0**53
#: Values that show what a column holds.
SAMPLE = 200
#: Spellings of yes, no and missing in a column that holds nothing else.
MOST_ANSWERS = 20
#: Offsets of 64 bits: a column of any length is one array.
STRING = pa.large_string()
#: With decimal commas, dots stand between groups of three digits.
_GROUPED = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d+)")


class TextColumn(Sequence[str]):
    """A column of strings in Arrow's memory, null where empty; Python's strings are made when they are asked for.

    With `decimal_comma`, `8,44` is a number too, and so is `1.234,5`; beside such numbers, `1.234` is a whole one.

    >>> column = TextColumn(["1.5", "", "2"])
    >>> column.texts, column.numbers.tolist()
    (['1.5', '', '2'], [1.5, nan, 2.0])
    >>> TextColumn(["8,44", "-1.234,5", "3"], decimal_comma=True).numbers.tolist()
    [8.44, -1234.5, 3.0]
    """

    def __init__(self, values: Sequence[str] | pa.ChunkedArray, decimal_comma: bool = False) -> None:
        self.decimal_comma = decimal_comma
        self._values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values], type=STRING)

    @cached_property
    def texts(self) -> list[str]:
        return self._strings(self._values)

    @staticmethod
    def _strings(values: Any) -> list[str]:
        strings: list[str] = (values.fill_null("") if values.null_count else values).to_pylist()
        return strings

    @cached_property
    def distinct(self) -> tuple[list[str], np.ndarray]:
        """Each value once, in the order of its first row, and which of them each row has, int (n,)."""
        encoded = self._values.fill_null("").combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """float64 (n,), NaN where a value is missing; None when a value is not a number."""
        sample = self._values.slice(0, SAMPLE)
        if _cast(sample) is None and None in map(self._number, set(self._strings(sample))):
            return None
        plain = _cast(self._values)
        if plain is not None:
            return plain
        values, of_row = self.distinct
        numbers = [self._number(value) for value in values]
        return None if None in numbers else np.array(numbers, dtype=np.float64)[of_row]

    def _number(self, value: str) -> float | None:
        grouped = self.decimal_comma and _GROUPED.fullmatch(value.strip())
        return _number(value.replace(".", "").replace(",", ".") if grouped else value)

    @property
    def has_decimal_commas(self) -> bool:
        """Whether the column holds numbers, and some are written with a comma."""
        if not self.decimal_comma or self.numbers is None:
            return False
        return bool(compute.any(compute.match_substring(self._values, ",")).as_py())

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice) and index.step is None and "texts" not in self.__dict__:
            first, last, _ = index.indices(len(self))
            return self._strings(self._values.slice(first, max(0, last - first)))
        return self.texts[index]


def _cast(values: pa.ChunkedArray) -> np.ndarray | None:
    """Plain numbers, empty cells and ``?``, converted by Arrow, which rounds correctly; None for anything else."""
    try:
        numbers: np.ndarray = values.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        blank = compute.is_in(values, value_set=pa.array(["", "?"], type=STRING))  # at import, it would import pandas
        return _cast(compute.if_else(blank, None, values)) if compute.any(blank).as_py() else None
    return numbers


def text_columns(columns: Sequence[pa.ChunkedArray], decimal_comma: bool = False) -> tuple[TextColumn, ...]:
    """The columns of a table; those that begin with a number are converted in one call, as tables may be wide."""
    made = tuple(TextColumn(column, decimal_comma) for column in columns)
    likely = [column for column in made if len(column) and _number(column[:1][0]) is not None]
    numbers = _cast(pa.chunked_array([chunk for column in likely for chunk in column._values.chunks], type=STRING))
    if likely and numbers is not None:
        for column, found in zip(likely, numbers.reshape(len(likely), -1), strict=True):
            column.numbers = found
    return made


def _number(value: str) -> float | None:
    word = value.strip().lower()
    if word in MISSING:
        return float("nan")
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return float(word)
    except ValueError:
        return None


def is_missing(value: str) -> bool:
    return value.strip().lower() in MISSING


def number_name(value: float) -> str:
    """A number as a name: another number has another name; a missing one has none.

    >>> number_name(1000001.0), number_name(0.1), number_name(float("nan"))
    ('1000001', '0.1', '')
    """
    if np.isnan(value):
        return ""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


@dataclass(frozen=True)
class RawTable:
    """Named columns: `TextColumn`, a float64 array, or a list of lists (both from Parquet and Arrow).

    `lines` says where each row stands in the file; `skipped` counts the rows that were left out.
    """

    path: Path
    names: tuple[str, ...]
    columns: tuple[Any, ...]
    lines: Sequence[int]
    skipped: int = 0
    _place: dict[str, int] = field(default_factory=dict, repr=False)
    _binary: list[set[str]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._place.update((name, number) for number, name in enumerate(self.names))

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Any:
        return self.columns[self._place[name]]

    def texts(self, name: str) -> Any:
        """The column as text (`TextColumn`), numbers by their names; lists as they are."""
        column = self.column(name)
        return TextColumn(list(map(number_name, column))) if isinstance(column, np.ndarray) else column

    def numbers(self, name: str) -> np.ndarray | None:
        """The column as float64 with NaN where missing, or None when a value is not a number."""
        column = self.column(name)
        return column.numbers if isinstance(column, TextColumn) else column if isinstance(column, np.ndarray) else None

    def yes_or_no(self, name: str) -> np.ndarray | None:
        """float64 (n,): 1, 0 and NaN (unknown) of a column of yes and no (see `lampnet.data.yes_no`), else None."""
        column = self.column(name)
        if not isinstance(column, TextColumn):
            return None
        values, of_row = column.distinct
        found = yes_or_no(values, MISSING) if len(values) <= MOST_ANSWERS else None
        return None if found is None else found[of_row]

    def binary(self) -> set[str]:
        """The columns that hold 0, 1 and missing values only, and not the last alone."""
        if not self._binary:
            numbers = {name: self.numbers(name) for name in self.names}
            self._binary.append({name for name, found in numbers.items() if found is not None and _is_binary(found)})
        return self._binary[0]


def _is_binary(column: np.ndarray) -> bool:
    if not _zeros_and_ones(column[:SAMPLE]).all():
        return False
    return bool(_zeros_and_ones(column).all()) and not bool(np.isnan(column).all())


def _zeros_and_ones(column: np.ndarray) -> np.ndarray:
    found: np.ndarray = (column == 0) | (column == 1) | np.isnan(column)
    return found
