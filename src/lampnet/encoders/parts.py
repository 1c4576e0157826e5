"""Rows of several parts: each is encoded by its own encoder, and all their nodes stand in one graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.data.parts import COLUMN_KINDS, Part, PartRows
from lampnet.encoders import make_encoder, restore_encoder
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.columns import ColumnsEncoder
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array
from lampnet.encoders.text import NoWords
from lampnet.errors import DataError

#: rows that show how long the features of a part are
SAMPLE_ROWS = 1_000
MOST_PARTS = 1_000


class PartVectors(Embedding):
    """z_j = W^x of the node's part (as that kind of input alone has it) + the vector of the part.

    plain_edge  the type of the edges that join everything but nodes whose part has a graph of its own; 0 for none
    """

    def __init__(self, embeddings: Sequence[Embedding], width: int, plain_edge: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(embeddings)
        self.vectors = nn.Parameter(torch.zeros(len(embeddings), width))
        nn.init.normal_(self.vectors, std=0.1)
        self.plain_edge = plain_edge
        # Rows lose nodes part by part, so one part whose nodes need each other keeps them all.
        self.allows_node_dropout = all(embedding.allows_node_dropout for embedding in embeddings)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        parts = [embedding(part) for embedding, part in zip(self.embeddings, batch.parts, strict=True)]
        z_BSD = torch.cat([z + vector for (z, _, _), vector in zip(parts, self.vectors, strict=True)], dim=1)
        present_BS = torch.cat([present for _, present, _ in parts], dim=1)
        # Padding ends every part: the nodes of a row move together, in their order.
        width = max(1, int(present_BS.sum(1).max())) if len(present_BS) else 1
        order_BS = torch.sort((~present_BS).to(torch.uint8), dim=1, stable=True).indices[:, :width]
        moved_BSD = z_BSD.gather(1, order_BS.unsqueeze(-1).expand(-1, -1, z_BSD.shape[-1]))
        return moved_BSD, present_BS.gather(1, order_BS), self._edges(parts, order_BS)

    def _edges(self, parts: Sequence[tuple[Tensor, Tensor, Tensor | None]], order_BS: Tensor) -> Tensor | None:
        """Edges of the parts that have a graph; every other pair of nodes is joined by a plain edge."""
        if all(edges is None for _, _, edges in parts):
            return None
        present_BS = torch.cat([present for _, present, _ in parts], dim=1)
        edges_BSS = (present_BS.unsqueeze(1) & present_BS.unsqueeze(2)).to(torch.int8) * (self.plain_edge + 1)
        first = 0
        for _, present, edges in parts:
            last = first + present.shape[1]
            if edges is not None:
                edges_BSS[:, first:last, first:last] = edges
            first = last
        rows = edges_BSS.gather(1, order_BS.unsqueeze(-1).expand(-1, -1, edges_BSS.shape[-1]))
        return rows.gather(2, order_BS.unsqueeze(1).expand(-1, rows.shape[1], -1))

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Each part as it starts alone; the parts' vectors start small."""
        for embedding, part in zip(self.embeddings, nodes.parts, strict=True):
            assert isinstance(embedding, Embedding)
            embedding.spectral_start(part, seed)


