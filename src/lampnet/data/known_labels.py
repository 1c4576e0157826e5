"""What the caller already knows about the labels of rows: each label is true, false, probable or unknown.

States are int8 (n, L): 1 true, -1 false, 0 unknown. Where some are only probable, states are float32, and a label that
is true with probability q has the state 2q - 1. Callers give them as

- an array or DataFrame (n, L) of 1, 0, probabilities and NaN (unknown), or a sparse matrix whose absent entries are
  unknown;
- a list with one `{label: bool or probability}` per row;
- a list with one list of true labels per row.

None in place of a row's dict or list means that nothing is known about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.from_arrays import is_frame, is_missing
from lampnet.errors import DataError, did_you_mean

TRUE, FALSE, UNKNOWN = np.int8(1), np.int8(-1), np.int8(0)
States = np.ndarray
#: the state of a label that is true with probability 1/2, which is not the same as unknown
EVEN = np.float32(1e-6)


def nothing_known(n_rows: int, n_labels: int) -> States:
    """States of rows about whose labels nothing is known."""
    return np.zeros((n_rows, n_labels), dtype=np.int8)


def read_known(known: Any, labels: Sequence[Any], n_rows: int, one_class: bool = False) -> States:
    """Tell in which form known labels came, and read them.

    Parameters
    ----------
    known : one of the forms above; None for nothing known
    labels : the L labels of the model, by which dicts and lists name them
    n_rows : how many rows there are
    one_class : exactly one label of each row is true, so a true label makes all others false

    >>> read_known([{"grain": True, "wheat": False}, ["corn"], None], ["corn", "grain", "wheat"], 3).tolist()
    [[0, 1, -1], [1, 0, 0], [0, 0, 0]]
    >>> read_known(np.array([[1.0, 0.0, np.nan]]), ["corn", "grain", "wheat"], 1).tolist()
    [[1, -1, 0]]
    >>> read_known([{"grain": 0.75}], ["corn", "grain", "wheat"], 1).tolist()
    [[0.0, 0.5, 0.0]]
    """
    if known is None:
        return nothing_known(n_rows, len(labels))
    if sparse.issparse(known):
        states = _of_sparse(known, len(labels), n_rows)
    elif is_frame(known):
        states = _of_frame(known, labels, n_rows)
    elif isinstance(known, np.ndarray) and known.dtype != object:
        states = _of_array(known, len(labels), n_rows)
    else:
        states = _of_rows(known, labels, n_rows)
    return _with_one_class(states, labels) if one_class else states


def states_of_truth(Y_nL: np.ndarray) -> States:
    """Labels (n, L) of 1, 0 and NaN as states.

    >>> states_of_truth(np.array([[1.0, 0.0, np.nan]])).tolist()
    [[1, -1, 0]]
    """
    return np.where(np.isnan(Y_nL), UNKNOWN, np.where(Y_nL > 0, TRUE, FALSE)).astype(np.int8)


def is_soft(states_nL: States) -> np.ndarray:
    """Which labels are known as probable only, bool (n, L)."""
    return np.asarray((states_nL != TRUE) & (states_nL != FALSE) & (states_nL != UNKNOWN))


def known_value(state: Any) -> bool | float:
    """A known label's state as callers give it: true, false or a probability.

    >>> known_value(-1), known_value(0.5)
    (False, 0.75)
    """
    return bool(state > 0) if state in (TRUE, FALSE) else round((1 + float(state)) / 2, 6)


def as_dicts(states_nL: States, labels: Sequence[str]) -> list[dict[str, bool | float]]:
    """States as one dict per row.

    >>> as_dicts(np.array([[0, 1, -1]]), ["corn", "grain", "wheat"])
    [{'grain': True, 'wheat': False}]
    """
    return [{labels[i]: known_value(row[i]) for i in np.flatnonzero(row).tolist()} for row in states_nL]


def _of_sparse(known: Any, n_labels: int, n_rows: int) -> States:
    _check_shape(known.shape, n_labels, n_rows)
    entries = sparse.coo_matrix(known)
    values = _as_states(np.asarray(entries.data, dtype=np.float64))
    states = np.zeros((n_rows, n_labels), dtype=values.dtype)
    positions = entries.row.astype(np.int64) * n_labels + entries.col
    if len(np.unique(positions)) != len(positions):
        raise DataError("known holds an entry twice; give every row and label one entry at most")
    states.ravel()[positions] = values
    return states


def _of_array(known: np.ndarray, n_labels: int, n_rows: int) -> States:
    _check_shape(known.shape, n_labels, n_rows)
    if known.dtype.kind not in "biuf":
        raise DataError(f"known holds {known.dtype} values; give 1 (true), 0 (false), a probability or NaN (unknown)")
    return _as_states(known.astype(np.float64))


def _of_frame(known: Any, labels: Sequence[Any], n_rows: int) -> States:
    """A table with one column per known label; labels without a column are unknown."""
    columns, number = list(known.columns), _numbers(labels)
    if len(set(map(str, columns))) != len(columns):
        raise DataError("known has two columns with the same name; give every label one column")
    if len(known) != n_rows:
        raise DataError(f"X has {n_rows} rows, but known has {len(known)}; they must be the same number")
    given = np.full((n_rows, len(labels)), np.nan)
    for name in columns:
        try:
            values = known[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            problem = f"the column {name!r} of known must hold 1, 0, probabilities or NaN (unknown)"
            raise DataError(problem) from None
        given[:, _number_of(name, number, "known")] = values
    return _as_states(given)


def _of_rows(known: Any, labels: Sequence[Any], n_rows: int) -> States:
    if isinstance(known, (Mapping, str)) or not isinstance(known, Iterable):
        shown = f"one {type(known).__name__}" if isinstance(known, (Mapping, str)) else repr(known)[:60]
        raise DataError(f"known is {shown}; give a list with one dict or one list of labels for each row")
    rows = list(known)
    if rows and all(_is_numbers(row) for row in rows):
        # Lists of 0, 1, probabilities and NaN are an array, unless they name the labels by numbers.
        widths = {len(row) for row in rows}
        if widths == {len(labels)} and all(is_missing(value) or 0 <= value <= 1 for row in rows for value in row):
            array = np.array([[np.nan if is_missing(v) else float(v) for v in row] for row in rows])
            return _of_array(array, len(labels), n_rows)
    if len(rows) != n_rows:
        raise DataError(f"X has {n_rows} rows, but known has {len(rows)}; they must be the same number")
    number = _numbers(labels)
    values = np.full((n_rows, len(labels)), np.nan)
    for row, given in enumerate(rows):
        for label, value in _pairs(given, row):
            column = _number_of(label, number, f"row {row} of known")
            if not np.isnan(values[row, column]) and values[row, column] != value:
                raise DataError(f"row {row} of known: the label {label!r} is both true and false; keep one of them")
            values[row, column] = value
    return _as_states(values)


def _pairs(given: Any, row: int) -> list[tuple[Any, float]]:
    """The labels of one row's dict or list, with what is known of each."""
    if given is None or is_missing(given):
        return []
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, float]] = []
        for label, value in given.items():
            if value is None or is_missing(value):
                continue
            if not isinstance(value, (bool, int, float, np.bool_, np.number)) or not 0 <= value <= 1:
                raise DataError(
                    f"row {row} of known: {label!r} is {value!r}; give true, false or a probability, and leave unknown "
                    "labels out"
                )
            pairs.append((label, float(value)))
        return pairs
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f"row {row} of known is {given!r}; give a list of labels or a dict of label: true or false")
    return [(label, 1.0) for label in given]


