"""Text: words (or chunks) of a row are its nodes, in order with places or as a weighted set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.nodes import NodeBatch, NodeRows, sinusoidal
from lampnet.encoders.text_tokens import Tokens, checked_texts
from lampnet.encoders.text_weights import TextWeights
from lampnet.encoders.wordset import WordVectors, heaviest, warn_of_cut_rows
from lampnet.errors import DataError


class PlacedWordVectors(WordVectors):
    """z_j = value_j * W^x[id_j] + a * (sine and cosine of the place); a is learned and starts at 1."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__(vocabulary, width)
        self.place_weight = nn.Parameter(torch.ones(()))

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        z_BSD, present_BS, edge_types = super().forward(batch)
        assert batch.positions_BSP is not None
        return z_BSD + self.place_weight * sinusoidal(batch.positions_BSP, z_BSD.shape[-1]), present_BS, edge_types

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Singular vectors of the words; places whisper, so that they do not hide the words."""
        super().spectral_start(nodes, seed)
        with torch.no_grad():
            self.place_weight.fill_(0.1)


class TextEncoder:
    """Learns a vocabulary and its document frequencies from the training rows.

    With `text_nodes="set"` the distinct known words are the nodes and (1 + log tf) * idf scales their
    vectors; with "sequence" every known word is a node with its place. Unknown words make no node
    but keep their place; a row without a known word has no node.

    >>> encoder = TextEncoder(InputConfig(min_count=1)).fit(["a red fox", "a blue sea"])
    >>> encoder.node_names(["Red sea, red sky"], 0)
    ['red', 'sea']
    >>> encoder.node_places(["Red sea, red sky"], 0)
    [[(0, 3), (9, 12)], [(4, 7)]]
    """

    kind = "text"
    edge_types = 0

    def __init__(self, config: InputConfig) -> None:
        self.config = config
        self.tokens: Tokens | None = None
        self.weights: TextWeights | None = None

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> TextEncoder:
        if len(rows) == 0:
            raise DataError("text input needs training rows; none came")
        self.tokens = Tokens.learn(rows, self.config)
        if not self.tokens.words:
            raise DataError(
                f"no word occurs {self.config.min_count} times in the {len(rows)} training texts; "
                "give more text or lower input.min_count"
            )
        self.weights = TextWeights.learn(*self.tokens.numbers(rows), len(self.tokens.words))
        return self

    def encode(self, rows: Any) -> NodeRows:
        tokens, weights = self._learned()
        numbers, offsets = tokens.numbers(rows)
        if self.config.text_nodes == "sequence":
            return self._sequence(numbers, offsets, weights.idf)
        matrix = heaviest(weights.nodes(numbers, offsets), self.config.max_nodes)
        if not self.config.tfidf:
            matrix.data = np.ones_like(matrix.data)
        return NodeRows.from_csr(matrix)

    def linear_features(self, rows: Any) -> sparse.csr_matrix:
        """tf-idf of words, and of word pairs in short texts or of the opening of long ones; each row of length one."""
        tokens, weights = self._learned()
        return weights.features(*tokens.numbers(rows))

    def embedding(self, width: int) -> WordVectors:
        tokens, _ = self._learned()
        kind = PlacedWordVectors if self.config.text_nodes == "sequence" else WordVectors
        return kind(len(tokens.words), width)

    def node_names(self, rows: Any, row: int) -> list[str]:
        tokens, _ = self._learned()
        ids = self.encode([rows[row]]).ids
        assert ids is not None
        return [tokens.words[i] for i in ids]

    def node_places(self, rows: Any, row: int) -> list[list[tuple[int, int]]]:
        """For each node of one row the character spans (start, end) it stands for in the text."""
        tokens, _ = self._learned()
        text = rows[row]
        checked_texts([text])
        numbers, _ = tokens.numbers([text])
        spans = tokens.spans(text)
        nodes = self.encode([text])
        assert nodes.ids is not None
        if nodes.positions is not None:
            return [[spans[place]] for place in nodes.positions[:, 0]]
        by_word: dict[int, list[tuple[int, int]]] = {}
        for number, span in zip(numbers, spans, strict=True):
            by_word.setdefault(int(number), []).append(span)
        return [by_word[int(word)] for word in nodes.ids]

    def other_view(self, rows: Any) -> None:
        return None

    def state(self) -> dict[str, Any]:
        tokens, _ = self._learned()
        return tokens.state()

    def arrays(self) -> dict[str, np.ndarray]:
        _, weights = self._learned()
        return weights.arrays()

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TextEncoder:
        encoder = cls(config)
        encoder.tokens = Tokens.restore(state)
        encoder.weights = TextWeights.restore(arrays, len(encoder.tokens.words))
        return encoder

    def _sequence(self, numbers: np.ndarray, offsets: np.ndarray, idf: np.ndarray) -> NodeRows:
        """The first `max_nodes` known words of each row, in order."""
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        place = np.arange(len(numbers)) - offsets[row]
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
            positions=place[known].astype(np.int32)[:, None],
        )

    def _learned(self) -> tuple[Tokens, TextWeights]:
        if self.tokens is None or self.weights is None:
            raise DataError("this text encoder has not seen training rows; call fit first")
        return self.tokens, self.weights
