"""What scikit-learn users hold (arrays, sparse matrices, DataFrames, lists) as the rows of an input kind."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.column_content import date_seconds
from lampnet.data.dataset import Table
from lampnet.data.names import half_a_character, repeated, unwritable, utf8
from lampnet.errors import DataError

_TOO_LARGE = "X holds a number beyond 1e308; give a smaller number or leave it empty"


def rows_of(X: Any, kind: str) -> tuple[Any, tuple[str, ...] | None]:
    """X as the rows of this kind (see `lampnet.data.dataset`), and the feature names it brought."""
    refuse_one(X)
    if kind in ("text", "molecule"):
        return _texts(X, kind), None
    if kind == "dna":
        from lampnet.data.dna_bases import encode_bases

        if isinstance(X, np.ndarray) and X.dtype == np.uint8:
            return X, None
        texts = _texts(X, kind)
        return encode_bases(texts, Path("X"), list(range(1, len(texts) + 1))), None
    if kind == "image":
        pictures = isinstance(X, np.ndarray) and X.dtype.kind not in "OUT"
        return list(X) if pictures else _one_each(X, kind), None
    names = X.names if isinstance(X, Table) else column_names(X) if is_frame(X) else None
    if kind == "columns":
        return table_of(X, names), None
    values: Any = X if sparse.issparse(X) else _numbers(X)
    if kind == "wordset":
        with np.errstate(over="ignore"):  # what becomes infinite is refused with its row by the encoder
            return sparse.csr_matrix(values, dtype=np.float32), names
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64), names


def table_of(X: Any, names: tuple[str, ...] | None = None) -> Table:
    """X as a `Table`; columns of words become codes into their sorted distinct values."""
    if isinstance(X, Table):
        return X
    if not is_frame(X) and not holds_words(X):
        try:
            values = np.asarray(X.toarray() if sparse.issparse(X) else _numbers(X), dtype=np.float64)
        except OverflowError:
            raise DataError(_TOO_LARGE) from None
        return Table(values=values, names=names or tuple(f"c{i}" for i in range(values.shape[1])))
    values = np.full(X.shape, np.nan)
    categories: dict[int, tuple[str, ...]] = {}
    for number in range(X.shape[1]):
        column = X.iloc[:, number] if is_frame(X) else X[:, number]
        values[:, number], words = column_values(column)
        if words is not None:
            categories[number] = words
    return Table(values=values, names=names or tuple(f"c{i}" for i in range(X.shape[1])), categories=categories)


def unmasked(values: Any) -> Any:
    """NumPy's masked arrays with NaN where they are masked; anything else as it is.

    >>> unmasked(np.ma.masked_array([1, 2], mask=[False, True])).tolist()
    [1.0, nan]
    """
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return values
    if values.dtype.kind == "O":
        return values.filled(None)
    if values.dtype.kind in "biu":
        return np.where(np.ma.getmaskarray(values), np.nan, values.data.astype(np.float64))
    return values.filled(np.nan)


def is_arrow_or_polars(table: Any) -> bool:
    """Whether this is a table of pyarrow or a DataFrame of polars; recognised without importing either."""
    return type(table).__module__.partition(".")[0] in ("pyarrow", "polars") and hasattr(table, "columns")


def with_columns(X: Any) -> Any:
    """A table of pyarrow or polars as a dict of its columns, each a list; anything else as it is.

    >>> import pyarrow as pa
    >>> with_columns(pa.table({"title": ["Up", None], "year": [2009, 1979]}))
    {'title': ['Up', None], 'year': [2009, 1979]}
    """
    if not is_arrow_or_polars(X):
        return X
    names = list(map(str, X.column_names if hasattr(X, "column_names") else X.columns))
    if (twice := repeated(names)) is not None:
        raise DataError(f"X has two columns called {twice!r}; give every column a name of its own")
    columns = X.columns if hasattr(X, "column_names") else X.get_columns()
    return {
        name: column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
        for name, column in zip(names, columns, strict=True)
    }


def row_count(X: Any) -> int:
    """Rows of X; sparse matrices refuse len(), and a dict of columns has as many rows as values in a column."""
    refuse_one(X)
    if isinstance(X, Mapping):
        return max((len(column) for column in X.values() if hasattr(column, "__len__")), default=0)
    return int(X.shape[0]) if hasattr(X, "shape") and len(X.shape) else len(X)


def row_numbers(rows: Any, n: int) -> list[int] | None:
    """Row numbers from one number, several, or a mask of the n rows; None for all.

    >>> row_numbers(2, 3), row_numbers([True, False, True], 3)
    ([2], [0, 2])
    """
    if rows is None:
        return None
    given = np.atleast_1d(np.asarray(rows))
    if given.dtype == bool:
        if given.shape != (n,):
            raise DataError(f"a mask of shape {given.shape} was given for {n} rows; give one True or False per row")
        given = np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DataError(f"rows={rows!r} are not row numbers; give whole numbers from 0 to {n - 1}, or a mask")
    return [int(row) for row in given]


def is_frame(X: Any) -> bool:
    """Whether X is a pandas DataFrame, or behaves like one."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def is_missing(value: Any) -> bool:
    """None, NaN, pandas.NA or NaT; recognised without importing pandas."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def only_texts(values: Collection[Any]) -> bool:
    """Whether all values are strings, and none of a class derived from them."""
    return set(map(type, values)) <= {str}


def holds_words(X: Any) -> bool:
    """Whether X is an object array (n, C) with texts in it, as DataFrame.to_numpy() makes of mixed columns."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype != object:
        return False
    return any(isinstance(value, str) for value in X.ravel())


