"""Rows of any file brought to what a model was trained on: its kind, its features, its labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.dataset import Dataset, Table
from lampnet.fitted import FittedModel
from lampnet.readers.alignment import align


def match_rows(model: FittedModel, data: Dataset, part: str = "") -> Dataset:
    """The same rows with the model's features and labels, in its order.

    Features that training did not have are dropped, those that are missing are zero (a missing value, in a
    table). A label that training did not have is an error, as is another kind of rows.
    """
    part = part or data.name
    data = _as_kind(data, model.encoder.kind)
    if data.kind != model.encoder.kind:
        return model.check(data)  # raises, with both kinds in the sentence
    if data.labels is None:
        data = replace(data, label_names=model.label_names)
    aligned = align(_training_shape(model), data, part)
    return model.check(aligned)


def _as_kind(data: Dataset, kind: str) -> Dataset:
    """Numbers are numbers: a table without categories, an array and a sparse matrix can stand for one another."""
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
    encoder: Any = model.encoder
    rows: Any = []
    names = None
    if encoder.kind == "wordset":
        names = encoder.names
        rows = sparse.csr_matrix((0, len(names)), dtype=np.float32)
    elif encoder.kind == "vector":
        rows = np.zeros((0, len(encoder.mean)), dtype=np.float32)
    elif encoder.kind == "columns":
        names = encoder.names
        rows = Table(values=np.zeros((0, len(names))), names=names, categories=encoder.categories)
    elif encoder.kind == "dna":
        rows = np.zeros((0, 0), dtype=np.uint8)
    labels = sparse.csr_matrix((0, len(model.label_names)), dtype=np.float32)
    return Dataset(
        name="training", kind=encoder.kind, rows=rows, labels=labels, label_names=model.label_names, feature_names=names
    )
