"""What scikit-learn users hold (arrays, sparse matrices, DataFrames, lists) as the rows of an input kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.dataset import KINDS, Dataset, Table
from lampnet.errors import DataError, did_you_mean

_DNA = re.compile(r"[ACGTNacgtn]{8,}")
_PICTURE_FILE = re.compile(r"\S+\.(?:jpe?g|png|gif|bmp|webp|tiff?)", re.IGNORECASE)
_LOOK = 200
#: dense arrays with more columns than this are one vector a row instead of a node a column
MOST_COLUMNS = 512


def kind_of(X: Any, input_kind: str = "auto") -> str:
    """The input kind of X: as given, or told from its type.

    >>> kind_of(["a text", "another"]), kind_of(np.zeros((3, 5))), kind_of(sparse.csr_matrix((3, 5)))
    ('text', 'columns', 'wordset')
    >>> kind_of(["ACGTACGTAA", "TTGACCANNA"]), kind_of(["sea.jpg", "sun.png"]), kind_of([np.zeros((4, 6, 3))])
    ('dna', 'image', 'image')
    """
    if input_kind != "auto":
        if input_kind not in KINDS:
            raise DataError(
                f"input_kind={input_kind!r} is not known; {did_you_mean(str(input_kind), ('auto', *KINDS))}"
            )
        return input_kind
    if sparse.issparse(X):
        return "wordset"
    if _is_frame(X):
        texts = [name for name in X.columns if _holds_text(X[name])]
        if X.shape[1] == 1 and texts:
            return "text"
        return "columns" if texts or X.shape[1] <= MOST_COLUMNS else "vector"
    if _all_text(X):
        return _kind_of_strings(list(X[:_LOOK] if isinstance(X, (list, tuple, np.ndarray)) else X.iloc[:_LOOK]))
    if isinstance(X, (list, tuple)) and len(X) and all(_is_picture(row) for row in X[:_LOOK]):
        return "image"
    array = _as_array(X)
    if array.ndim in (3, 4):
        return "image"
    return "columns" if array.ndim != 2 or array.shape[1] <= MOST_COLUMNS else "vector"


def rows_of(X: Any, kind: str) -> tuple[Any, tuple[str, ...] | None]:
    """X as the rows of this kind (see `lampnet.dataset`), and the feature names it brought."""
    names = tuple(map(str, X.columns)) if _is_frame(X) else None
    if kind in ("text", "molecule"):
        return _texts(X, kind), None
    if kind == "dna":
        from lampnet.readers.bases import encode_bases

        if isinstance(X, np.ndarray) and X.dtype == np.uint8:
            return X, None
        texts = _texts(X, kind)
        return encode_bases(texts, Path("X"), list(range(1, len(texts) + 1))), None
    if kind == "image":
        return list(X), None
    if kind == "wordset":
        values = X if sparse.issparse(X) else _numbers(X)
        return sparse.csr_matrix(values, dtype=np.float32), names
    if kind == "vector":
        return np.asarray(X.toarray() if sparse.issparse(X) else _numbers(X), dtype=np.float64), names
    if _is_frame(X):
        return _frame_table(X), None
    values = np.asarray(X.toarray() if sparse.issparse(X) else _numbers(X), dtype=np.float64)
    return Table(values=values, names=tuple(f"c{i}" for i in range(values.shape[1]))), None


def row_count(X: Any) -> int:
    """Rows of X; sparse matrices refuse len()."""
    return int(X.shape[0]) if hasattr(X, "shape") and len(X.shape) else len(X)


def as_dataset(X: Any, kind: str, name: str = "X", labels: Any = None, label_names: tuple[str, ...] = ()) -> Dataset:
    """X and, where given, its labels as a `Dataset`."""
    rows, names = rows_of(X, kind)
    return Dataset(name=name, kind=kind, rows=rows, labels=labels, label_names=label_names, feature_names=names)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _holds_text(column: Any) -> bool:
    if getattr(column.dtype, "kind", "O") in "biufc":
        return False
    # An object column may hold numbers all the same.
    return any(isinstance(value, str) for value in column.iloc[:1000])


def _all_text(X: Any) -> bool:
    if isinstance(X, str):
        raise DataError("one text came; give a list of texts")
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype.kind not in "OU"):
        return False
    if not hasattr(X, "__len__") or not len(X):
        return False
    first = list(X[:5]) if isinstance(X, (list, tuple, np.ndarray)) else list(X.iloc[:5]) if hasattr(X, "iloc") else []
    return bool(first) and all(isinstance(value, str) for value in first)


def _kind_of_strings(sample: list[str]) -> str:
    """Windows of DNA and names of picture files say what they are; everything else is text (SMILES too)."""
    if len(set(sample)) > 1 and len({len(value) for value in sample}) == 1 and all(map(_DNA.fullmatch, sample)):
        return "dna"
    return "image" if all(map(_PICTURE_FILE.fullmatch, sample)) else "text"


def _is_picture(row: Any) -> bool:
    return isinstance(row, Path) or (isinstance(row, np.ndarray) and row.ndim in (2, 3))


def _texts(X: Any, kind: str) -> list[str]:
    values: Sequence[Any]
    if _is_frame(X):
        if X.shape[1] != 1:
            raise DataError(f"rows of kind {kind} are one text each; a table of {X.shape[1]} columns came")
        values = X.iloc[:, 0].tolist()
    else:
        values = np.asarray(X, dtype=object).ravel().tolist() if isinstance(X, np.ndarray) else list(X)
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"row {row} is {type(value).__name__}, not text; rows of kind {kind} are one text each")
    return list(values)


def _as_array(X: Any) -> np.ndarray:
    try:
        return np.asarray(X)
    except ValueError:
        raise DataError("the rows of X are of different lengths; give a rectangular array") from None


def _numbers(X: Any) -> np.ndarray:
    array = _as_array(X.to_numpy() if hasattr(X, "to_numpy") else X)
    if array.ndim != 2:
        raise DataError(f"X has shape {array.shape}; give a table with one row a row. Reshape your data")
    return array


def _frame_table(frame: Any) -> Table:
    """Columns of words become codes into their sorted distinct values."""
    values = np.full(frame.shape, np.nan)
    categories: dict[int, tuple[str, ...]] = {}
    for number, name in enumerate(frame.columns):
        column = frame[name]
        if getattr(column.dtype, "kind", "O") in "biuf":
            values[:, number] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        known = column.notna().to_numpy()
        if not _holds_text(column) and not hasattr(column.dtype, "categories"):
            try:
                values[known, number] = column[known].to_numpy(dtype=np.float64)
                continue
            except (TypeError, ValueError):
                pass
        words = column.astype(object).map(str, na_action="ignore")
        categories[number] = tuple(sorted(set(words[known])))
        code = {word: i for i, word in enumerate(categories[number])}
        values[known, number] = [code[word] for word in words[known]]
    return Table(values=values, names=tuple(map(str, frame.columns)), categories=categories)
