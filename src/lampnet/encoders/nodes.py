"""Nodes: what every input kind is encoded to.

`NodeRows` holds all rows of a data set as ragged NumPy arrays (they may be memory-mapped), `NodeBatch` a few of
them as padded tensors.

Axes: B rows of a batch, S input nodes, F numbers per node, P position coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.errors import DataError
from lampnet.runtime.random_bytes import RandomBytes

#: the arrays of `NodeRows`
ARRAYS = ("offsets", "ids", "values", "vectors", "positions", "edges", "edge_offsets")
#: which of them each row owns a run of, and where the runs begin
_OWNED = (("offsets", ("ids", "values", "vectors", "positions")), ("edge_offsets", ("edges",)))


@dataclass(frozen=True, kw_only=True)
class NodeRows:
    """Rows as ragged nodes: row r owns nodes offsets[r]:offsets[r + 1] and edges likewise, by edge_offsets."""

    offsets: np.ndarray  # int64 (n + 1,)
    ids: np.ndarray | None = None  # int32 (N,): which vector a node starts from (a word, a column, an atom type)
    values: np.ndarray | None = None  # float32 (N,): what that vector is multiplied with
    vectors: np.ndarray | None = None  # float32 or uint8 (N, F): numbers of a node without id (patches, bases)
    positions: np.ndarray | None = None  # int32 (N, P): coordinates for the sinusoidal encoding
    edges: np.ndarray | None = None  # int32 (E, 3): from node, to node (both counted inside the row), edge type
    edge_offsets: np.ndarray | None = None  # int64 (n + 1,)
    #: rows of several parts: the nodes of each part for the same n rows; `offsets` then counts them all
    parts: tuple[NodeRows, ...] = ()

    @classmethod
    def of_parts(cls, parts: Sequence[NodeRows]) -> NodeRows:
        """The nodes of several parts of the same rows together, part after part in each row.

        >>> one = NodeRows(offsets=np.array([0, 2, 2]), ids=np.array([7, 8], dtype=np.int32))
        >>> NodeRows.of_parts([one, one]).lengths().tolist()
        [4, 0]
        """
        offsets = np.stack([part.offsets for part in parts]).sum(axis=0)
        return cls(offsets=offsets.astype(np.int64), parts=tuple(parts))

    def spread(self, rows: np.ndarray, n: int) -> NodeRows:
        """These rows as the given (rising) ones of n rows, of which the others have no node.

        >>> NodeRows(offsets=np.array([0, 2])).spread(np.array([1]), 3).offsets.tolist()
        [0, 0, 2, 2]
        """
        begins = np.searchsorted(rows, np.arange(n + 1))
        edge_offsets = None if self.edge_offsets is None else self.edge_offsets[begins]
        return replace(self, offsets=self.offsets[begins], edge_offsets=edge_offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self) -> np.ndarray:
        """Nodes of each row, int64 (n,)."""
        return np.diff(self.offsets)

    def ids_of(self, row: int) -> np.ndarray:
        """The ids of one row's nodes, int32 (S,)."""
        assert self.ids is not None
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def take(self, index: np.ndarray) -> NodeRows:
        """The rows with these numbers, in this order, copied.

        >>> words = NodeRows(offsets=np.array([0, 2, 3]), ids=np.array([7, 8, 9], dtype=np.int32))
        >>> words.take(np.array([1, 0])).ids.tolist()
        [9, 7, 8]
        """
        taken: dict[str, np.ndarray] = {}
        for offsets, names in _OWNED:
            old = getattr(self, offsets)
            if old is None:
                continue
            starts, counts = old[index], old[index + 1] - old[index]
            taken[offsets] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            moved = np.repeat(starts - taken[offsets][:-1], counts) + np.arange(taken[offsets][-1])
            taken |= {name: getattr(self, name)[moved] for name in names if getattr(self, name) is not None}
        return NodeRows(**taken, parts=tuple(part.take(index) for part in self.parts))

    @classmethod
    def joined(cls, parts: Sequence[NodeRows]) -> NodeRows:
        """The rows of several, one below the other.

        >>> one = NodeRows(offsets=np.array([0, 2]), ids=np.array([7, 8], dtype=np.int32))
        >>> NodeRows.joined([one, one]).offsets.tolist()
        [0, 2, 4]
        """
        whole: dict[str, np.ndarray] = {}
        for offsets, names in _OWNED:
            if getattr(parts[0], offsets) is None:
                continue
            counts = np.concatenate([np.diff(getattr(part, offsets)) for part in parts])
            whole[offsets] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            for name in names:
                if getattr(parts[0], name) is not None:
                    whole[name] = np.concatenate([getattr(part, name) for part in parts])
        return cls(**whole, parts=tuple(map(cls.joined, zip(*(rows.parts for rows in parts), strict=True))))

    def batch(self, index: np.ndarray) -> NodeBatch:
        """The rows with these numbers, padded to the longest of them."""
        starts, lengths = self.offsets[index], self.offsets[index + 1] - self.offsets[index]
        width = max(1, int(lengths.max(initial=0)))
        column = np.arange(width)
        present_BS = column < lengths[:, None]
        # Padding points at node 0 and is masked; one gather is faster than a loop.
        flat_BS = np.where(present_BS, starts[:, None] + column, 0)

        def pad(values: np.ndarray | None) -> Tensor | None:
            if values is None:
                return None
            padded = values[flat_BS] if len(values) else np.zeros((*flat_BS.shape, *values.shape[1:]), values.dtype)
            return torch.from_numpy(np.ascontiguousarray(padded))

        ids = pad(self.ids)
        return NodeBatch(
            present_BS=torch.from_numpy(present_BS),
            ids_BS=None if ids is None else ids.long(),
            values_BS=pad(self.values),
            vectors_BSF=pad(self.vectors),
            positions_BSP=pad(self.positions),
            edge_types_BSS=self._edge_types(index, width),
            parts=tuple(part.batch(index) for part in self.parts),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name, those of the parts as `part0.ids` and so on."""
        own = {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}
        for number, part in enumerate(self.parts):
            own |= {f"part{number}.{name}": array for name, array in part.arrays().items()}
        return own

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NodeRows:
        """What `arrays` gave.

        >>> words = NodeRows(offsets=np.array([0, 1]), ids=np.array([5], dtype=np.int32))
        >>> NodeRows.from_arrays(NodeRows.of_parts([words, words]).arrays()).parts[1].ids.tolist()
        [5]
        """
        parts: list[NodeRows] = []
        while f"part{len(parts)}.offsets" in arrays:
            before = f"part{len(parts)}."
            own: dict[str, Any] = {name: arrays[before + name] for name in ARRAYS if before + name in arrays}
            parts.append(cls(**own))
        whole: dict[str, Any] = {name: arrays[name] for name in ARRAYS if name in arrays}
        return cls(**whole, parts=tuple(parts))

    def _edge_types(self, index: np.ndarray, width: int) -> Tensor | None:
        """int8 (B, S, S): 0 = no edge, k + 1 = an edge of type k from the second node to the first."""
        if self.edges is None or self.edge_offsets is None:
            return None
        types = np.zeros((len(index), width, width), dtype=np.int8)
        starts, counts = self.edge_offsets[index], self.edge_offsets[index + 1] - self.edge_offsets[index]
        row_E = np.repeat(np.arange(len(index)), counts)
        inside_E = np.arange(len(row_E)) - np.repeat(np.cumsum(counts) - counts, counts)
        edges = self.edges[np.repeat(starts, counts) + inside_E]
        types[row_E, edges[:, 1], edges[:, 0]] = edges[:, 2] + 1
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
    parts: tuple[NodeBatch, ...] = ()  # rows of several parts: the nodes of each

    def __len__(self) -> int:
        return int(self.present_BS.shape[0])

    def with_node_dropout(self, chance: float, random: RandomBytes) -> NodeBatch:
        """Node dropout: each node goes with the given chance, but never the last one of a row (or of its part).

        Kept nodes move together, in their order; the batch shrinks to its longest row, which saves time.
        """
        if chance <= 0:
            return self
        if self.parts:
            return replace(self, parts=tuple(part.with_node_dropout(chance, random) for part in self.parts))
        keep_BS = self.present_BS & random.keep(tuple(self.present_BS.shape), chance)
        lost = torch.nonzero(self.present_BS.any(1) & ~keep_BS.any(1)).squeeze(1)
        if len(lost):
            bits = random.keep((8, len(lost)), 0.5).long()
            byte = (bits * (2 ** torch.arange(8))[:, None]).sum(0)
            chosen = byte * self.present_BS[lost].sum(1) // 256  # which of the row's nodes survives
            rank = self.present_BS[lost].long().cumsum(1) - 1
            keep_BS[lost] = self.present_BS[lost] & (rank == chosen[:, None])
        width = max(1, int(keep_BS.sum(1).max()))
        order_BS = torch.sort((~keep_BS).to(torch.uint8), dim=1, stable=True).indices[:, :width]

        def move(x: Tensor | None) -> Tensor | None:
            if x is None:
                return None
            index = order_BS if x.ndim == 2 else order_BS.unsqueeze(-1).expand(-1, -1, x.shape[-1])
            return x.gather(1, index)

        kept_BS, edge_types = keep_BS.gather(1, order_BS), move(self.edge_types_BSS)
        if edge_types is not None:
            edge_types = edge_types.gather(2, order_BS.unsqueeze(1).expand(-1, width, -1))
            edge_types = edge_types * (kept_BS.unsqueeze(1) & kept_BS.unsqueeze(2))
        return NodeBatch(
            present_BS=kept_BS,
            ids_BS=move(self.ids_BS),
            values_BS=move(self.values_BS),
            vectors_BSF=move(self.vectors_BSF),
            positions_BSP=move(self.positions_BSP),
            edge_types_BSS=edge_types,
        )


def with_edges(nodes: NodeRows, row_edges: Sequence[np.ndarray]) -> NodeRows:
    """The same nodes with a known feature graph: messages pass both ways along each given pair.

    row_edges  n int arrays (E, 2): pairs of nodes, counted inside their row

    >>> nodes = NodeRows(offsets=np.array([0, 3]), ids=np.arange(3, dtype=np.int32))
    >>> with_edges(nodes, [np.array([[0, 2]])]).batch(np.array([0])).edge_types_BSS[0].tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    if len(row_edges) != len(nodes):
        raise DataError(f"{len(nodes)} rows were given with {len(row_edges)} lists of edges; give one list per row")
    lengths = nodes.lengths()
    parts = [np.zeros((0, 3), dtype=np.int32)]
    for row, given in enumerate(row_edges):
        pairs = np.asarray(given)
        if pairs.size == 0:
            pairs = np.zeros((0, 2), dtype=np.int32)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise DataError(
                f"row {row}: edges of shape {pairs.shape} and type {pairs.dtype} were given; "
                "give whole numbers of shape (E, 2), one pair of nodes per edge"
            )
        if len(pairs) and (pairs.min() < 0 or pairs.max() >= lengths[row]):
            raise DataError(
                f"row {row}: an edge names node {pairs.min() if pairs.min() < 0 else pairs.max()}, "
                f"but the row has {lengths[row]} nodes, counted from 0"
            )
        both = np.concatenate([pairs, pairs[:, ::-1]])
        parts.append(np.column_stack([both, np.zeros(len(both), dtype=both.dtype)]).astype(np.int32))
    offsets = np.cumsum([len(part) for part in parts]).astype(np.int64)
    return replace(nodes, edges=np.concatenate(parts), edge_offsets=offsets)


def sinusoidal(positions_BSP: Tensor, width: int) -> Tensor:
    """Sine and cosine position codes (B, S, D); several coordinates share the width equally."""
    coordinates = positions_BSP.shape[-1]
    share = width // coordinates // 2 * 2
    if share == 0:
        raise DataError(f"a width of {width} is too small for {coordinates} position coordinates")
    rates = torch.exp(torch.arange(0, share, 2) * (-np.log(10_000.0) / share))
    angles = positions_BSP.unsqueeze(-1).float() * rates  # (B, S, P, share / 2)
    codes = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-3)  # (B, S, P * share)
    return nn.functional.pad(codes, (0, width - codes.shape[-1]))
