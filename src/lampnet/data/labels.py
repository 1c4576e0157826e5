"""What scikit-learn users call y: an indicator matrix, label sets, or one class per row."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.from_arrays import is_arrow_or_polars, is_frame, is_missing, rectangular, unmasked
from lampnet.data.joined_labels import doubtful_separator, found_separator, taken_apart
from lampnet.data.names import half_a_character, repeated, unwritable
from lampnet.data.schema import label_matrix
from lampnet.data.yes_no import yes_or_no
from lampnet.errors import DataError


@dataclass(frozen=True)
class Form:
    """What y looked like at fit, so that a later y is read in the same way."""

    single: bool = False  # one class per row (a 1-D y)
    sparse: bool = False  # a sparse matrix
    sets: bool = False  # a list of label sets
    named: bool = False  # a table whose columns have names


@dataclass(frozen=True)
class Targets:
    """The labels of the rows."""

    labels: sparse.csr_matrix  # float32 (n, L), a stored NaN = unknown
    classes: np.ndarray  # the L labels as the caller knows them: names, or column numbers
    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as text."""
        return tuple(map(str, self.classes.tolist()))


def with_classes(targets: Targets, classes: Any) -> Targets:
    """The same labels among all `classes`, in their order, some of which may not occur yet.

    >>> with_classes(read_targets(["b", "c"], 2), ["a", "b", "c"]).labels.toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    every = _class_array(list(classes))
    place = {name: number for number, name in enumerate(map(str, every.tolist()))}
    if len(place) < len(every):
        raise DataError("classes holds a label twice; give every label once")
    unknown = [name for name in targets.names if name not in place]
    if unknown:
        raise DataError(f"y has the label {unknown[0]!r}, which is not among classes; give all labels there")
    moved = targets.labels.tocoo()
    columns = np.array([place[name] for name in targets.names], dtype=np.int64)
    shape = (moved.shape[0], len(every))
    return Targets(sparse.csr_matrix((moved.data, (moved.row, columns[moved.col])), shape=shape), every, targets.form)


def more_classes(classes: np.ndarray, new: list[Any]) -> np.ndarray:
    """Classes with new ones behind them, of the same type where that can be.

    >>> more_classes(np.array([0, 1]), [2]).tolist(), more_classes(np.array(["a"]), [2]).tolist()
    ([0, 1, 2], ['a', 2])
    """
    every = [*classes.tolist(), *new]
    same = classes.dtype.kind != "O" and all(type(label) is type(every[0]) for label in every)
    return np.array(every) if same else np.array(every, dtype=object)


def targets_for(y: Any, classes: np.ndarray, form: Form, n_rows: int) -> Targets:
    """y of more rows, for a model with these classes: what is new in it has other names than they have.

    Columns without names are the model's, in its order; where the model's labels are column numbers, more columns are
    new labels.

    >>> targets_for([[1, 0, 1]], np.arange(2), Form(), 1).names
    ('0', '1', '2')
    """
    read = read_targets(y, n_rows)
    if read.form.single != form.single:
        one, several = "one class per row", "label sets"
        came, had = (one, several) if read.form.single else (several, one)
        raise DataError(f"y has {came}, the model was trained on {had}; give y in the same form")
    if read.form.single or read.form.sets or read.form.named:
        return read
    count = read.labels.shape[1]
    numbered = classes.tolist() == list(range(len(classes)))
    if count < len(classes) or (count > len(classes) and not numbered):
        raise DataError(
            f"y has {count} columns without names, the model {len(classes)} labels; give label sets, or a DataFrame "
            "whose columns are the labels"
        )
    return Targets(read.labels, classes if count == len(classes) else read.classes, read.form)


def read_targets(y: Any, n_rows: int) -> Targets:
    """Tell what y is, and read it.

    >>> read_targets([{"war", "drama"}, {"comedy"}], 2).names
    ('comedy', 'drama', 'war')
    >>> read_targets([[0, 1], [1, 0]], 2).classes
    array([0, 1])
    >>> read_targets(["a", "b", "a"], 3).form.single
    True
    """
    targets = _read(y, n_rows)
    if (bad := unwritable(targets.names)) is not None:
        rows = targets.labels.getcol(bad).nonzero()[0]
        where = f"row {rows[0]} of y: " if len(rows) else "y: "
        raise DataError(where + half_a_character("the label", targets.names[bad]))
    return targets


def _read(y: Any, n_rows: int) -> Targets:
    if y is None:
        raise DataError("LaMPClassifier requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        return _indicator(y, n_rows, np.arange(y.shape[1]), Form(sparse=True))
    y = unmasked(_only_column(_as_frame(y)))
    if is_frame(y):
        return _indicator(_numeric(y), n_rows, _class_array(list(y.columns)), Form(named=True))
    y = _values(y)
    if _are_label_sets(y):
        return _label_sets(y, n_rows)
    apart = _taken_apart(y)
    if apart is not None:
        separator, sets = apart
        how = "as lists in texts" if separator == "list" else f"separated by {separator!r}"
        message = f"y names several labels per row, {how}, and is read so; give lists to be sure"
        warnings.warn(message, UserWarning, stacklevel=4)  # the line that called `fit`
        return _label_sets(sets, n_rows)
    _warn_of_joined(y)
    array = rectangular(y, "the rows of y are of different lengths; give an indicator matrix or label sets")
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: y must hold labels")
    if array.ndim == 2 and array.shape[1] == 1 and not _is_indicator(array):
        array = array.ravel()  # one class per row, written as a column
    if array.ndim == 1:
        return _single(array, n_rows)
    if array.ndim != 2:
        raise DataError(f"y should be a 1d array or an indicator matrix, not an array of shape {array.shape}")
    return _indicator(_numeric(array), n_rows, np.arange(array.shape[1]), Form())


def indicator_of(
    y: Any, classes: np.ndarray, form: Form, n_rows: int, moves: Mapping[str, str | None] | None = None
) -> np.ndarray:
    """Labels to score against, dense float32 (n, L + U), in the order of `classes`.

    y is read as the y of training was, whose `form` is given. Labels in sets that training did not have are
    warned of and become U more columns. The columns of a table are found by their names where the model has
    names, else by their order. `moves` says what labels are now that were renamed, merged or (None) dropped.

    >>> indicator_of([[0, 1], [1, 0]], np.arange(2), Form(sets=True), 2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if not sparse.issparse(y):
        y = _only_column(_as_frame(y))
        if is_frame(y):
            return _by_name(y, classes, form, n_rows)
        y = _values(y)
        if form.sets and _strings(y):
            sign = found_separator(list(y))
            y = [taken_apart(cell, sign) or [] for cell in y]
        if _are_label_sets(y, sure=form.sets):
            return _sets_indicator(y, classes, n_rows, moves or {})
    read = read_targets(y, n_rows)
    if read.labels.shape[1] != len(classes):
        raise DataError(f"y has {read.labels.shape[1]} labels, the model {len(classes)}; they must agree")
    return np.asarray(read.labels.toarray(), dtype=np.float32)


def classes_of(y: Any, n_rows: int) -> np.ndarray:
    """The classes (n,) to score against, where training had one class per row."""
    truth = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y).ravel()
    _check_single(truth, n_rows)
    return truth