class PartsEncoder(Encoder):
    """An encoder for each part, fitted on the rows that have it; a row without a part has no node of it.

    >>> title = Part(name="title", kind="text", rows=["red sea", "blue sea"])
    >>> plot = Part(name="plot", kind="text", rows=["a storm"], where=np.array([-1, 0]))
    >>> rows = PartRows((title, plot), (("title", "text"), ("plot", "text")))
    >>> encoded = PartsEncoder(InputConfig(min_count=1)).fit(rows).encode(rows)
    >>> encoded.node_names(0), encoded.node_names(1)
    (['title: sea', 'title: red'], ['title: sea', 'title: blue', 'plot: a', 'plot: storm'])
    """

    kind = "parts"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.names: tuple[str, ...] = ()  # of the P parts
        self.part_encoders: tuple[Encoder, ...] = ()
        self.scale = np.ones(0, dtype=np.float32)  # (P,): what the features of each part are multiplied with

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> PartsEncoder:
        self.roles = _checked(rows).roles
        if len(rows) == 0:
            raise DataError("rows of several parts were given without any training row; give at least one")
        fitted: list[tuple[str, Encoder, float]] = []
        for part in rows.parts:
            if not len(part.present()):
                warnings.warn(f"no training row has {part.called()}; it is not used", UserWarning, stacklevel=2)
                continue
            try:
                encoder = make_encoder(part.kind, self.config).fit(part.rows, part.feature_names)
            except NoWords as reason:
                warnings.warn(f"{part.called()} is not used: {reason}", UserWarning, stacklevel=2)
                continue
            except DataError as fault:
                raise _named(fault, part) from None
            fitted.append((part.name, encoder, _unit_scale(encoder, part)))
        if not fitted:
            raise DataError("no part of the training rows can be learned from; give more rows, or other columns")
        self.names = tuple(name for name, _, _ in fitted)
        self.part_encoders = tuple(encoder for _, encoder, _ in fitted)
        self.scale = np.array([scale for _, _, scale in fitted], dtype=np.float32)
        self._settle()
        return self

    def _settle(self) -> None:
        types = max(encoder.edge_types for encoder in self.part_encoders)
        self.edge_types = types + 1 if types else 0

    def encode(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> EncodedRows:
        if row_edges is not None:
            raise DataError("a feature graph was given for rows of several parts; it works with rows of one part only")
        return super().encode(rows)

    def parse(self, rows: Any) -> list[tuple[Part, EncodedRows]]:
        """Each part with its rows parsed, in the order of `names`."""
        there = {part.name: part for part in _checked(rows).parts}
        parsed = []
        for name, encoder in zip(self.names, self.part_encoders, strict=True):
            part = there.get(name)
            if part is None or part.kind != encoder.kind:
                found = "is not there" if part is None else f"is of kind {part.kind}, in training it was {encoder.kind}"
                raise DataError(f"the part {name!r} of the rows {found}; give the parts that the model was trained on")
            try:
                parsed.append((part, encoder.encode(part.rows)))
            except DataError as fault:
                raise _named(fault, part) from None
        return parsed

    def nodes_of(self, parsed: list[tuple[Part, EncodedRows]]) -> NodeRows:
        return NodeRows.of_parts([_spread(part, encoded.nodes) for part, encoded in parsed])

    def other_nodes_of(self, parsed: list[tuple[Part, EncodedRows]]) -> NodeRows | None:
        others = [encoded.other_view for _, encoded in parsed]
        if all(other is None for other in others):
            return None
        pairs = zip(parsed, others, strict=True)
        return NodeRows.of_parts([_spread(part, other or encoded.nodes) for (part, encoded), other in pairs])

    def features_of(self, parsed: list[tuple[Part, EncodedRows]]) -> sparse.csr_matrix | np.ndarray:
        """The features of all parts side by side, each part scaled to a mean square length of one; 0 without it."""
        blocks: list[Any] = []
        for (part, encoded), scale in zip(parsed, self.scale, strict=True):
            own: Any = encoded.features * scale
            if part.where is not None:
                rows = part.present()
                place = sparse.csr_matrix(
                    (np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), (len(part), len(rows))
                )
                own = place @ own
            blocks.append(own)
        if any(sparse.issparse(block) for block in blocks):
            return sparse.csr_matrix(sparse.hstack(blocks, format="csr"), dtype=np.float32)
        return np.hstack(blocks).astype(np.float32, copy=False)

    def embedding(self, width: int) -> PartVectors:
        embeddings = [encoder.embedding(width) for encoder in self.part_encoders]
        return PartVectors(embeddings, width, max(0, self.edge_types - 1))

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        """Columns as `year = 1999`, nodes of other parts after the part's name: `plot: storm`."""
        names: list[str] = []
        dates = {name for name, role in self.roles if role == "date"}
        for part, own in encoded.parsed:
            place = part.place(row)
            if place < 0:
                continue
            if isinstance(own.encoder, ColumnsEncoder):
                names += own.encoder.node_values(own, place, dates)
            else:
                names += [f"{part.name}: {name}" for name in own.node_names(place)]
        return names

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        places: list[tuple[tuple[int, ...], ...]] = []
        for part, own in encoded.parsed:
            place = part.place(row)
            places += own.node_places(place) if place >= 0 else []
        return places

    @property
    def n_features(self) -> int:
        return sum(encoder.n_features for encoder in self.part_encoders)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return self._named(columns, lambda number, own: self.part_encoders[number].name_features(own))

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        def named(number: int, own: np.ndarray) -> list[NamedFeature]:
            part, rows = encoded.parsed[number]
            place = part.place(row)
            encoder = self.part_encoders[number]
            return rows.named_features(place, own) if place >= 0 else encoder.name_features(own)

        return self._named(columns, named)

    def _named(self, columns: np.ndarray, name: Callable[[int, np.ndarray], list[NamedFeature]]) -> list[NamedFeature]:
        """Features named by the encoder of their part, which is named too, unless it has parts of its own: columns."""
        columns = np.asarray(columns)
        ends = np.cumsum([encoder.n_features for encoder in self.part_encoders])
        found: list[NamedFeature] = [NamedFeature("")] * len(columns)
        for number, (part, end) in enumerate(zip(self.names, ends, strict=True)):
            begin = ends[number - 1] if number else 0
            at = np.flatnonzero((columns >= begin) & (columns < end))
            for i, feature in zip(at, name(number, columns[at] - begin) if len(at) else [], strict=True):
                found[i] = feature._replace(part=feature.part or part)
        return found

    @property
    def feature_count(self) -> int | None:
        """The columns that a row's parts come from."""
        return len(self.roles) or None

    def no_rows(self) -> PartRows:
        none = [
            Part(name=name, kind=encoder.kind, rows=encoder.no_rows(), feature_names=encoder.feature_names or None)
            for name, encoder in zip(self.names, self.part_encoders, strict=True)
        ]
        return PartRows(tuple(none), self.roles)

    def state(self) -> dict[str, Any]:
        parts = [
            {"name": name, "kind": encoder.kind, "state": encoder.state()}
            for name, encoder in zip(self.names, self.part_encoders, strict=True)
        ]
        return {"parts": parts, "roles": [list(pair) for pair in self.roles]}

    def arrays(self) -> dict[str, np.ndarray]:
        named = {"scale": self.scale}
        for number, encoder in enumerate(self.part_encoders):
            named |= {f"{number}.{key}": value for key, value in encoder.arrays().items()}
        return named

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> PartsEncoder:
        encoder = cls(config)
        parts, roles = state.get("parts"), state.get("roles")
        if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
            raise DataError("the saved encoder's parts are not a list of parts; the model folder is damaged")
        if (
            not isinstance(roles, list)
            or not all(map(_is_role, roles))
            or len({pair[0] for pair in roles}) < len(roles)
        ):
            raise DataError("the saved roles of the columns are not pairs of a name and a role; the folder is damaged")
        names, encoders = [], []
        for number, part in enumerate(parts):
            if not isinstance(part, Mapping) or not isinstance(part.get("name"), str) or part.get("kind") == cls.kind:
                raise DataError(f"the saved part {number} is not a part of a row; the model folder is damaged")
            before = f"{number}."
            own = {key[len(before) :]: value for key, value in arrays.items() if key.startswith(before)}
            names.append(part["name"])
            encoders.append(
                restore_encoder(str(part.get("kind")), config, part.get("state", ()), own, config.pretrained or None)
            )
        if len(set(names)) < len(names):
            raise DataError("the saved encoder names a part twice; the model folder is damaged")
        encoder.names, encoder.part_encoders = tuple(names), tuple(encoders)
        encoder.roles = tuple((str(name), str(role)) for name, role in roles)
        encoder.scale = saved_array(arrays, "scale", "float32", (len(names),))
        encoder._settle()
        return encoder


def _is_role(pair: Any) -> bool:
    return (
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
        and isinstance(pair[1], str) and pair[1] in COLUMN_KINDS
    )  # fmt: skip


def _checked(rows: Any) -> PartRows:
    if not isinstance(rows, PartRows):
        raise DataError(f"rows of several parts are `PartRows`, not {type(rows).__name__}")
    return rows


def _named(fault: DataError, part: Part) -> DataError:
    return DataError(f"{part.called()}: {fault}")


def _spread(part: Part, nodes: NodeRows) -> NodeRows:
    return nodes if part.where is None else nodes.spread(part.present(), len(part))


def _unit_scale(encoder: Encoder, part: Part) -> float:
    """What brings the features of a part to a mean square length of one, from a sample of its training rows."""
    there = len(part.present())
    sample = np.unique(np.linspace(0, there - 1, min(there, SAMPLE_ROWS)).astype(np.int64))
    features: Any = encoder.encode(Part(name="", kind=part.kind, rows=part.rows).take(sample).rows).features
    square = features.multiply(features).sum() if sparse.issparse(features) else np.square(features).sum()
    return float(np.sqrt(len(sample) / square)) if square > 0 else 1.0
