"""What scikit-learn users call y: an indicator matrix, label sets, or one class a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.errors import DataError


@dataclass(frozen=True)
class Targets:
    """The labels of the rows.

    labels    CSR float32 (n, L), a stored NaN = unknown
    classes   the L labels as the caller knows them: names, or column numbers
    single    every row has exactly one class (a 1-D y came)
    sparse    a sparse matrix came
    """

    labels: sparse.csr_matrix
    classes: np.ndarray
    single: bool = False
    sparse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as text."""
        return tuple(map(str, self.classes.tolist()))


def read_targets(y: Any, n_rows: int) -> Targets:
    """Tell what y is, and read it.

    >>> read_targets([{"war", "drama"}, {"comedy"}], 2).names
    ('comedy', 'drama', 'war')
    >>> read_targets([[0, 1], [1, 0]], 2).classes
    array([0, 1])
    >>> read_targets(["a", "b", "a"], 3).single
    True
    """
    if y is None:
        raise DataError("LaMPClassifier requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        return _indicator(y, n_rows, np.arange(y.shape[1]), came_sparse=True)
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):
        return _indicator(_numeric(y.to_numpy()), n_rows, np.array([str(c) for c in y.columns], dtype=object))
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not hasattr(y, "__len__"):  # anything that only offers __array__
        y = np.asarray(y)
    if _are_label_sets(y):
        return _label_sets(y, n_rows)
    array = _rectangular(y)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: y must hold labels")
    if array.ndim == 2 and array.shape[1] == 1 and not _is_indicator(array):
        array = array.ravel()  # one class a row, written as a column
    if array.ndim == 1:
        return _single(array, n_rows)
    if array.ndim != 2:
        raise DataError(f"y should be a 1d array or an indicator matrix; an array of shape {array.shape} came")
    return _indicator(_numeric(array), n_rows, np.arange(array.shape[1]))


def indicator_of(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Labels to score against, dense float32 (n, L), in the order of `classes`."""
    if not sparse.issparse(y) and _are_label_sets(y if not hasattr(y, "to_numpy") else list(y)):
        place = {label: i for i, label in enumerate(classes.tolist())}
        dense = np.zeros((len(y), len(classes)), dtype=np.float32)
        for row, labels in enumerate(y):
            for label in labels:
                if label not in place:
                    raise DataError(f"row {row}: the label {label!r} was never seen in training")
                dense[row, place[label]] = 1.0
        return dense
    read = read_targets(y, n_rows)
    if read.labels.shape[1] != len(classes):
        raise DataError(f"y has {read.labels.shape[1]} labels, the model {len(classes)}; they must agree")
    return np.asarray(read.labels.toarray(), dtype=np.float32)


def _are_label_sets(y: Any) -> bool:
    """Sets always are; lists and tuples when they hold text or differ in length."""
    if isinstance(y, np.ndarray) and y.dtype != object:
        return False
    rows = list(y[:1000]) if isinstance(y, (list, tuple, np.ndarray)) else []
    if not rows or any(isinstance(row, str) for row in rows):
        return False
    if any(isinstance(row, (set, frozenset)) for row in rows):
        return True
    if not all(isinstance(row, (list, tuple)) for row in rows):
        return False
    holds_text = any(isinstance(label, str) for row in rows for label in row)
    return holds_text or len({len(row) for row in rows}) > 1


def _label_sets(y: Sequence[Any], n_rows: int) -> Targets:
    _check_length(len(y), n_rows)
    rows = []
    for row, labels in enumerate(y):
        if isinstance(labels, str) or not isinstance(labels, (set, frozenset, list, tuple)):
            raise DataError(f"row {row} of y is {labels!r}; give a set or list of labels for every row")
        rows.append(set(labels))
    found = set().union(*rows)
    if not found:
        raise DataError("no row of y has any label; there is nothing to learn from")
    try:
        classes = sorted(found)
    except TypeError:
        classes = sorted(found, key=str)
    if len(set(map(str, classes))) != len(classes):
        raise DataError("two labels of y read the same as text; give every label one spelling")
    place = {label: i for i, label in enumerate(classes)}
    indices = [sorted(place[label] for label in labels) for labels in rows]
    indptr = np.cumsum([0] + [len(part) for part in indices])
    flat = np.array([i for part in indices for i in part], dtype=np.int64)
    labels = sparse.csr_matrix((np.ones(len(flat), dtype=np.float32), flat, indptr), shape=(n_rows, len(classes)))
    kept = np.empty(len(classes), dtype=object)
    kept[:] = classes
    return Targets(labels, kept)


def _single(y: np.ndarray, n_rows: int) -> Targets:
    _check_length(len(y), n_rows)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise DataError("Input y contains NaN or infinity; one class a row cannot be unknown")
        if (y != np.floor(y)).any():
            raise DataError(
                "Unknown label type: continuous. y holds fractions; give classes, label sets or an indicator"
            )
    try:
        classes, place = np.unique(y, return_inverse=True)
    except TypeError:
        raise DataError("y mixes texts and numbers; give labels of one type") from None
    if len(classes) < 2:
        raise DataError(f"y has only one class ({classes[0]!r}); at least two are needed to tell apart")
    shape = (n_rows, len(classes))
    ones = np.ones(n_rows, dtype=np.float32)
    labels = sparse.csr_matrix((ones, (np.arange(n_rows), place.ravel())), shape=shape)
    return Targets(labels, classes, single=True)


def _indicator(matrix: Any, n_rows: int, classes: np.ndarray, came_sparse: bool = False) -> Targets:
    _check_length(matrix.shape[0], n_rows)
    if matrix.shape[1] == 0:
        raise DataError("y has no column; give at least one label")
    if came_sparse:
        labels = sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
    else:
        dense = np.asarray(matrix, dtype=np.float32)
        rows, columns = np.nonzero(dense)  # NaN is not zero, so it is stored
        labels = sparse.csr_matrix((dense[rows, columns], (rows, columns)), shape=dense.shape)
    known = labels.data[~np.isnan(labels.data)]
    if ((known != 0) & (known != 1)).any():
        raise DataError("y must hold 0, 1 or NaN (unknown) in an indicator matrix; for one class a row give a 1-D y")
    labels.eliminate_zeros()
    return Targets(labels, classes, sparse=came_sparse)


def _is_indicator(array: np.ndarray) -> bool:
    return array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all() or np.isnan(array.astype(float)).any())


def _numeric(array: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("y must hold numbers (0, 1 or NaN) in an indicator matrix") from None


def _rectangular(y: Any) -> np.ndarray:
    try:
        return np.asarray(y)
    except ValueError:
        raise DataError("the rows of y are of different lengths; give an indicator matrix or label sets") from None


def _check_length(found: int, n_rows: int) -> None:
    if found != n_rows:
        raise DataError(f"X has {n_rows} rows, but y has {found}; they must be the same number")
