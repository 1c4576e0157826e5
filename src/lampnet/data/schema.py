"""Schemas: rows brought to the labels and features of the training rows, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.parts import Part, PartRows
from lampnet.data.splits import Splits
from lampnet.errors import DataError, did_you_mean


class NoLabels(DataError):
    """Rows whose labels are all empty."""


def label_matrix(label_sets: Sequence[Iterable[Any]], label_names: Sequence[Any]) -> sparse.csr_matrix:
    """Sets of labels as CSR float32 (n, L), in the order of `label_names`.

    >>> label_matrix([["b"], [], ["a", "b"]], ["a", "b"]).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """
    column = {name: number for number, name in enumerate(label_names)}
    indices: list[int] = []
    indptr = [0]
    for row, labels in enumerate(label_sets):
        try:
            indices.extend(sorted({column[label] for label in labels}))
        except KeyError as error:
            raise DataError(f"row {row}: the label {error.args[0]!r} is not among the label names") from None
        indptr.append(len(indices))
    shape = (len(indptr) - 1, len(column))
    return sparse.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=shape)


def names_in(label_sets: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All names that occur, sorted."""
    return tuple(sorted(set(chain.from_iterable(label_sets))))


def align(train: Dataset, other: Dataset, part: str, may_share_none: bool = False) -> Dataset:
    """`other` with the labels and features of `train`, in its order.

    A label that training rows do not have is an error. A feature they do not have is dropped; a feature that
    only they have is zero (missing, in a table). Files that share no feature are refused as no pair, unless
    `may_share_none`: new rows may consist of unknown words.
    """
    if other.kind != train.kind:
        raise DataError(
            f"{part}: the rows are of kind {other.kind}, the training rows of kind {train.kind}; "
            "give files of the same form"
        )
    return _align_features(train, align_labels(other, train.label_names, part), part, may_share_none)


def align_labels(data: Dataset, label_names: tuple[str, ...], part: str = "") -> Dataset:
    """The same rows with their label columns in another order; a label that is not there is an error."""
    if data.labels is None or data.label_names == label_names:
        return replace(data, label_names=label_names)
    known = {name: number for number, name in enumerate(label_names)}
    new = [name for name in data.label_names if name not in known]
    if new:
        raise DataError(
            f"{part or data.name}: the label {new[0]!r} never occurs in the training part ({len(new)} such labels); "
            f"remove it or add training rows that have it; {did_you_mean(new[0], known)[:200]}"
        )
    moved = data.labels.tocoo()
    columns = np.array([known[name] for name in data.label_names], dtype=np.int64)
    shape = (len(data), len(label_names))
    labels = sparse.csr_matrix((moved.data, (moved.row, columns[moved.col])), shape=shape)
    return replace(data, labels=labels, label_names=label_names)


def _align_features(train: Dataset, other: Dataset, part: str, may_share_none: bool) -> Dataset:
    if train.kind == "parts":
        return replace(other, rows=align_parts(train.rows, other.rows, part))
    if train.kind == "columns":
        return replace(other, rows=_align_table(train.rows, other.rows, part), feature_names=train.feature_names)
    if train.kind not in ("wordset", "vector"):
        return other
    width, given = train.rows.shape[1], other.rows.shape[1]
    if train.feature_names is None or other.feature_names is None:
        if given == width:
            return replace(other, feature_names=train.feature_names)
        if train.kind == "vector" and not len(other):  # a part that all of these rows lack
            return replace(other, rows=np.zeros((0, width)), feature_names=train.feature_names)
        if train.kind == "vector":
            raise DataError(f"{part}: the rows have {given} numbers, the training rows {width}; they must agree")
        rows = sparse.csr_matrix(other.rows, copy=True)
        rows.resize((len(other), width))
        return replace(other, rows=rows, feature_names=train.feature_names)
    if train.feature_names == other.feature_names:
        return other
    known = {name: number for number, name in enumerate(train.feature_names)}
    if not may_share_none and not any(name in known for name in other.feature_names):
        raise DataError(f"{part}: none of its {given} features is one of the training part's; are the files a pair?")
    columns = np.array([known.get(name, -1) for name in other.feature_names], dtype=np.int64)
    moved = sparse.coo_matrix(other.rows)
    kept = columns[moved.col] >= 0
    shape = (len(other), width)
    rows = sparse.csr_matrix((moved.data[kept], (moved.row[kept], columns[moved.col[kept]])), shape=shape)
    dense: Any = rows.toarray() if train.kind == "vector" else rows
    return replace(other, rows=dense, feature_names=train.feature_names)


def align_parts(train: PartRows, other: PartRows, part: str) -> PartRows:
    """The parts of the training rows, in their order, each with the features of its training rows."""
    there = {one.name: one for one in other.parts}
    aligned = []
    for ours in train.parts:
        theirs = there.get(ours.name)
        if theirs is None and ours.kind == "columns":  # rows that have no plain column at all: all values are missing
            columns = Table(values=np.full((len(other), len(ours.rows.names)), np.nan), names=ours.rows.names)
            theirs = Part(name="", kind="columns", rows=replace(columns, categories=ours.rows.categories))
        if theirs is None or theirs.kind != ours.kind:
            raise DataError(
                f"{part}: the rows lack {ours.called()} ({ours.kind}) of the training part; "
                f"they have {', '.join(repr(name or 'numbers and categories') for name in there)[:300]}"
            )
        as_rows = [
            Dataset(
                name=part, kind=one.kind, rows=one.rows, labels=None, label_names=(), feature_names=one.feature_names
            )
            for one in (ours, theirs)
        ]
        matched = _align_features(as_rows[0], as_rows[1], part, may_share_none=True)
        aligned.append(replace(theirs, rows=matched.rows, feature_names=ours.feature_names))
    return PartRows(tuple(aligned), train.roles)


def _align_table(train: Table, other: Table, part: str) -> Table:
    index = {name: number for number, name in enumerate(other.names)}
    if not any(name in index for name in train.names):
        raise DataError(f"{part}: none of its columns is one of the training part's; are the files a pair?")
    values = np.full((len(other), len(train.names)), np.nan)
    for number, name in enumerate(train.names):
        if name not in index:
            continue
        column = other.values[:, index[name]]
        theirs, ours = other.categories.get(index[name]), train.categories.get(number)
        if (theirs is None) != (ours is None) and len(column[~np.isnan(column)]):
            raise DataError(f"{part}: the column {name!r} holds numbers in one part and words in the other")
        if theirs is not None and ours is not None and theirs != ours:
            # A category never seen in training is a missing value.
            codes = np.array([ours.index(word) if word in ours else np.nan for word in theirs] + [np.nan])
            column = codes[np.where(np.isnan(column), -1, column).astype(np.int64)]
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
