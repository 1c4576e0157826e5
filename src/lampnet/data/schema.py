"""Splits that agree: validation and test files brought to the label and feature order of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.splits import Splits
from lampnet.errors import DataError, did_you_mean


class NoLabels(DataError):
    """Rows that have a place for labels, but no label in it."""


def label_matrix(label_sets: Sequence[Iterable[str]], label_names: Sequence[str]) -> sparse.csr_matrix:
    """Sets of names as CSR float32 (n, L).

    >>> label_matrix([["b"], [], ["a", "b"]], ["a", "b"]).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """
    place = {name: number for number, name in enumerate(label_names)}
    indices: list[int] = []
    indptr = [0]
    for row, labels in enumerate(label_sets):
        try:
            indices.extend(sorted({place[label] for label in labels}))
        except KeyError as error:
            raise DataError(f"row {row}: the label {error.args[0]!r} is not among the label names") from None
        indptr.append(len(indices))
    shape = (len(indptr) - 1, len(place))
    return sparse.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=shape)


def names_in(label_sets: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All names that occur, sorted."""
    return tuple(sorted({label for labels in label_sets for label in labels}))


def align(train: Dataset, other: Dataset, part: str, strangers: bool = False) -> Dataset:
    """`other` with the labels and features of `train`, in its order.

    A label that training rows do not have is an error; a feature they do not have is dropped, a
    feature only they have is zero (missing, in a table). Files that have no word in common are no pair,
    unless `strangers` are expected: new rows may consist of unknown words.
    """
    if other.kind != train.kind:
        raise DataError(
            f"{part}: the rows are of kind {other.kind}, the training rows of kind {train.kind}; "
            "give files of the same form"
        )
    return _align_features(train, _align_labels(train, other, part), part, strangers)


def _align_labels(train: Dataset, other: Dataset, part: str) -> Dataset:
    if other.labels is None or other.label_names == train.label_names:
        return replace(other, label_names=train.label_names)
    known = {name: number for number, name in enumerate(train.label_names)}
    new = [name for name in other.label_names if name not in known]
    if new:
        raise DataError(
            f"{part}: the label {new[0]!r} never occurs in the training part ({len(new)} such labels); "
            f"remove it or add training rows that have it; {did_you_mean(new[0], known)[:200]}"
        )
    moved = other.labels.tocoo()
    columns = np.array([known[name] for name in other.label_names], dtype=np.int64)
    shape = (len(other), len(train.label_names))
    labels = sparse.csr_matrix((moved.data, (moved.row, columns[moved.col])), shape=shape)
    return replace(other, labels=labels, label_names=train.label_names)


def _align_features(train: Dataset, other: Dataset, part: str, strangers: bool) -> Dataset:
    if train.kind == "columns":
        return replace(other, rows=_align_table(train.rows, other.rows, part), feature_names=train.feature_names)
    if train.kind not in ("wordset", "vector"):
        return other
    width, given = train.rows.shape[1], other.rows.shape[1]
    if train.feature_names is None or other.feature_names is None:
        if given == width:
            return replace(other, feature_names=train.feature_names)
        if train.kind == "vector":
            raise DataError(f"{part}: the rows have {given} numbers, the training rows {width}; they must agree")
        rows = sparse.csr_matrix(other.rows)
        if given > width:
            rows = rows[:, :width]
        else:
            rows.resize((len(other), width))
        return replace(other, rows=rows, feature_names=train.feature_names)
    if train.feature_names == other.feature_names:
        return other
    known = {name: number for number, name in enumerate(train.feature_names)}
    if not strangers and not any(name in known for name in other.feature_names):
        raise DataError(f"{part}: none of its {given} features is one of the training part's; are the files a pair?")
    columns = np.array([known.get(name, -1) for name in other.feature_names], dtype=np.int64)
    moved = sparse.coo_matrix(other.rows)
    kept = columns[moved.col] >= 0
    shape = (len(other), width)
    rows = sparse.csr_matrix((moved.data[kept], (moved.row[kept], columns[moved.col[kept]])), shape=shape)
    dense: Any = rows.toarray() if train.kind == "vector" else rows
    return replace(other, rows=dense, feature_names=train.feature_names)


