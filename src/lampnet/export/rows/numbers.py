"""Vectors, and tables of numbers and categories."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows
from lampnet.encoders.vector import FARTHEST, numbers_of
from lampnet.export.graph import Graph, Value
from lampnet.export.nodes import Nodes
from lampnet.export.rows.base import Arrays, RowInput


class VectorInput(RowInput):
    """The numbers as they are."""

    @cached_property
    def features(self) -> Value:
        numbers = self.input("numbers", np.float64, "rows", len(self.encoder.mean))
        return _standardised(self.graph, numbers, self.encoder)

    def views(self) -> list[Nodes]:
        return [Nodes(vectors_BSF=self.features.unsqueezed(1))]

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        return {"numbers": numbers_of(rows)}


class ColumnsInput(RowInput):
    """A number for each column; of a category its place among those in the metadata; NaN where missing or unknown."""

    @cached_property
    def parsed(self) -> tuple[Value, Value]:
        """Standardised values (B, C), 0 where missing or a category, and vector ids (B, C)."""
        graph, encoder = self.graph, self.encoder
        columns = len(encoder.feature_names)
        numbers = self.input("numbers", np.float64, "rows", columns)
        missing = graph.op("IsNaN", numbers)
        numbers = graph.where(missing, np.float64(0), numbers)
        is_category, first = np.zeros(columns, bool), np.arange(columns)
        begin = 2 * columns
        for column, names in encoder.categories.items():
            is_category[column], first[column] = True, begin
            begin += len(names)
        values = graph.where(missing | is_category[None], np.float32(0), _standardised(graph, numbers, encoder))
        code = graph.where(graph.value(is_category[None]), numbers, np.float64(0)).cast(np.int64)
        return values, graph.where(missing, columns + np.arange(columns)[None], code + first[None])

    def views(self) -> list[Nodes]:
        values, ids = self.parsed
        return [Nodes(ids_BS=ids, values_BS=values)]

    @cached_property
    def features(self) -> Value:
        values, ids = self.parsed
        graph, columns = self.graph, len(self.encoder.feature_names)
        empty = self.zeros(ids, self.encoder.n_ids)
        there = graph.scattered(empty, ids, (ids > np.int64(columns - 1)).cast(np.float32), add=True)
        every = graph.joined([values, there.sliced(columns, self.encoder.n_ids, 1)], axis=1)
        return every.taken(np.flatnonzero(self.encoder.used_features()), axis=1)

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        table = self.encoder.checked_table(rows)
        numbers = np.array(table.values, np.float64)
        for column, names in self.encoder.categories.items():
            place = {name: float(number) for number, name in enumerate(names)}
            known = np.array([*(place.get(name, np.nan) for name in table.categories[column]), np.nan])
            codes = numbers[:, column]
            numbers[:, column] = known[np.where(np.isnan(codes), len(known) - 1, codes).astype(np.int64)]
        return {"numbers": numbers}

    def metadata(self) -> dict[str, Any]:
        encoder = self.encoder
        categories = {encoder.feature_names[column]: list(names) for column, names in encoder.categories.items()}
        return {"columns": list(encoder.feature_names), "categories": categories}


def _standardised(graph: Graph, numbers: Value, encoder: Any) -> Value:
    scaled = (numbers - encoder.mean) / encoder.spread
    return graph.op("Max", graph.op("Min", scaled, np.float64(FARTHEST)), np.float64(-FARTHEST)).cast(np.float32)
