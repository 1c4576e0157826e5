"""Text read once by a frozen pretrained encoder, and used twice: its pooled state is a feature, its tokens are nodes.

Labels attend to the tokens' last states, which know the whole text. The transformer runs once per text, before the
training, and states are kept in half precision, so an epoch costs no more than one of word nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.encoders.base import Embedding, EncodedRows
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.pooled import POOLED_TOKENS, PooledEncoder
from lampnet.encoders.pretrained import PretrainedEncoder
from lampnet.encoders.spectral import node_sample, start_centred_projection


class StateNodes(Embedding):
    """z = W^x (state of the token)."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(hidden, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.vectors_BSF is not None
        return self.projection(batch.vectors_BSF.float()), batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """The principal directions of the states of training tokens."""
        assert nodes.vectors is not None
        if len(nodes.vectors):
            start_centred_projection(self.projection, node_sample(nodes.vectors, seed).astype(np.float32), seed)


class ReadTexts(list[str]):
    """Texts with what the encoder said of them.

    pooled   float32 (n, H)
    offsets  int64 (n + 1,): text r owns states offsets[r]:offsets[r + 1]
    states   float16 (N, H), one per token

    >>> texts = ReadTexts(["two words", ""], [np.ones((3, 4)), np.zeros((0, 4))], 4)
    >>> texts[0], texts.pooled.tolist(), texts.offsets.tolist(), texts.states.shape
    ('two words', [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]], [0, 2, 2], (2, 4))
    """

    def __init__(self, texts: Iterable[str], read: Sequence[np.ndarray], hidden: int) -> None:
        """From the kept vectors (1 + tokens, H) of each text, the pooled one first; (0, H) of a text without words."""
        super().__init__(texts)
        self.pooled = np.zeros((len(self), hidden), dtype=np.float32)
        for number, own in enumerate(read):
            self.pooled[number] = own[0] if len(own) else 0.0
        self.offsets = np.cumsum([0, *(max(0, len(own) - 1) for own in read)], dtype=np.int64)
        self.states = np.concatenate([np.zeros((0, hidden), dtype=np.float16), *(own[1:] for own in read)])


class TokenStateEncoder(PooledEncoder):
    """Token nodes; tf-idf and, in the last columns, pooled token states as features."""

    kept = "tokens"

    def parse(self, rows: Any) -> ReadTexts:
        """The one pass of the transformer that nodes and features share."""
        texts = super().parse(rows)
        return ReadTexts(texts, self.read(texts), self._hidden())

    def _kept(self, pooled: Tensor, states: Tensor) -> np.ndarray:
        """The pooled state, then the tokens'."""
        kept: np.ndarray = torch.cat([pooled[None], states]).to(torch.float16).numpy()
        return kept

    def features_of(self, rows: list[str]) -> sparse.csr_matrix:
        assert isinstance(rows, ReadTexts)
        return self._beside_words(rows, rows.pooled)

    def nodes_of(self, rows: list[str]) -> NodeRows:
        assert isinstance(rows, ReadTexts)
        return NodeRows(offsets=rows.offsets, vectors=rows.states)

    @property
    def n_ids(self) -> None:
        return None

    def embedding(self, width: int) -> Embedding:
        self._open()
        return StateNodes(self._hidden(), width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        text = encoded.parsed[row]
        names: list[str] = self._encoding(text).tokens if text.strip() else []
        return names[:POOLED_TOKENS]

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        return PretrainedEncoder.node_places(self, encoded, row)[:POOLED_TOKENS]