def _by_name(y: Any, classes: np.ndarray, form: Form, n_rows: int) -> np.ndarray:
    read = read_targets(y, n_rows)
    dense = np.asarray(read.labels.toarray(), dtype=np.float32)
    known = list(map(str, classes.tolist()))
    if (twice := repeated(read.names)) is not None:
        raise DataError(f"y has two columns called {twice!r}; give every label one column")
    if set(read.names) == set(known):
        return dense[:, [read.names.index(name) for name in known]]
    unknown = [name for name in read.names if name not in set(known)]
    lacking = [name for name in known if name not in set(read.names)]
    if form.named or form.sets:
        more = f"the column {unknown[0]!r}, which is not a label of the model" if unknown else ""
        less = f"no column {lacking[0]!r}" if lacking else ""
        raise DataError(
            f"y has {' and '.join(filter(None, (more, less)))}; give one column for each of the model's "
            f"{len(known)} labels, called as in training"
        )
    if len(known) != dense.shape[1]:
        raise DataError(f"y has {dense.shape[1]} labels, the model {len(known)}; they must agree")
    return dense


def _sets_indicator(y: Sequence[Any], classes: np.ndarray, n_rows: int, moves: Mapping[str, str | None]) -> np.ndarray:
    known = classes.tolist()
    rows = _label_rows(y, n_rows)
    if moves:
        now: dict[Any, Any] = {str(label): label for label in known}
        moved = {label: moves[str(label)] for row in rows for label in row if str(label) in moves}
        moved = {label: new for label, new in moved.items() if label not in known}
        rows = [
            {now.get(moved.get(label, label), label) for label in row if moved.get(label, label) is not None}
            for row in rows
        ]
    unknown = sorted(set().union(*rows) - set(known), key=str)
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
        message = f"{len(unknown)} label(s) of y were never seen in training and count as missed: {shown}"
        warnings.warn(message, UserWarning, stacklevel=4)  # the line that called `score`
    return np.asarray(label_matrix(rows, [*known, *unknown]).toarray())


