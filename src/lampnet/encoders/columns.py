"""Columns: every column of a table is a node, so that explanations name columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.data.dataset import Table
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array, saved_names
from lampnet.encoders.spectral import word_directions
from lampnet.encoders.vector import LARGEST, dense_numbers, mean_and_spread, saved_mean_and_spread, standardised
from lampnet.errors import DataError


class ColumnVectors(Embedding):
    """z_j = value_j * scale[id_j] + vector[id_j].

    Numeric columns, their missing values and each category have ids; the latter two have the value 0.
    """

    def __init__(self, ids: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Embedding(ids, width)
        self.vector = nn.Embedding(ids, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.ids_BS is not None
        assert batch.values_BS is not None
        z_BSD = self.scale(batch.ids_BS) * batch.values_BS.unsqueeze(-1) + self.vector(batch.ids_BS)
        return z_BSD, batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Principal directions: numeric columns scale theirs, categories and missing values are theirs."""
        assert nodes.ids is not None
        assert nodes.values is not None
        n_ids, width = self.scale.weight.shape
        numeric = np.zeros(n_ids, dtype=bool)
        numeric[nodes.ids[nodes.values != 0]] = True
        values = np.where(numeric[nodes.ids], nodes.values, 1.0).astype(np.float32)
        matrix = sparse.csr_matrix((values, nodes.ids, nodes.offsets), shape=(len(nodes), n_ids), copy=True)
        directions = torch.from_numpy(word_directions(matrix, width, seed))
        own = torch.randn(n_ids, width, generator=torch.Generator().manual_seed(seed)) * 0.3
        is_numeric = torch.from_numpy(numeric)[:, None]
        with torch.no_grad():
            self.scale.weight.copy_(directions)
            self.vector.weight.copy_(torch.where(is_numeric, own, directions))


