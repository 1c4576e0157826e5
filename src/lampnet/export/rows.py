"""The inputs of the graph: rows as a program without lampnet can give them, and what encoders make of them.

What an encoder learned (frequencies, means, categories) is in the graph wherever ONNX has operators for it, so that a
text comes as its tokens, a table as its numbers, a DNA window as its bases. Molecules and pictures come as lampnet's
encoders give them: RDKit and the gradients of a picture cannot be expressed. `feeds` makes these inputs from rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.encoders.columns import ColumnsEncoder
from lampnet.encoders.dna import (
    GAPPED_WEIGHT,
    UNKNOWN_BASE,
    DnaEncoder,
    canonical_words,
    reverse_complement,
    word_offsets,
)
from lampnet.encoders.image import ImageEncoder
from lampnet.encoders.molecule import MoleculeEncoder
from lampnet.encoders.molecule_features import ATOM_FEATURES
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.parts import PartsEncoder
from lampnet.encoders.text import TextEncoder
from lampnet.encoders.text_weights import OPENING_WEIGHT
from lampnet.encoders.vector import FARTHEST, VectorEncoder, numbers_of
from lampnet.encoders.wordset import WordSetEncoder
from lampnet.errors import ConfigError
from lampnet.export.base_learners import unit_rows
from lampnet.export.graph import ML, Graph, Value
from lampnet.export.nodes import Nodes, without_rows

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


class WordSetInput(RowInput):
    """ids and values of the features that a row has; a value of 0 is padding."""

    @cached_property
    def values_BV(self) -> tuple[Value, Value]:
        """Values, and values times the inverse document frequencies."""
        ids, values = self.input("ids", np.int64, "rows", "words"), self.input("values", np.float32, "rows", "words")
        empty = self.graph.filled(self.graph.joined([ids.size(0), _one(len(self.encoder.idf))], 0), 0, np.float32)
        plain = self.graph.scattered(empty, ids, values, add=True)
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
        return tf_idf(self.graph, _counts(self.graph, tokens_BS - np.int64(1), self.words), self.encoder.weights.idf)

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
        pairs = tf_idf(graph, _counts(graph, number, len(weights.pairs)), weights.pair_idf)
        return unit_rows(graph, graph.joined([self.weights_BV, pairs], axis=1))

    def has_nodes(self) -> Value:
        return (self.tokens_BS > np.int64(0)).any(1)

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        parsed = encoded.parsed
        tokens, present = _padded(NodeRows(offsets=parsed.offsets), parsed.numbers)
        return {"tokens": np.where(present, tokens.astype(np.int64) + 1, -1)}

    def metadata(self) -> dict[str, Any]:
        return {"tokenizer": self.encoder.tokens.tokenizer_json()}


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
        empty = graph.filled(graph.joined([ids.size(0), _one(self.encoder.n_ids)], 0), 0, np.float32)
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


class DnaInput(RowInput):
    """Bases by number: A, C, G, T, N are 0 to 4."""

    @cached_property
    def bases_BW(self) -> Value:
        return self.input("bases", np.uint8, "rows", self.encoder.window).cast(np.int64)

    def views(self) -> list[Nodes]:
        config, window = self.encoder.config, self.encoder.window
        kept = min(window, config.max_nodes * config.pool)
        places = np.arange(-(-kept // config.pool))
        views = [self.bases_BW]
        if config.both_strands:
            other = self.graph.value(reverse_complement(np.arange(5, dtype=np.uint8)[None, ::-1])[0].astype(np.int64))
            views.append(other.taken(self.bases_BW.taken(np.arange(window)[::-1].copy(), axis=1), axis=0))
        return [Nodes(vectors_BSF=view.sliced(0, kept, 1), positions=places) for view in views]

    @cached_property
    def features(self) -> Value:
        words, gaps = self._word_counts([0]), self.encoder.config.gap_lengths
        if not gaps:
            return words
        return unit_rows(self.graph, self.graph.joined([words, self._word_counts(gaps) * GAPPED_WEIGHT], 1))

    def _word_counts(self, gaps: Sequence[int]) -> Value:
        """Log counts of words around any of these gaps, each row of length one."""
        graph, (table, n_words) = self.graph, canonical_words()
        counts = graph.filled(graph.joined([self.bases_BW.size(0), _one(n_words)], 0), 0, np.float32)
        for gap in gaps:
            offsets = word_offsets(gap)
            starts = self.encoder.window - offsets[-1]
            if starts < 1:
                continue
            steps = [self.bases_BW.sliced(i, i + starts, 1) for i in offsets]
            code, whole = steps[0], steps[0] < np.int64(UNKNOWN_BASE)
            for step in steps[1:]:
                code, whole = code * np.int64(4) + step, whole & (step < np.int64(UNKNOWN_BASE))
            number = graph.value(table.astype(np.int64)).taken(graph.where(whole, code, np.int64(0)), axis=0)
            counts = counts + _counts(graph, graph.where(whole, number, np.int64(-1)), n_words)
        return unit_rows(graph, graph.op("Log", counts + 1.0))

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        return {"bases": encoded.parsed}


class MoleculeInput(RowInput):
    """Atoms and bonds as lampnet's encoder gives them, and the fingerprints."""

    @cached_property
    def present_BS(self) -> Value:
        return self.input("present", bool, "rows", "atoms")

    def has_nodes(self) -> Value | None:
        return self.present_BS.any(1) if self.name else None  # only a part of a row may lack its molecule

    def views(self) -> list[Nodes]:
        encoder, present = self.encoder, self.present_BS
        ids = self.input("ids", np.int64, "rows", "atoms")
        edges = self.input("edges", np.int64, "rows", "atoms", "atoms")
        if encoder.elements_only:
            return [Nodes(present, ids, present.cast(np.float32), edge_types_BSS=edges)]
        vectors = self.input("vectors", np.float32, "rows", "atoms", ATOM_FEATURES)
        return [Nodes(present, ids, vectors_BSF=vectors, edge_types_BSS=edges)]

    @cached_property
    def features(self) -> Value:
        return self.input("features", np.float32, "rows", "features")

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        batch = encoded.nodes.batch(np.arange(len(encoded.nodes)))
        assert batch.ids_BS is not None
        assert batch.edge_types_BSS is not None
        feeds = {"present": batch.present_BS.numpy(), "ids": batch.ids_BS.numpy()}
        feeds |= {"edges": batch.edge_types_BSS.long().numpy(), "features": np.asarray(encoded.features)}
        return feeds if batch.vectors_BSF is None else feeds | {"vectors": batch.vectors_BSF.float().numpy()}