def _is_numbers(row: Any) -> bool:
    return isinstance(row, (list, tuple, np.ndarray)) and all(
        isinstance(v, (int, float, np.number, np.bool_)) or v is None for v in row
    )


def _numbers(labels: Sequence[Any]) -> dict[Any, int]:
    """The column of each label, by itself and by its text."""
    by_text = {str(label): number for number, label in enumerate(labels)}
    return by_text | {label: number for number, label in enumerate(labels)}


def _number_of(label: Any, number: Mapping[Any, int], where: str) -> int:
    try:
        found = number.get(label, number.get(str(label)))
    except TypeError:  # not hashable
        found = None
    if found is None:
        names = [name for name in number if isinstance(name, str)]
        raise DataError(f"{where}: the model has no label {str(label)[:80]!r}; {did_you_mean(str(label), names)[:200]}")
    return found


def _as_states(values: np.ndarray) -> States:
    """1, 0 and NaN -> 1, -1 and 0, int8; with probabilities between them float32."""
    unknown = np.isnan(values)
    wrong = values[~unknown & ((values < 0) | (values > 1))]
    if wrong.size:
        problem = f"known holds {wrong.flat[0]:g}; give 1 (true), 0 (false), a probability or NaN (unknown)"
        raise DataError(problem)
    states = np.where(unknown, 0.0, 2 * values - 1)
    if not is_soft(states).any() and not (values == 0.5).any():
        return states.astype(np.int8)
    return np.where(values == 0.5, EVEN, states).astype(np.float32)


def _check_shape(shape: tuple[int, ...], n_labels: int, n_rows: int) -> None:
    if shape != (n_rows, n_labels):
        raise DataError(f"known has shape {shape}; give one row for each of the {n_rows} rows and {n_labels} columns")


def _with_one_class(states: States, labels: Sequence[Any]) -> States:
    """Where exactly one label of a row is true, a known one makes the others false."""
    if states.dtype != np.int8:
        raise DataError(
            "known holds probabilities, but the rows of this model have exactly one class; give true or false"
        )
    true, false = states == TRUE, states == FALSE
    for row in np.flatnonzero((true.sum(axis=1) > 1) | false.all(axis=1)):
        names = [str(labels[number]) for number in np.flatnonzero(true[row]).tolist()]
        problem = f"{names[0]!r} and {names[1]!r} are both true" if names else "every class is false"
        raise DataError(f"row {row} of known: {problem}, but the rows of this model have exactly one class")
    decided = true.any(axis=1, keepdims=True)
    states = np.where(decided & ~true, FALSE, states)
    # All classes but one refused: the last one it must be.
    last = ((states == FALSE).sum(axis=1) == states.shape[1] - 1)[:, None] & (states == UNKNOWN)
    return np.where(last, TRUE, states).astype(np.int8)