def _as_frame(y: Any) -> Any:
    """An Arrow table or a polars DataFrame as one of pandas, whose columns are labels; anything else as it is."""
    if not is_arrow_or_polars(y):
        return y
    try:
        return y.to_pandas()
    except ImportError:
        raise DataError(
            f"y is a {type(y).__name__}, which needs pandas; install it, or give a matrix or lists"
        ) from None


def _only_column(y: Any) -> Any:
    """A table of one column that is not an indicator is its column: a Series of classes or label sets."""
    if not is_frame(y) or y.shape[1] != 1:
        return y
    column = y.iloc[:, 0]
    if any(isinstance(label, str) for label in column):
        return column
    try:
        return y if _is_indicator(column.to_numpy(dtype=np.float64, na_value=np.nan)) else column
    except (TypeError, ValueError):
        return column


def _values(y: Any) -> Any:
    if hasattr(y, "to_numpy"):
        return y.to_numpy()
    return y if hasattr(y, "__len__") else np.asarray(y)  # anything that only offers __array__


def _is_label_row(row: Any) -> bool:
    return isinstance(row, (set, frozenset, list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _are_label_sets(y: Any, sure: bool = False) -> bool:
    """Sets always are; lists, tuples and arrays when they hold text or differ in length, or when it is sure."""
    if not isinstance(y, (list, tuple)) and not (isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1):
        return False
    if any(isinstance(row, (set, frozenset)) for row in y):
        return True
    y = [row for row in y if not is_missing(row)]  # `_label_rows` names the rows that are missing
    if not y or not all(map(_is_label_row, y)):
        return False
    return sure or len({len(row) for row in y}) > 1 or any(isinstance(label, str) for row in y for label in row)


def _strings(y: Any) -> bool:
    # Not np.ndim, which refuses lists of different lengths.
    return getattr(y, "ndim", 1) == 1 and len(y) > 0 and all(isinstance(cell, str) for cell in y)


def _taken_apart(y: Any) -> tuple[str, list[list[str]]] | None:
    """The labels of strings such as "drama;war", where it is clear that a row names several; else None.

    Clear it is where a tenth of the rows have the sign, the labels come again, and there are no more of them than of
    whole strings. A comma alone is no sign: classes have commas in their names.
    """
    if (isinstance(y, (list, tuple)) and any(not isinstance(cell, str) for cell in y)) or not _strings(y):
        return None
    separator = found_separator(list(y))
    if separator in ("none", ","):
        return None
    sets = [taken_apart(cell, separator) for cell in y]
    found = [names for names in sets if names is not None]
    labels = [label for names in found for label in names]
    distinct = set(labels)
    clear = (
        len(found) == len(sets)
        and sum(len(set(names)) > 1 for names in found) * 10 >= len(found)
        and len(distinct) * 2 <= len(labels)
        and len(distinct) <= len(set(y))
    )
    return (separator, found) if clear else None


def _warn_of_joined(y: Any) -> None:
    """Where a tenth of the classes look like several labels, and yet are read as one class per row."""
    if not isinstance(y, (list, tuple, np.ndarray)) or not _strings(y):
        return
    separator = found_separator(list(y))
    if separator in ("none", ","):
        separator = doubtful_separator(list(y))
    if not separator:
        return
    several = [cell for cell in y if len(set(taken_apart(cell, separator) or ())) > 1]
    if len(several) * 10 >= len(y):
        message = f"y is read as one class per row, such as {several[0][:60]!r}; for several labels per row, give lists"
        warnings.warn(message, UserWarning, stacklevel=5)  # the line that called `fit`


def _label_rows(y: Sequence[Any], n_rows: int) -> list[set[Any]]:
    """One set of labels per row; NumPy's numbers and texts become Python's, which can be stored."""
    _check_length(len(y), n_rows)
    rows = []
    for row, labels in enumerate(y):
        if is_missing(labels):
            raise DataError(
                f"row {row} of y is missing; give an empty list for a row without labels, and leave out rows whose "
                "labels are unknown, or give an indicator matrix with NaN"
            )
        if not _is_label_row(labels):
            raise DataError(f"row {row} of y is {labels!r}; give a set or list of labels for every row")
        try:
            rows.append({label.item() if isinstance(label, np.generic) else label for label in labels})
        except TypeError:
            raise DataError(f"row {row} of y is {labels!r}; labels must be texts or numbers") from None
    return rows


def _class_array(classes: list[Any]) -> np.ndarray:
    """Labels as an array (L,): whole numbers as int64 where they fit, anything else as it is."""
    classes = [label.item() if isinstance(label, np.generic) else label for label in classes]
    if all(type(label) is int and -(2**63) <= label < 2**63 for label in classes):
        return np.array(classes, dtype=np.int64)
    return np.fromiter(classes, dtype=object, count=len(classes))


def _label_sets(y: Sequence[Any], n_rows: int) -> Targets:
    rows = _label_rows(y, n_rows)
    found = set().union(*rows)
    if not found:
        raise DataError("no row of y has any label; there is nothing to learn from")
    try:
        classes = sorted(found)
    except TypeError:
        classes = sorted(found, key=str)
    if len(set(map(str, classes))) != len(classes):
        raise DataError("two labels of y read the same as text; give every label one spelling")
    return Targets(label_matrix(rows, classes), _class_array(classes), Form(sets=True))


def _single(y: np.ndarray, n_rows: int) -> Targets:
    _check_single(y, n_rows)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise DataError("Input y contains NaN or infinity; one class per row cannot be unknown")
        if (y != np.floor(y)).any():
            raise DataError(
                "Unknown label type: continuous. y holds fractions; give classes, label sets or an indicator"
            )
    try:
        classes, column = np.unique(y, return_inverse=True)
    except TypeError:
        raise DataError("y mixes texts and numbers; give labels of one type") from None
    if not len(classes):
        raise DataError("y has no rows; give at least two")
    if len(classes) < 2:
        raise DataError(f"y has only one class ({classes[0]!r}); at least two are needed to tell apart")
    ones = np.ones(n_rows, dtype=np.float32)
    labels = sparse.csr_matrix((ones, column.ravel(), np.arange(n_rows + 1)), shape=(n_rows, len(classes)))
    return Targets(labels, classes, Form(single=True))


def _indicator(matrix: Any, n_rows: int, classes: np.ndarray, form: Form) -> Targets:
    _check_length(matrix.shape[0], n_rows)
    if matrix.shape[1] == 0:
        raise DataError("y has no column; give at least one label")
    if form.sparse:
        labels = sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
        labels.sum_duplicates()  # an entry stored twice is 2, which the check below must see
    else:
        dense = np.asarray(matrix, dtype=np.float32)
        rows, columns = np.nonzero(dense)  # NaN is not zero, so it is stored
        labels = sparse.csr_matrix((dense[rows, columns], (rows, columns)), shape=dense.shape)
    known = labels.data[~np.isnan(labels.data)]
    if ((known != 0) & (known != 1)).any():
        raise DataError("y must hold 0, 1 or NaN (unknown) in an indicator matrix; for one class per row give a 1-D y")
    labels.eliminate_zeros()
    return Targets(labels, classes, form)


def _is_indicator(array: np.ndarray) -> bool:
    return array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all() or np.isnan(array.astype(float)).any())


def _numeric(y: Any) -> np.ndarray:
    """A DataFrame or an array (n, L) as float64."""
    try:
        return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan) if is_frame(y) else y, dtype=np.float64)
    except (TypeError, ValueError):
        array = y.to_numpy(dtype=object) if is_frame(y) else np.asarray(y, dtype=object)
        answers = [_answers(column) for column in array.T] if array.ndim == 2 else []
        if answers and all(column is not None for column in answers):
            return np.stack(answers, axis=1)  # type: ignore[arg-type]
        raise DataError(
            "y must hold numbers (0, 1 or NaN), or yes and no, in an indicator matrix or a table of labels"
        ) from None


def _answers(column: np.ndarray) -> np.ndarray | None:
    """1, 0 and NaN of words for yes and no; None where a cell is another word."""
    return yes_or_no(["" if is_missing(cell) else str(cell) for cell in column])


def _check_single(y: np.ndarray, n_rows: int) -> None:
    _check_length(len(y), n_rows)
    missing = [row for row, label in enumerate(y) if is_missing(label)] if y.dtype == object else []
    if missing:
        raise DataError(
            f"row {missing[0]} of y is missing; one class per row cannot be unknown: leave such rows out. Where the "
            "other rows are texts with several labels each, give '' for a row without labels"
        )


def _check_length(found: int, n_rows: int) -> None:
    if found != n_rows:
        raise DataError(f"X has {n_rows} rows, but y has {found}; they must be the same number")