def _align_table(train: Table, other: Table, part: str) -> Table:
    place = {name: number for number, name in enumerate(other.names)}
    if not any(name in place for name in train.names):
        raise DataError(f"{part}: none of its columns is one of the training part's; are the files a pair?")
    values = np.full((len(other), len(train.names)), np.nan)
    for number, name in enumerate(train.names):
        if name not in place:
            continue
        column = other.values[:, place[name]]
        theirs, ours = other.categories.get(place[name]), train.categories.get(number)
        if (theirs is None) != (ours is None) and len(column[~np.isnan(column)]):
            raise DataError(f"{part}: the column {name!r} holds numbers in one part and words in the other")
        if theirs is not None and ours is not None and theirs != ours:
            # A category never seen in training is a missing value.
            codes = np.array([ours.index(word) if word in ours else np.nan for word in theirs])
            moved = np.full(len(column), np.nan)
            seen = ~np.isnan(column)
            moved[seen] = codes[column[seen].astype(np.int64)]
            column = moved
        values[:, number] = column
    return Table(values=values, names=train.names, categories=train.categories)


def aligned_splits(train: Dataset, valid: Dataset | None = None, test: Dataset | None = None) -> Splits:
    """Splits whose validation and test parts follow the training part's labels and features."""
    if train.labels is None:
        raise DataError(f"{train.name}: the training rows carry no labels; give training data with labels")
    return Splits(
        train=train,
        valid=None if valid is None else align(train, valid, "validation part"),
        test=None if test is None else align(train, test, "test part"),
    )


def random_split(data: Dataset, valid: float | int, test: float | int, seed: int) -> Splits:
    """Seeded random parts; `valid` and `test` are counts, or shares of the rows when below 1.

    >>> rows = Dataset(name="x", kind="text", rows=list("abcdefghij"), labels=None, label_names=())
    >>> parts = random_split(rows, valid=0.1, test=2, seed=0)
    >>> len(parts.train), len(parts.valid), len(parts.test)
    (7, 1, 2)
    """
    n = len(data)
    n_valid = round(valid * n) if valid < 1 else int(valid)
    n_test = round(test * n) if test < 1 else int(test)
    if n - n_valid - n_test < 1:
        raise DataError(f"{data.name}: {n} rows are too few for {n_valid} validation and {n_test} test rows")
    order = np.random.default_rng(seed).permutation(n)
    return Splits(
        train=data.take(np.sort(order[n_valid + n_test :])),
        valid=data.take(np.sort(order[:n_valid])),
        test=data.take(np.sort(order[n_valid : n_valid + n_test])),
        # Joined again, drawn rows stand behind the others: where rows come in order, that would be lost.
        valid_is_sampled=not Splits(train=data).serially_correlated,
    )


def align_labels(data: Dataset, label_names: tuple[str, ...]) -> Dataset:
    """The same rows with their label columns in another order; a label unknown there is an error."""
    from dataclasses import replace

    assert data.labels is not None
    place = {name: i for i, name in enumerate(label_names)}
    unknown = [name for name in data.label_names if name not in place]
    if unknown:
        raise DataError(
            f"{data.name}: the label {unknown[0]!r} was never seen in training ({len(unknown)} such label(s)); "
            "train again with it or remove it"
        )
    entries = sparse.coo_matrix(data.labels)
    columns = np.array([place[name] for name in data.label_names], dtype=np.int64)[entries.col]
    shape = (len(data), len(label_names))
    labels = sparse.csr_matrix((entries.data, (entries.row, columns)), shape=shape)
    return replace(data, labels=labels, label_names=label_names)
