"""Which input kind a scikit-learn user's X is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import KINDS, Table
from lampnet.data.from_arrays import holds_words, is_frame, is_missing, rectangular, refuse_one
from lampnet.data.named_columns import columns_of, kind_of_roles, roles_of_columns
from lampnet.errors import DataError, did_you_mean

_DNA = re.compile(r"[ACGTNacgtn]{8,}")
_PICTURE_FILE = re.compile(r".+\.(?:jpe?g|png|gif|bmp|webp|tiff?)", re.IGNORECASE)
_LOOK = 200
#: dense arrays with more columns than this are one vector per row instead of one node per column
MOST_COLUMNS = 512


def kind_of(X: Any, input_kind: str = "auto") -> str:
    """The input kind of X: as given, or recognised by its type.

    >>> kind_of(["a text", "another"]), kind_of(np.zeros((3, 5))), kind_of(sparse.csr_matrix((3, 5)))
    ('text', 'columns', 'wordset')
    >>> kind_of(["ACGTACGTAA", "TTGACCANNA"]), kind_of(["sea.jpg", "sun.png"]), kind_of([np.zeros((4, 6, 3))])
    ('dna', 'image', 'image')
    """
    refuse_one(X)
    if input_kind != "auto":
        if input_kind not in KINDS:
            raise DataError(
                f"input_kind={input_kind!r} is not known; {did_you_mean(str(input_kind), ('auto', *KINDS))}"
            )
        return input_kind
    if sparse.issparse(X):
        return "wordset"
    if isinstance(X, Table):
        return "columns"
    if is_frame(X) or isinstance(X, Mapping):
        return _kind_of_columns(X)
    if _may_be_strings(X):
        flat = X.ravel() if isinstance(X, np.ndarray) else X
        sample = list(islice((value for value in flat if not is_missing(value)), _LOOK))
        if any(isinstance(value, str) for value in sample):  # `_texts` names the rows that are none
            return _kind_of_strings([value for value in sample if isinstance(value, str)])
    if isinstance(X, (list, tuple)) and len(X) and all(_is_picture(row) for row in X[:_LOOK]):
        return "image"
    if holds_words(X):
        return _kind_of_columns(X)
    _refuse_other_rows(X)
    array = rectangular(X)
    if array.ndim in (3, 4):
        return "image"
    return "columns" if array.ndim != 2 or array.shape[1] <= MOST_COLUMNS else "vector"


def _may_be_strings(X: Any) -> bool:
    """Lists, 1-D arrays (or of one column), pandas Series, Index and arrays; not what holds numbers for sure."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "OUT" and (X.ndim == 1 or (X.ndim == 2 and X.shape[1] == 1))
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufcmM":
        return False
    return isinstance(X, (list, tuple)) or (hasattr(X, "__len__") and hasattr(X, "dtype") and hasattr(X, "isna"))


def _kind_of_strings(sample: list[str]) -> str:
    """Windows of DNA and names of picture files are recognised; everything else is text, SMILES too."""
    if len(set(sample)) > 1 and len({len(value) for value in sample}) == 1 and all(map(_DNA.fullmatch, sample)):
        return "dna"
    if not all(map(_PICTURE_FILE.fullmatch, sample)):
        return "text"
    # A sentence may end in a file's name too, but no file is called so.
    blanks = [value for value in sample if re.search(r"\s", value)]
    return "image" if not blanks or any(os.path.isfile(value) for value in blanks) else "text"


def _refuse_other_rows(X: Any) -> None:
    """Lists of dicts, of bytes and of word lists are no rows yet; the sentence says how they become some."""
    first = X[0] if isinstance(X, (list, tuple)) and len(X) else None
    if isinstance(first, Mapping):
        raise DataError("the rows of X are dicts; give a DataFrame, pandas.DataFrame(rows), or a dict of columns")
    if isinstance(first, bytes):
        raise DataError("the rows of X are bytes; decode them to texts, or give picture files by their paths")
    lists = isinstance(first, (list, tuple, set, frozenset)) and len({len(row) for row in X[:_LOOK]}) > 1
    if lists and any(isinstance(word, str) for row in X[:_LOOK] for word in row):
        raise DataError("the rows of X are lists with words; give {'words': rows}, a table, or each row as one text")


def _is_picture(row: Any) -> bool:
    return isinstance(row, Path) or (isinstance(row, np.ndarray) and row.ndim in (2, 3))


def _kind_of_columns(X: Any) -> str:
    roles = roles_of_columns(X)
    if len(roles) == 1 and roles[0][1] in ("text", "category") and _has_strings(columns_of(X)[roles[0][0]]):
        return "text"  # a column of strings alone is text, however often it repeats itself
    if {role for _, role in roles} & {"words", "vector"}:
        return "parts"  # also where it is the only column: each of its values is a list
    kind = kind_of_roles(roles)
    only_numbers = all(role in ("number", "date") for _, role in roles)
    return "vector" if kind == "columns" and only_numbers and len(roles) > MOST_COLUMNS else kind


def _has_strings(column: Any) -> bool:
    return any(isinstance(value, str) for value in column)
