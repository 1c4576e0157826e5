"""What all kinds of rows have in common in a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows
from lampnet.export.graph import Graph, Value
from lampnet.export.nodes import Nodes

Arrays = dict[str, np.ndarray]


@dataclass
class RowInput(ABC):
    """One kind of rows: its inputs are declared when something asks for what is made of them.

    name  stands before the names of the inputs, for a part of a row
    """

    graph: Graph
    encoder: Any
    name: str = ""

    def input(self, name: str, kind: Any, *dims: int | str) -> Value:
        """An input of the rows; unknown sizes of parts differ."""
        own = tuple(f"{self.name}{size}" if isinstance(size, str) and size != "rows" else size for size in dims)
        return self.graph.input(self.name + name, kind, own)

    def zeros(self, rows: Value, size: int) -> Value:
        """float32 (B, size): as many rows as these."""
        return self.graph.filled(self.graph.joined([rows.size(0), np.array([size], np.int64)], 0), 0, np.float32)

    def counts(self, numbers_BS: Value, size: int) -> Value:
        """How often each number occurs in each row, float32 (B, size); negative ones do not count."""
        counts_them = numbers_BS > np.int64(-1)
        empty = self.zeros(numbers_BS, size)
        places = self.graph.where(counts_them, numbers_BS, np.int64(0))
        return self.graph.scattered(empty, places, counts_them.cast(np.float32), add=True)

    @abstractmethod
    def views(self) -> list[Nodes]:
        """The nodes, and those of the other view where the kind has one."""

    @property
    @abstractmethod
    def features(self) -> Value:
        """(B, F), dense."""

    def has_nodes(self) -> Value | None:
        """bool (B,); None where every row has a node."""
        return None

    @abstractmethod
    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        """What stands for these rows at the graph's inputs, without the name of the part."""

    def metadata(self) -> dict[str, Any]:
        """What a program without lampnet needs to make the inputs."""
        return {}
