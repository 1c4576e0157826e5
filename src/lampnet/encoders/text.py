"""Text: words (or chunks) of a row are its nodes, as a sequence with positions or as a weighted set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows, sinusoidal
from lampnet.encoders.text_tokens import Tokens
from lampnet.encoders.text_weights import TextWeights
from lampnet.encoders.wordset import WordVectors, heaviest, warn_of_cut_rows
from lampnet.errors import DataError


class NoWords(DataError):
    """Training texts in which no word occurs often enough to get a vector."""


class PositionedWordVectors(WordVectors):
    """z_j = value_j * W^x[id_j] + the sine and cosine of the position, as in the paper."""

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        z_BSD, present_BS, edge_types = super().forward(batch)
        return z_BSD + self.position_codes(batch, z_BSD.shape[-1]), present_BS, edge_types

    def position_codes(self, batch: NodeBatch, width: int) -> Tensor:
        """What is added for the positions, (B, S, D)."""
        assert batch.positions_BSP is not None
        return sinusoidal(batch.positions_BSP, width)

    def projected(self, matrices: Sequence[Tensor], nodes: int) -> Embedding | None:
        return None  # the position is part of the vector


class WeightedPositions(PositionedWordVectors):
    """The same with the positions multiplied by a learned number, which starts at 1."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__(vocabulary, width)
        self.position_weight = nn.Parameter(torch.ones(()))

    def position_codes(self, batch: NodeBatch, width: int) -> Tensor:
        return self.position_weight * super().position_codes(batch, width)

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Singular vectors of the words; positions start small, so that they do not hide the words."""
        super().spectral_start(nodes, seed)
        with torch.no_grad():
            self.position_weight.fill_(0.1)


@dataclass(frozen=True)
class TokenizedTexts:
    """Texts and their tokens: row r has numbers[offsets[r]:offsets[r + 1]], -1 for unknown words."""

    texts: Sequence[str]
    numbers: np.ndarray
    offsets: np.ndarray
    weights: TextWeights

    @cached_property
    def words(self) -> sparse.csr_matrix:
        """(n, V): the weights of the distinct words; not to be changed."""
        return self.weights.nodes(self.numbers, self.offsets)


class TextEncoder(Encoder):
    """Learns a vocabulary and its document frequencies from the training rows.

    With `text_nodes="set"` the distinct known words are the nodes and (1 + log tf) * idf scales their
    vectors; with "sequence" every known word is a node with its position. Unknown words make no node
    but are counted in the positions; a row without a known word has no node.

    >>> encoder = TextEncoder(InputConfig(min_count=1)).fit(["a red fox", "a blue sea"])
    >>> encoded = encoder.encode(["Red sea, red sky"])
    >>> encoded.node_names(0)
    ['red', 'sea']
    >>> encoded.node_places(0)
    [((0, 3), (9, 12)), ((4, 7),)]
    """

    kind = "text"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.tokens = Tokens(())
        self.weights = TextWeights(np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> TextEncoder:
        if len(rows) == 0:
            raise DataError("texts were given without any training row; give at least one")
        self.tokens = Tokens.learn(rows, self.config)
        if not self.tokens.words:
            raise NoWords(
                f"no word occurs {self.config.min_count} times in the {len(rows)} training texts; "
                "give more text or lower input.min_count"
            )
        self.weights = TextWeights.learn(*self.tokens.numbers(rows), len(self.tokens.words))
        return self

    def parse(self, rows: Any) -> TokenizedTexts:
        return TokenizedTexts(rows, *self.tokens.numbers(rows), self.weights)

    def nodes_of(self, parsed: TokenizedTexts) -> NodeRows:
        if self.config.text_nodes == "sequence":
            return self._sequence(parsed.numbers, parsed.offsets, self.weights.idf)
        nodes = NodeRows.from_csr(heaviest(parsed.words, self.config.max_nodes))
        return nodes if self.config.tfidf else replace(nodes, values=np.ones_like(nodes.values))

    def features_of(self, parsed: TokenizedTexts) -> sparse.csr_matrix:
        """tf-idf of words, and of word pairs in short texts or of the opening of long ones; each row of length one."""
        return self.weights.features(parsed.words, parsed.numbers, parsed.offsets)

    @property
    def n_ids(self) -> int:
        return max(1, len(self.tokens.words))

    def embedding(self, width: int) -> WordVectors:
        in_order = PositionedWordVectors if self.config.positions == "plain" else WeightedPositions
        kind = in_order if self.config.text_nodes == "sequence" else WordVectors
        return kind(len(self.tokens.words), width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        return [self.tokens.words[i] for i in encoded.nodes.ids_of(row)]

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        parsed, nodes = encoded.parsed, encoded.nodes
        spans = self.tokens.spans(parsed.texts[row])
        if nodes.positions is not None:
            own = nodes.positions[nodes.offsets[row] : nodes.offsets[row + 1], 0]
            return [(spans[position],) for position in own]
        by_word: dict[int, list[tuple[int, ...]]] = {}
        for number, span in zip(parsed.numbers[parsed.offsets[row] : parsed.offsets[row + 1]], spans, strict=True):
            by_word.setdefault(int(number), []).append(span)
        return [tuple(by_word[int(word)]) for word in nodes.ids_of(row)]

    @property
    def n_features(self) -> int:
        return len(self.weights.idf) * (2 if self.weights.opening else 1) + len(self.weights.pairs)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return [NamedFeature(self._name(*self.weights.words_of(int(column)))) for column in columns]

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        parsed: TokenizedTexts = encoded.parsed
        numbers = parsed.numbers[parsed.offsets[row] : parsed.offsets[row + 1]]
        spans = self.tokens.spans(parsed.texts[row])
        found = []
        for column in columns:
            words, until = self.weights.words_of(int(column))
            starts = np.ones(max(0, len(numbers[:until]) - len(words) + 1), dtype=bool)
            for at, word in enumerate(words):
                starts &= numbers[at : at + len(starts)] == word
            places = tuple((spans[i][0], spans[i + len(words) - 1][1]) for i in np.flatnonzero(starts))
            found.append(NamedFeature(self._name(words, until), places=places))
        return found

    def _name(self, words: tuple[int, ...], until: int | None) -> str:
        name = " ".join(self.tokens.words[word] for word in words)
        return name if until is None else f"{name} (opening)"

    def state(self) -> dict[str, Any]:
        return self.tokens.state()

    def arrays(self) -> dict[str, np.ndarray]:
        return self.weights.arrays()

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TextEncoder:
        encoder = cls(config)
        encoder.tokens = Tokens.restore(state)
        encoder.weights = TextWeights.restore(arrays, len(encoder.tokens.words))
        return encoder

    def _sequence(self, numbers: np.ndarray, offsets: np.ndarray, idf: np.ndarray) -> NodeRows:
        """The first `max_nodes` known words of each row, in order."""
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        position = np.arange(len(numbers)) - offsets[row]
        known = np.flatnonzero(numbers >= 0)
        lengths = np.bincount(row[known], minlength=len(offsets) - 1)
        cut = int((lengths > self.config.max_nodes).sum())
        if cut:
            warn_of_cut_rows(cut, len(lengths), self.config.max_nodes)
            rank = np.arange(len(known)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            known = known[rank < self.config.max_nodes]
            lengths = np.minimum(lengths, self.config.max_nodes)
        ids = numbers[known]
        return NodeRows(
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            ids=ids,
            values=idf[ids] if self.config.tfidf else np.ones(len(ids), dtype=np.float32),
            positions=position[known].astype(np.int32)[:, None],
        )