def in_seconds(dates: np.ndarray) -> np.ndarray:
    """Dates (since 1970) or durations as seconds, float64, whatever their unit; NaN for NaT.

    >>> in_seconds(np.array(["1970-01-02", "NaT"], dtype="datetime64[D]")).tolist()
    [86400.0, nan]
    """
    spans = dates - np.datetime64(0, "s") if dates.dtype.kind == "M" else dates
    return np.asarray(spans / np.timedelta64(1, "s"), dtype=np.float64)


def refuse_one(X: Any) -> None:
    """Refuse a single text or path, which is not a list of rows."""
    if isinstance(X, (str, bytes, Path)):
        raise DataError(f"X is a single {'path' if isinstance(X, Path) else 'text'}; give a list of texts, one per row")


def column_names(frame: Any) -> tuple[str, ...]:
    """The names of a DataFrame's columns as text; each must be there once."""
    names = tuple(map(str, frame.columns))
    if (twice := repeated(names)) is not None:
        raise DataError(f"X has two columns called {twice!r}; give every column a name of its own")
    if (bad := unwritable(names)) is not None:
        raise DataError(half_a_character("the column name", names[bad]))
    return names


def _one_each(X: Any, kind: str) -> list[Any]:
    """The n things of a list, a Series, a 1-D array, or the only column of a table."""
    if is_frame(X) or isinstance(X, np.ndarray):
        if len(X.shape) > 2 or (len(X.shape) == 2 and X.shape[1] != 1):
            raise DataError(f"rows of kind {kind} have one value each; X has the shape {X.shape}: give one column")
        X = X.iloc[:, 0] if is_frame(X) else X.astype(object).ravel()
    return list(X)


def _texts(X: Any, kind: str) -> list[str]:
    values = _one_each(X, kind)
    for row, value in enumerate(values):
        if not isinstance(value, str):
            found = "missing" if is_missing(value) else f"{type(value).__name__}, not text"
            raise DataError(
                f"row {row} is {found}; rows of kind {kind} are one text each: fill the row in or leave it out"
            )
        if kind != "text" and not utf8(value):  # texts are read without it
            raise DataError(f"row {row}: " + half_a_character(f"the {kind}", value))
    return values


def rectangular(X: Any, fault: str = "the rows of X are of different lengths; give a rectangular array") -> np.ndarray:
    """X as an array; rows of different lengths are refused."""
    try:
        return np.asarray(X)
    except ValueError:
        raise DataError(fault) from None


def _numbers(X: Any) -> np.ndarray:
    """A dense array (n, C) of numbers."""
    if is_frame(X) and all(getattr(dtype, "kind", "O") in "biuf" for dtype in X.dtypes):
        return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
    if is_frame(X) or isinstance(X, Table):
        table = X if isinstance(X, Table) else table_of(X, column_names(X))
        if table.categories:
            name = table.names[next(iter(table.categories))]
            raise DataError(f"the column {name!r} of X holds words; give numbers, or use the kind columns")
        return table.values
    array = rectangular(X.to_numpy() if hasattr(X, "to_numpy") else X)
    if array.ndim != 2:
        raise DataError(f"X has shape {array.shape}; give a table (rows, columns). Reshape your data")
    return array


def _number(cell: Any) -> float:
    """A number as it is, a duration or a date (UTC where it has no zone) as seconds."""
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if isinstance(cell, date) and not isinstance(cell, datetime):
        cell = datetime.combine(cell, time())
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
    try:
        return float(cell)
    except OverflowError:  # a whole number of hundreds of digits, which encoders refuse as they refuse infinity
        return math.inf


def column_values(column: Any, as_words: bool = False) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """One column (a pandas Series, an array or a list): its numbers (n,), NaN where missing; its words, if any.

    Dates and durations count in seconds, ISO dates written as text too. With `as_words`, numbers stand for words.
    """
    dtype = getattr(column, "dtype", np.dtype(object))
    kind = getattr(dtype, "kind", "O")
    if kind == "c":
        raise DataError("Complex data not supported: X must hold real numbers")
    if kind in "biuf" and not as_words:
        return _plain_numbers(column), None
    if kind in "mM" and not as_words:
        if kind == "M" and getattr(getattr(column, "dt", None), "tz", None) is not None:
            column = column.dt.tz_convert(None)
        return in_seconds(np.asarray(column)), None
    cells = column.tolist() if hasattr(column, "tolist") else list(column)
    values = np.full(len(cells), np.nan)
    known = [row for row, cell in enumerate(cells) if not is_missing(cell)]
    if not as_words and not hasattr(dtype, "categories"):
        numbers = _numbers_in([cells[row] for row in known])
        if numbers is not None:
            values[known] = numbers
            return values, None
    words = {row: _word(cells[row]) for row in known}
    names = tuple(sorted(set(words.values())))
    code = {word: i for i, word in enumerate(names)}
    values[known] = [code[words[row]] for row in known]
    return values, names


def _plain_numbers(column: Any) -> np.ndarray:
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column, dtype=np.float64)


def _numbers_in(cells: list[Any]) -> list[float] | None:
    """Numbers and dates as numbers; None where a cell is neither."""
    if any(isinstance(cell, str) for cell in cells):
        dates = [date_seconds(cell.strip()) if isinstance(cell, str) else None for cell in cells]
        return None if None in dates else [seconds for seconds in dates if seconds is not None]
    try:
        return [_number(cell) for cell in cells]
    except OverflowError:
        raise DataError(_TOO_LARGE) from None
    except (TypeError, ValueError):
        return None


def _word(cell: Any) -> str:
    """A cell as a category: 3.0 and 3 are the same."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
