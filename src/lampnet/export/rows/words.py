"""Word sets, and texts as their tokens."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.text_weights import OPENING_WEIGHT
from lampnet.export.base_learners import unit_rows
from lampnet.export.graph import ML, Graph, Value
from lampnet.export.nodes import Nodes
from lampnet.export.rows.base import Arrays, RowInput


class WordSetInput(RowInput):
    """ids and values of the features that a row has; a value of 0 is padding."""

    @cached_property
    def values_BV(self) -> tuple[Value, Value]:
        """Values, and values times the inverse document frequencies."""
        ids, values = self.input("ids", np.int64, "rows", "words"), self.input("values", np.float32, "rows", "words")
        plain = self.graph.scattered(self.zeros(ids, len(self.encoder.idf)), ids, values, add=True)
        return plain, plain * self.encoder.idf

    def views(self) -> list[Nodes]:
        plain, weighted = self.values_BV
        return [heaviest_nodes(self.graph, weighted if self.encoder.config.tfidf else plain, self.encoder)]

    @cached_property
    def features(self) -> Value:
        return unit_rows(self.graph, self.values_BV[1])

    def has_nodes(self) -> Value:
        return _not_zero(self.graph, self.values_BV[0]).any(1)

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        nodes = NodeRows.from_csr(encoded.parsed[0])
        ids, present = _padded(nodes, nodes.ids)
        return {"ids": ids.astype(np.int64), "values": np.where(present, _padded(nodes, nodes.values)[0], 0)}

    def metadata(self) -> dict[str, Any]:
        return {"features": list(self.encoder.feature_names)}


class TextInput(RowInput):
    """Tokens by the numbers of the tokenizer in the file's metadata, padded with -1."""

    @cached_property
    def tokens_BS(self) -> Value:
        """A column of padding stands behind them, so that there is one token at least."""
        tokens = self.input("tokens", np.int64, "rows", "tokens")
        return self.graph.op("Pad", tokens, np.array([0, 0, 0, 1], np.int64), np.int64(-1))

    @property
    def words(self) -> int:
        return len(self.encoder.weights.idf)

    def weights_of(self, tokens_BS: Value) -> Value:
        """(B, V): (1 + log tf) * idf."""
        return tf_idf(self.graph, self.counts(tokens_BS - np.int64(1), self.words), self.encoder.weights.idf)

    @cached_property
    def weights_BV(self) -> Value:
        return self.weights_of(self.tokens_BS)

    def views(self) -> list[Nodes]:
        graph, config = self.graph, self.encoder.config
        if config.text_nodes != "sequence":
            nodes = heaviest_nodes(graph, self.weights_BV, self.encoder)
            if not config.tfidf:
                assert nodes.present_BS is not None
                nodes = Nodes(nodes.present_BS, nodes.ids_BS, nodes.present_BS.cast(np.float32))
            return [nodes]
        number = self.tokens_BS - np.int64(1)
        known = number > np.int64(-1)
        rank = graph.op("CumSum", known.cast(np.int64), np.int64(1))
        present = known & (rank < np.int64(config.max_nodes + 1))
        ids = graph.where(known, number, np.int64(0))
        value = graph.value(self.encoder.weights.idf if config.tfidf else np.ones(self.words, np.float32))
        places = graph.op("Range", np.int64(0), graph.op("Squeeze", number.size(1)), np.int64(1)).unsqueezed(0)
        return [Nodes(present, ids, value.taken(ids, axis=0), positions=places)]

    @cached_property
    def features(self) -> Value:
        graph, weights = self.graph, self.encoder.weights
        if weights.opening:
            opening = unit_rows(graph, self.weights_of(self.tokens_BS.sliced(0, weights.opening, 1)))
            both = [unit_rows(graph, self.weights_BV), opening * float(np.float32(OPENING_WEIGHT))]
            return unit_rows(graph, graph.joined(both, axis=1))
        if not len(weights.pairs):
            return unit_rows(graph, self.weights_BV)
        # A column of padding in front: a text of one token has no pairs, but the slices need two.
        tokens = graph.op("Pad", self.tokens_BS, np.array([0, 1, 0, 0], np.int64), np.int64(-1)) - np.int64(1)
        first, second = tokens.sliced(0, -1, 1), tokens.sliced(1, np.iinfo(np.int64).max, 1)
        known = (first > np.int64(-1)) & (second > np.int64(-1))
        pair = graph.where(known, first * np.int64(self.words) + second, np.int64(-1))
        number = graph.op(
            "LabelEncoder", pair, domain=ML, keys_int64s=weights.pairs.tolist(),
            values_int64s=list(range(len(weights.pairs))), default_int64=-1,
        )  # fmt: skip
        pairs = tf_idf(graph, self.counts(number, len(weights.pairs)), weights.pair_idf)
        return unit_rows(graph, graph.joined([self.weights_BV, pairs], axis=1))

    def has_nodes(self) -> Value:
        return (self.tokens_BS > np.int64(0)).any(1)

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        parsed = encoded.parsed
        tokens, present = _padded(NodeRows(offsets=parsed.offsets), parsed.numbers)
        return {"tokens": np.where(present, tokens.astype(np.int64) + 1, -1)}

    def metadata(self) -> dict[str, Any]:
        return {"tokenizer": self.encoder.tokens.tokenizer_json()}


def heaviest_nodes(graph: Graph, weights_BV: Value, encoder: Encoder) -> Nodes:
    """The features of each row that are not zero, the `max_nodes` heaviest of them, as nodes."""
    there = _not_zero(graph, weights_BV).cast(np.int64).summed(1).maximum(0)
    one, most = np.array([1], np.int64), np.array([encoder.config.max_nodes], np.int64)
    count = graph.op("Min", graph.op("Max", there.reshaped(1), one), most)
    size, ids = graph.top(graph.op("Abs", weights_BV), count)
    return Nodes(size > 0.0, ids, weights_BV.taken_along(ids, axis=1))


def tf_idf(graph: Graph, counts: Value, idf: np.ndarray) -> Value:
    """(1 + log tf) * idf; 0 for what does not occur."""
    weight = (graph.op("Log", graph.op("Max", counts, 1.0)) + 1.0) * idf
    return graph.where(counts > 0.0, weight, 0.0)


def _not_zero(graph: Graph, x: Value) -> Value:
    return x.equals(0.0).negated()


def _padded(nodes: NodeRows, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of ragged rows as (B, longest row), and where there are any."""
    lengths = nodes.lengths()
    present = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    padded = np.zeros(present.shape, values.dtype)
    padded[present] = values[nodes.offsets[0] : nodes.offsets[-1]]
    return padded, present
