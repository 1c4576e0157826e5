"""What every encoder and every input embedding offers, and rows that were encoded once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.nodes import NodeRows, with_edges


class NamedFeature(NamedTuple):
    """A feature of the base learners as a person calls it.

    part    the part of the row that it comes from: a column or a named part; "" where the row has one part
    places  where it lies in the input, as in `EncodedRows.node_places`
    """

    name: str
    part: str = ""
    places: tuple[tuple[int, ...], ...] = ()


class Embedding(nn.Module):
    """W^x: a module from NodeBatch to (z_BSD, present_BS, edge_types_BSS or None)."""

    #: False where a node's vector depends on other nodes of its row
    allows_node_dropout = True

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Set a good starting point from training nodes, without labels; by default the random one is kept."""

    def projected(self, matrices: Sequence[Tensor], nodes: int) -> Embedding | None:
        """For prediction: products of z with each of the (K, D) matrices, side by side; None where it saves nothing."""
        return None


class EncodedRows:
    """Rows of one data set, parsed once; nodes and features are computed when first asked for and kept."""

    def __init__(self, encoder: Encoder, parsed: Any, row_edges: Sequence[np.ndarray] | None = None) -> None:
        self.encoder, self.parsed, self.row_edges = encoder, parsed, row_edges

    @cached_property
    def nodes(self) -> NodeRows:
        """The rows as nodes, with the known feature graph where one was given."""
        return self._with_edges(self.encoder.nodes_of(self.parsed))

    @cached_property
    def other_view(self) -> NodeRows | None:
        """Nodes of the same rows in a second view (DNA: the other strand); None for most kinds."""
        nodes = self.encoder.other_nodes_of(self.parsed)
        return None if nodes is None else self._with_edges(nodes)

    @cached_property
    def features(self) -> sparse.csr_matrix | np.ndarray:
        """(n, F) numbers that a linear model can learn from (tf-idf, k-mers, fingerprints, ...)."""
        return self.encoder.features_of(self.parsed)

    def views(self) -> list[NodeRows]:
        """The nodes, and those of the other view where there is one: trained on as rows, averaged in prediction."""
        return [self.nodes] if self.other_view is None else [self.nodes, self.other_view]

    def node_names(self, row: int) -> list[str]:
        """What a person calls the nodes of one row, in their order."""
        return self.encoder.node_names(self, row)

    def node_places(self, row: int) -> list[tuple[tuple[int, ...], ...]]:
        """Where each node of one row lies in the input, for each of its occurrences.

        text: character spans (start, end); dna: base spans (start, end); image: pixel boxes (left, top, right,
        bottom); molecule: atom numbers (atom,); other kinds have no places.
        """
        return self.encoder.node_places(self, row)

    def named_features(self, row: int, columns: np.ndarray) -> list[NamedFeature]:
        """What some of the features are in one row, and where they lie in it."""
        return self.encoder.named_in_row(self, row, columns)

    def _with_edges(self, nodes: NodeRows) -> NodeRows:
        return nodes if self.row_edges is None else with_edges(nodes, self.row_edges)


class Encoder(ABC):
    """One input kind: what was learned from the training rows, and how rows become nodes and features.

    It is saved with the model as JSON (`state`) and named arrays (`arrays`); `restore` makes it again from both.
    """

    kind: str
    #: kinds of edges in the feature graph; 0 where the kind has none
    edge_types = 0
    #: the encoders of the parts, for rows of several parts
    part_encoders: tuple[Encoder, ...] = ()
    #: and the columns that they come from, each with its role
    roles: tuple[tuple[str, str], ...] = ()
    #: the features' names, for kinds whose rows have named features
    feature_names: tuple[str, ...] = ()

    def __init__(self, config: InputConfig) -> None:
        self.config = config

    @abstractmethod
    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> Self:
        """Learn vocabularies, means and spreads from training rows."""

    def encode(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> EncodedRows:
        """Rows of any data set; rows that are not of this kind are a `DataError`.

        row_edges  n int arrays (E, 2): a known feature graph, pairs of nodes counted inside their row
        """
        return EncodedRows(self, self.parse(rows), row_edges)

    @abstractmethod
    def parse(self, rows: Any) -> Any:
        """The work that nodes and features share."""

    @abstractmethod
    def nodes_of(self, parsed: Any) -> NodeRows:
        """Parsed rows as nodes."""

    @abstractmethod
    def features_of(self, parsed: Any) -> sparse.csr_matrix | np.ndarray:
        """Parsed rows as (n, F) numbers for the base learners."""

    def other_nodes_of(self, parsed: Any) -> NodeRows | None:
        """Nodes of the same rows in a second view; None where there is none."""
        return None

    @abstractmethod
    def embedding(self, width: int) -> Embedding:
        """A new W^x for this encoder's nodes."""

    @abstractmethod
    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        """See `EncodedRows.node_names`."""

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        """See `EncodedRows.node_places`."""
        return [() for _ in self.node_names(encoded, row)]

    @property
    @abstractmethod
    def n_features(self) -> int:
        """F, how many features the base learners are given."""

    @property
    def n_embedded(self) -> int:
        """How many of the last features are a pretrained encoder's, which base learners of their own read."""
        return 0

    @abstractmethod
    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        """What some of the features, by number int (k,), are in any row: k of them."""

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        """What the features `columns`, int (k,), are in one row; see `EncodedRows.named_features`."""
        return self.name_features(columns)

    @property
    def n_ids(self) -> int | None:
        """How many ids its nodes may have; None for kinds whose nodes have none."""
        return None

    @property
    def feature_count(self) -> int | None:
        """How many features a row has; None for kinds without a fixed number of them."""
        return len(self.feature_names) or None

    def no_rows(self) -> Any:
        """Zero rows of the training rows' form: what other rows are aligned to."""
        return []

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON data."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learned, as named arrays; each kind says which, and of which shape."""
        return {}

    @classmethod
    @abstractmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Make again what `state` and `arrays` described; damaged or foreign data is a `DataError`."""
