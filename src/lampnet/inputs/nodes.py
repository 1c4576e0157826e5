"""Nodes: what every input kind is encoded to.

`NodeRows` holds all rows of a data set as ragged NumPy arrays (values + offsets; they may be
memory-mapped). `NodeBatch` is a padded torch view of a few rows, made for one step of the model.

Axes: B rows of a batch, S input nodes, F numbers a node, P position coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.errors import DataError


@dataclass(frozen=True, kw_only=True)
class NodeRows:
    """Rows as ragged nodes: row r owns nodes offsets[r]:offsets[r + 1].

    ids         int32 (N,)     which vector a node starts from (a word, a column, an atom type)
    values      float32 (N,)   what that vector is multiplied with
    vectors     float32 or uint8 (N, F)  numbers of a node that has no id (patches, bases)
    positions   int32 (N, P)   places for the sinusoidal encoding
    edges       int32 (E, 3)   from node, to node (both counted inside the row), edge type
    edge_offsets int64 (n + 1,)  row r owns edges edge_offsets[r]:edge_offsets[r + 1]
    """

    offsets: np.ndarray
    ids: np.ndarray | None = None
    values: np.ndarray | None = None
    vectors: np.ndarray | None = None
    positions: np.ndarray | None = None
    edges: np.ndarray | None = None
    edge_offsets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self) -> np.ndarray:
        """Nodes of each row, int64 (n,)."""
        return np.diff(self.offsets)

    def batch(self, index: np.ndarray) -> NodeBatch:
        """The rows with these numbers, padded to the longest of them."""
        starts, lengths = self.offsets[index], self.offsets[index + 1] - self.offsets[index]
        width = max(1, int(lengths.max(initial=0)))
        place = np.arange(width)
        present_BS = place < lengths[:, None]
        # Absent places point at node 0 and are masked; a take with clipping is faster than a loop.
        flat_BS = np.where(present_BS, starts[:, None] + place, 0)

        def pad(values: np.ndarray | None) -> Tensor | None:
            if values is None:
                return None
            if not len(values):
                shape = (*flat_BS.shape, *values.shape[1:])
                return torch.zeros(shape, dtype=torch.from_numpy(values[:0].copy()).dtype)
            return torch.from_numpy(np.ascontiguousarray(values[flat_BS]))

        ids = pad(self.ids)
        return NodeBatch(
            present_BS=torch.from_numpy(present_BS),
            ids_BS=None if ids is None else ids.long(),
            values_BS=pad(self.values),
            vectors_BSF=pad(self.vectors),
            positions_BSP=pad(self.positions),
            edge_types_BSS=self._edge_types(index, width),
        )

    def _edge_types(self, index: np.ndarray, width: int) -> Tensor | None:
        """int8 (B, S, S): 0 = no edge, k + 1 = an edge of type k from the second node to the first."""
        if self.edges is None or self.edge_offsets is None:
            return None
        types = np.zeros((len(index), width, width), dtype=np.int8)
        for b, row in enumerate(index):
            pairs = self.edges[self.edge_offsets[row] : self.edge_offsets[row + 1]]
            types[b, pairs[:, 1], pairs[:, 0]] = pairs[:, 2] + 1
        return torch.from_numpy(types)

    @classmethod
    def from_csr(cls, matrix: sparse.csr_matrix) -> NodeRows:
        """Active features as nodes: ids are column numbers, values the entries."""
        return cls(
            offsets=matrix.indptr.astype(np.int64),
            ids=matrix.indices.astype(np.int32),
            values=matrix.data.astype(np.float32),
        )


@dataclass(frozen=True, kw_only=True)
class NodeBatch:
    """A few rows, padded; `present_BS` is False where a row has no node."""

    present_BS: Tensor
    ids_BS: Tensor | None = None
    values_BS: Tensor | None = None
    vectors_BSF: Tensor | None = None
    positions_BSP: Tensor | None = None
    edge_types_BSS: Tensor | None = None

    def __len__(self) -> int:
        return int(self.present_BS.shape[0])


class Encoder(Protocol):
    """One input kind: what it learned from the training rows, and how it makes nodes.

    An encoder is fitted once, on training rows only, and saved with the model as JSON (`state`)
    and named arrays (`arrays`); `restore` makes it again from both.
    """

    kind: str

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> Encoder: ...

    def encode(self, rows: Any) -> NodeRows: ...

    def linear_features(self, rows: Any) -> sparse.csr_matrix | np.ndarray:
        """(n, F) numbers a linear model can learn from (tf-idf, k-mers, fingerprints, ...)."""
        ...

    def embedding(self, width: int) -> nn.Module:
        """W^x: a module from NodeBatch to (z_BSD, present_BS, edge_types_BSS or None)."""
        ...

    def node_names(self, rows: Any, row: int) -> list[str]:
        """What a person calls the nodes of one row, in the order of `encode`."""
        ...

    def state(self) -> dict[str, Any]: ...

    def arrays(self) -> dict[str, np.ndarray]: ...


def sinusoidal(positions_BSP: Tensor, width: int) -> Tensor:
    """Sine and cosine place codes (B, S, D); several coordinates share the width equally."""
    coordinates = positions_BSP.shape[-1]
    share = width // coordinates // 2 * 2
    if share == 0:
        raise DataError(f"a width of {width} is too small for {coordinates} position coordinates")
    rates = torch.exp(torch.arange(0, share, 2) * (-np.log(10_000.0) / share))
    angles = positions_BSP.unsqueeze(-1).float() * rates  # (B, S, P, share / 2)
    codes = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-3)  # (B, S, P * share)
    return nn.functional.pad(codes, (0, width - codes.shape[-1]))
