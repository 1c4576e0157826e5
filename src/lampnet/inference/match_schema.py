"""Rows of any file brought to what a model was trained on: its kind, its features, its labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.known_labels import States, read_known
from lampnet.data.parts import PartRows
from lampnet.data.schema import align
from lampnet.errors import DataError
from lampnet.inference.predictor import FittedModel
from lampnet.readers.column_roles import roles_as_given
from lampnet.readers.sources import Source
from lampnet.readers.trained_columns import KnownColumns


def as_trained(model: FittedModel, source: Source, unlabelled: bool = False) -> Source:
    """The same source, its tables read as the training's were: what columns are for is not guessed again.

    unlabelled : labels are not looked at
    """
    if source.named:
        return source
    trained_on = model.metadata.get("source")
    columns = trained_on.get("columns") if isinstance(trained_on, dict) else None
    roles = {role: value for role, value in columns.items() if _is_named(value)} if isinstance(columns, dict) else {}
    names, rows = model.encoder.feature_names, model.encoder.no_rows()
    if model.encoder.kind == "parts":
        roles = {
            role: value for role, value in roles.items() if role in ("labels", "separator", "id", "known", "encoding")
        }
        roles |= roles_as_given(model.encoder.roles)
    if names:
        roles["features"] = names
    if isinstance(rows, Table):
        roles["categories"] = tuple(names[number] for number in rows.categories)
    return replace(source, known=KnownColumns(roles=roles, label_names=model.label_names, unlabelled=unlabelled))


def _is_named(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def moves_of(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """What became of labels that were renamed, merged or (None) dropped since the training, out of a model folder.

    >>> moves_of({"label_moves": {"italy": "Italy", "misc": None, "odd": 5}}), moves_of({})
    ({'italy': 'Italy', 'misc': None}, {})
    """
    moves = metadata.get("label_moves")
    pairs = moves.items() if isinstance(moves, dict) else ()
    return {old: new for old, new in pairs if isinstance(old, str) and (new is None or isinstance(new, str))}


def with_label_edits(model: FittedModel, data: Dataset) -> tuple[Dataset, str]:
    """Rows that were labelled before labels were renamed, merged or dropped, with the labels of today; and what to say.

    A merged label is true where any of its parts is, and unknown where none is and one is unknown.
    """
    moves, shown = moves_of(model.metadata), set(model.label_names)
    if data.labels is None:
        return data, ""
    moved = {name: moves[name] for name in data.label_names if name not in shown and name in moves}
    moved = {old: new for old, new in moved.items() if new is None or new in shown}
    if not moved:
        return data, ""
    names = tuple(dict.fromkeys(new for old in data.label_names if (new := moved.get(old, old)) is not None))
    place, given = {name: number for number, name in enumerate(names)}, data.labels.tocoo()
    target = np.array([place[new] if (new := moved.get(old, old)) is not None else -1 for old in data.label_names])
    kept = target[given.col] >= 0
    rows, columns, values = given.row[kept], target[given.col][kept], given.data[kept]
    shape = (len(data), len(names))
    ones, unknown = (
        sparse.csr_matrix((np.ones(int(some.sum())), (rows[some], columns[some])), shape=shape) > 0
        for some in (values == 1, np.isnan(values))
    )
    labels = sparse.csr_matrix(ones, dtype=np.float32)
    left = (unknown > ones).tocoo()
    labels = labels + sparse.csr_matrix(
        (np.full(left.nnz, np.nan, dtype=np.float32), (left.row, left.col)), shape=shape
    )
    said = ", ".join(f"{old!r} is dropped" if new is None else f"{old!r} is {new!r}" for old, new in moved.items())
    sentence = f"{data.name}: labels as they were before the model's were edited: {said[:400]}"
    return replace(data, labels=labels, label_names=names), sentence


def match_rows(model: FittedModel, data: Dataset, part: str = "") -> Dataset:
    """The same rows with the model's features and labels, in its order.

    Features that training did not have are dropped, those that are missing are zero (a missing value, in a
    table, and a warning). A label that training did not have is an error, as is another kind of rows.
    """
    part = part or data.name
    data = _as_kind(data, model.encoder.kind)
    if data.kind != model.encoder.kind:
        return model.check(data)  # raises, with both kinds in the sentence
    if data.labels is None:
        data = replace(data, label_names=model.label_names)
    aligned = align(_training_shape(model), data, part, may_share_none=True)
    ours, theirs = (rows.table() if isinstance(rows, PartRows) else rows for rows in (aligned.rows, data.rows))
    if isinstance(ours, Table):
        there = set(theirs.names) if isinstance(theirs, Table) else set()
        lacking = [name for name in ours.names if name not in there]
        if lacking:
            warnings.warn(
                f"{part}: {len(lacking)} column(s) of the training are not there and count as missing values: "
                f"{', '.join(lacking)[:300]}",
                stacklevel=2,
            )
    return model.check(aligned)


def known_states(model: FittedModel, data: Dataset) -> States | None:
    """What the rows say of their labels beforehand; None where no row says anything."""
    if data.known is None:
        return None
    try:
        return read_known(data.known, model.label_names, len(data))
    except DataError as fault:
        raise DataError(f"{data.name}: {fault}") from None


def _as_kind(data: Dataset, kind: str) -> Dataset:
    """Numbers are numbers: a table without categories, an array and a sparse matrix can stand for one another."""
    if data.kind == "parts" and kind == "columns" and len(data.rows.parts) == 1 and data.rows.table() is not None:
        return replace(data, kind=kind, rows=data.rows.table())
    if data.kind == kind or data.kind not in ("columns", "vector", "wordset"):
        return data
    rows: Any = data.rows
    names = data.feature_names
    if isinstance(rows, Table):
        if rows.categories:
            return data
        rows, names = rows.values, rows.names
    elif sparse.issparse(rows):
        rows = rows.toarray()
    if kind == "vector":
        return replace(data, kind=kind, rows=np.asarray(rows, dtype=np.float32), feature_names=names)
    if kind == "wordset":
        return replace(data, kind=kind, rows=sparse.csr_matrix(rows, dtype=np.float32), feature_names=names)
    if kind == "columns":
        names = names or tuple(f"c{i}" for i in range(rows.shape[1]))
        return replace(data, kind=kind, rows=Table(values=np.asarray(rows, dtype=np.float64), names=names))
    return data


def _training_shape(model: FittedModel) -> Dataset:
    """No rows, but the features and labels of the rows that the model was trained on."""
    return Dataset(
        name="training",
        kind=model.encoder.kind,
        rows=model.encoder.no_rows(),
        labels=sparse.csr_matrix((0, len(model.label_names)), dtype=np.float32),
        label_names=model.label_names,
        feature_names=model.encoder.feature_names or None,
    )