class ImageInput(RowInput):
    """Patches and features as lampnet's encoder gives them."""

    def views(self) -> list[Nodes]:
        encoder = self.encoder
        across = -(-encoder.width // encoder.patch)
        count = -(-encoder.height // encoder.patch) * across
        patches = self.input("patches", np.uint8, "rows", count, len(encoder.mean)).cast(np.float32)
        return [Nodes(vectors_BSF=patches, positions=np.stack(np.divmod(np.arange(count), across), axis=1))]

    @cached_property
    def features(self) -> Value:
        return self.input("features", np.float32, "rows", len(self.encoder.feature_mean))

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        vectors = encoded.nodes.vectors
        assert vectors is not None
        return {"patches": vectors.reshape(len(encoded.nodes), -1, vectors.shape[1]), "features": encoded.features}


class PartsInput(RowInput):
    """The inputs of every part, each with the part's name and a dot before it.

    Parts that a row may lack, and that do not show it themselves, have an input `present`, bool (B,).
    """

    @cached_property
    def parts(self) -> list[tuple[RowInput, Value | None]]:
        made = []
        for name, encoder in zip(self.encoder.names, self.encoder.part_encoders, strict=True):
            own = row_input(self.graph, encoder, f"{name or 'table'}.")
            lacks = isinstance(own, VectorInput | DnaInput | ImageInput)
            made.append((own, own.input("present", bool, "rows").unsqueezed(1) if lacks else None))
        return made

    def views(self) -> list[Nodes]:
        of_parts = [(own.views(), flag) for own, flag in self.parts]
        count = max(len(views) for views, _ in of_parts)
        made = []
        for number in range(count):
            nodes = [(views[min(number, len(views) - 1)], flag) for views, flag in of_parts]
            made.append(Nodes(parts=tuple(self._present(own, flag) for own, flag in nodes)))
        return made

    def _present(self, nodes: Nodes, flag: Value | None) -> Nodes:
        length = 1 if nodes.positions is None else len(nodes.positions)
        return nodes if flag is None else without_rows(self.graph, nodes, flag, length)

    @cached_property
    def features(self) -> Value:
        blocks = []
        for (own, flag), scale in zip(self.parts, self.encoder.scale, strict=True):
            block = own.features * np.float32(scale)
            blocks.append(block if flag is None else block * flag.cast(np.float32))
        return self.graph.joined(blocks, axis=1)

    def has_nodes(self) -> Value | None:
        each = [
            own.has_nodes() if flag is None else self.graph.op("Squeeze", flag, _one(1)) for own, flag in self.parts
        ]
        some = [one for one in each if one is not None]
        if len(some) < len(each):
            return None  # a table has all its columns in every row
        found = some[0]
        for one in some[1:]:
            found = found | one
        return found

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        feeds: Arrays = {}
        for (own, flag), (part, parsed) in zip(self.parts, encoded.parsed, strict=True):
            there = part.present()
            for name, values in own.feeds(part.rows, parsed).items():
                whole = np.full((len(part), *values.shape[1:]), -1 if name == "tokens" else 0, values.dtype)
                whole[there] = values
                feeds[own.name + name] = whole
            if flag is not None:
                feeds[f"{own.name}present"] = np.isin(np.arange(len(part)), there)
        return feeds

    def metadata(self) -> dict[str, Any]:
        return {own.name + key: value for own, _ in self.parts for key, value in own.metadata().items()}


INPUTS: dict[type[Encoder], Callable[..., RowInput]] = {
    WordSetEncoder: WordSetInput,
    TextEncoder: TextInput,
    VectorEncoder: VectorInput,
    ColumnsEncoder: ColumnsInput,
    DnaEncoder: DnaInput,
    MoleculeEncoder: MoleculeInput,
    ImageEncoder: ImageInput,
    PartsEncoder: PartsInput,
}


def row_input(graph: Graph, encoder: Encoder, name: str = "") -> RowInput:
    """The inputs that rows of this encoder need."""
    make = INPUTS.get(type(encoder))
    if make is None:
        raise ConfigError(
            "a model with a pretrained text encoder cannot be exported: the transformer is a model of its own; train "
            "without --pretrained, or serve this model with lampnet serve"
        )
    return make(graph, encoder, name)


def heaviest_nodes(graph: Graph, weights_BV: Value, encoder: Encoder) -> Nodes:
    """The features of each row that are not zero, the `max_nodes` heaviest of them, as nodes."""
    there = _not_zero(graph, weights_BV).cast(np.int64).summed(1).maximum(0)
    count = graph.op("Min", graph.op("Max", there.reshaped(1), _one(1)), _one(encoder.config.max_nodes))
    size, ids = graph.top(graph.op("Abs", weights_BV), count)
    return Nodes(size > 0.0, ids, weights_BV.taken_along(ids, axis=1))


def tf_idf(graph: Graph, counts: Value, idf: np.ndarray) -> Value:
    """(1 + log tf) * idf; 0 for what does not occur."""
    weight = (graph.op("Log", graph.op("Max", counts, 1.0)) + 1.0) * idf
    return graph.where(counts > 0.0, weight, 0.0)


def _counts(graph: Graph, numbers_BS: Value, size: int) -> Value:
    """How often each number occurs in each row, float32 (B, size); negative ones do not count."""
    counts_them = numbers_BS > np.int64(-1)
    empty = graph.filled(graph.joined([numbers_BS.size(0), _one(size)], 0), 0, np.float32)
    places = graph.where(counts_them, numbers_BS, np.int64(0))
    return graph.scattered(empty, places, counts_them.cast(np.float32), add=True)


def _standardised(graph: Graph, numbers: Value, encoder: Any) -> Value:
    scaled = (numbers - encoder.mean) / encoder.spread
    return graph.op("Max", graph.op("Min", scaled, np.float64(FARTHEST)), np.float64(-FARTHEST)).cast(np.float32)


def _not_zero(graph: Graph, x: Value) -> Value:
    return x.equals(0.0).negated()


def _padded(nodes: NodeRows, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of ragged rows as (B, longest row), and where there are any."""
    lengths = nodes.lengths()
    present = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    padded = np.zeros(present.shape, values.dtype)
    padded[present] = values[nodes.offsets[0] : nodes.offsets[-1]]
    return padded, present


def _one(number: int) -> np.ndarray:
    return np.array([number], np.int64)