class ColumnsEncoder(Encoder):
    """Learns means, spreads and categories of the columns from the training rows.

    >>> table = Table(values=np.array([[1.0, 0], [3.0, np.nan]]), names=("size", "colour"),
    ...               categories={1: ("red", "blue")})
    >>> encoder = ColumnsEncoder(InputConfig()).fit(table)
    >>> encoded = encoder.encode(table)
    >>> encoded.node_names(0), encoded.node_names(1)
    (['size', 'colour=red'], ['size', 'colour (missing)'])
    """

    kind = "columns"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.categories: dict[int, tuple[str, ...]] = {}
        self.mean, self.spread = np.zeros(0), np.ones(0)
        self.gaps = np.zeros(0, dtype=np.uint8)  # 1 for columns with a missing value in training

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> ColumnsEncoder:
        table = as_table(rows, feature_names)
        n, columns = table.values.shape
        if n == 0 or columns == 0:
            raise DataError(
                f"a table of shape {table.values.shape} was given; at least one row and one column are needed"
            )
        self.feature_names = table.names
        # Only categories that occur in the training rows get a vector.
        self.categories = {
            column: tuple(names[code] for code in np.unique(_codes(table, column)) if code >= 0)
            for column, names in sorted(table.categories.items())
        }
        self.mean, self.spread = mean_and_spread(table.values)
        self.mean[list(self.categories)] = 0.0
        self.spread[list(self.categories)] = 1.0
        self.gaps = np.isnan(table.values).any(axis=0).astype(np.uint8)
        return self

    def parse(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Standardised values (n, C), 0 where missing or categorical, and the vector ids (n, C)."""
        table = self.checked_table(rows)
        columns = len(self.feature_names)
        missing = np.isnan(table.values)
        values = np.where(missing, np.float32(0), standardised(table.values, self.mean, self.spread))
        ids = np.where(missing, columns, 0) + np.arange(columns)
        first = 2 * columns
        for column, known in self.categories.items():
            ids_of = {name: first + i for i, name in enumerate(known)}
            # A category that training did not see is treated as missing.
            by_code = [ids_of.get(name, columns + column) for name in table.categories[column]]
            ids[:, column] = np.array([*by_code, columns + column])[_codes(table, column)]
            values[:, column] = 0.0
            first += len(known)
        return values, ids

    def nodes_of(self, parsed: tuple[np.ndarray, np.ndarray]) -> NodeRows:
        values, ids = parsed
        n, columns = values.shape
        return NodeRows(
            offsets=np.arange(n + 1, dtype=np.int64) * columns, ids=ids.astype(np.int32).ravel(), values=values.ravel()
        )

    def features_of(self, parsed: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """float32 (n, F): standardised values, 0/1 for missing ones (columns with gaps in training) and categories."""
        values, ids = parsed
        n, columns = values.shape
        features = np.zeros((n, self.n_ids), dtype=np.float32)
        row, column = np.nonzero(ids >= columns)
        features[row, ids[row, column]] = 1.0
        features[:, :columns] = values
        return features[:, self.used_features()]

    def used_features(self) -> np.ndarray:
        """bool (ids,): which of the vector ids are features too."""
        columns = len(self.feature_names)
        used = np.ones(self.n_ids, dtype=bool)
        used[list(self.categories)] = False
        used[columns : 2 * columns] = self.gaps > 0
        return used

    def embedding(self, width: int) -> ColumnVectors:
        return ColumnVectors(self.n_ids, width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        named = self._named_ids()
        return [named[i].name for i in encoded.nodes.ids_of(row)]

    @property
    def n_features(self) -> int:
        return int(self.used_features().sum())

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        """Each with its column as its part."""
        named = self._named_ids()
        return [named[i] for i in np.flatnonzero(self.used_features())[columns]]

    def _named_ids(self) -> list[NamedFeature]:
        """Numbers, missing values and categories, in the order of their ids."""
        named = [NamedFeature(name, name) for name in self.feature_names]
        named += [NamedFeature(f"{name} (missing)", name) for name in self.feature_names]
        for column, known in self.categories.items():
            name = self.feature_names[column]
            named += [NamedFeature(f"{name}={category}", name) for category in known]
        return named

    def node_values(self, encoded: EncodedRows, row: int, dates: Collection[str] = ()) -> list[str]:
        """The columns of one row with their values: `year = 1999`, `country = US`, `size (missing)`.

        dates  the columns whose numbers are seconds since 1970
        """
        values, ids = (array[row] for array in encoded.parsed)
        columns, names = len(self.feature_names), self.node_names(encoded, row)
        for column, name in enumerate(self.feature_names):
            if ids[column] == column:
                number = float(values[column] * self.spread[column] + self.mean[column])
                names[column] = f"{name} = {_day(number) if name in dates else f'{number:.6g}'}"
            elif ids[column] >= 2 * columns:
                names[column] = f"{name} = {names[column][len(name) + 1 :]}"
        return names

    def no_rows(self) -> Table:
        columns = len(self.feature_names)
        return Table(values=np.zeros((0, columns)), names=self.feature_names, categories=self.categories)

    def state(self) -> dict[str, Any]:
        categories = {str(column): list(names) for column, names in self.categories.items()}
        return {"names": list(self.feature_names), "categories": categories}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "spread": self.spread, "gaps": self.gaps}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ColumnsEncoder:
        encoder = cls(config)
        encoder.feature_names = saved_names(state, "names")
        columns = len(encoder.feature_names)
        saved = state.get("categories")
        if columns == 0 or not isinstance(saved, Mapping):
            raise DataError("the saved encoder's columns or categories are missing; the model folder is damaged")
        for key in saved:
            if not (isinstance(key, str) and key.isdecimal() and key.isascii() and int(key) < columns):
                raise DataError(f"the saved categories name column {key!r}, but there are {columns} columns")
            encoder.categories[int(key)] = saved_names(saved, key)
        encoder.categories = dict(sorted(encoder.categories.items()))
        encoder.mean, encoder.spread = saved_mean_and_spread(arrays, columns)
        encoder.gaps = saved_array(arrays, "gaps", "uint8", (columns,))
        return encoder

    @property
    def n_ids(self) -> int:
        return 2 * len(self.feature_names) + sum(len(names) for names in self.categories.values())

    def checked_table(self, rows: Any) -> Table:
        """The rows with the columns of training, in their order."""
        table = as_table(rows, self.feature_names)
        if table.names != self.feature_names:
            extra = [name for name in table.names if name not in self.feature_names]
            lacking = [name for name in self.feature_names if name not in table.names]
            if lacking:
                raise DataError(
                    f"the table lacks the column {lacking[0]!r} ({len(lacking)} in all) that the model was trained on"
                    + (f"; it has {extra[0]!r}, which the model does not know" if extra else "")
                )
            order = [table.names.index(name) for name in self.feature_names]
            categories = {i: table.categories[o] for i, o in enumerate(order) if o in table.categories}
            table = Table(values=table.values[:, order], names=self.feature_names, categories=categories)
        for column in sorted(self.categories.keys() ^ table.categories.keys()):
            if not np.isnan(table.values[:, column]).all():  # an empty column may be of either kind
                kinds = ("categories", "numbers") if column in self.categories else ("numbers", "categories")
                raise DataError(
                    f"column {self.feature_names[column]!r} held {kinds[0]} in training and holds {kinds[1]} now; "
                    "give the same columns"
                )
        return replace(table, categories={column: table.categories.get(column, ()) for column in self.categories})


def _day(seconds: float) -> str:
    """The day of a date, which float32 keeps to within minutes; beyond the calendar, the seconds.

    >>> _day(86_400.0), _day(1e20)
    ('1970-01-02', '1e+20')
    """
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=round(seconds / 3600) * 3600)).date().isoformat()
    except OverflowError:
        return f"{seconds:.6g}"


def as_table(rows: Any, names: Sequence[str] | None = None) -> Table:
    """A `Table` as it is, or a plain array (n, C) with the given or numbered names."""
    if isinstance(rows, Table):
        table = rows
    else:
        values = dense_numbers(rows, "columns must be numbers or a Table with categories")
        if names is not None and len(names) != values.shape[1]:
            raise DataError(f"the rows have {values.shape[1]} columns; {len(names)} were expected")
        table = Table(values=values, names=tuple(names or (f"c{i}" for i in range(values.shape[1]))))
    too_large = np.abs(table.values) > LARGEST
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        value = table.values[row, column]
        found = "infinite" if np.isinf(value) else f"{value:g}, beyond {LARGEST:g}"
        raise DataError(
            f"row {row}, column {table.names[column]!r} is {found}; give a smaller number or leave it empty"
        )
    return table


def _codes(table: Table, column: int) -> np.ndarray:
    """Category codes of a column, -1 where missing."""
    values = table.values[:, column]
    codes = np.where(np.isnan(values), -1, values)
    known = len(table.categories[column])
    bad = np.flatnonzero((codes != np.floor(codes)) | (codes < -1) | (codes >= known))
    if len(bad):
        raise DataError(
            f"row {bad[0]}, column {table.names[column]!r}: the code {codes[bad[0]]:g} stands for none of "
            f"its {known} categories"
        )
    return codes.astype(np.int64)
