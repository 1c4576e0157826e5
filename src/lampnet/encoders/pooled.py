"""Text for the base learners twice: tf-idf of its words, and the mean of a frozen pretrained encoder's token states.

The nodes are words, as for plain text, so that a network costs no more than without the encoder: the transformer runs
once per text. Vectors have length one and half precision, while training and later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lampnet.encoders.base import Embedding, EncodedRows, NamedFeature
from lampnet.encoders.embedding_file import EmbeddingFile
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.pretrained import PretrainedEncoder

#: tokens of a text that are read: what sentence encoders are trained with
POOLED_TOKENS = 256
#: tokens of a batch, padding included, at most
BATCH_TOKENS = 2_048
#: texts that are sorted by length together; after each such chunk they are stored
CHUNK_TEXTS = 512

OnProgress = Callable[[float, str], None]


class PooledEncoder(PretrainedEncoder):
    """Word nodes; tf-idf and, in the last columns, pooled token states as features."""

    #: what the file of a training holds of each text
    kept = "pooled"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stored: EmbeddingFile | None = None
        self._path: Path | None = None
        self._progress: OnProgress = _no_progress

    def while_training(self, path: Path | None, progress: OnProgress) -> None:
        """Keep vectors in a file, and report how far it is; vectors of a file that is there are used."""
        self._path, self._progress, self._stored = path, progress, None

    def after_training(self) -> None:
        """Forget the vectors of the training rows."""
        self._path, self._progress, self._stored = None, _no_progress, None

    @property
    def n_embedded(self) -> int:
        self._open()
        return self._hidden()

    def features_of(self, rows: list[str]) -> sparse.csr_matrix:
        """tf-idf of words, then the pooled states."""
        return self._beside_words(rows, self.pooled(rows))

    def _beside_words(self, rows: list[str], pooled: np.ndarray) -> sparse.csr_matrix:
        words = PretrainedEncoder.features_of(self, rows)
        return sparse.csr_matrix(sparse.hstack([words, sparse.csr_matrix(pooled)], dtype=np.float32))

    def pooled(self, texts: Sequence[str]) -> np.ndarray:
        """Mean token states of length one, float32 (n, H) rounded to half precision; zeros for texts without words."""
        read = self.read(texts)
        found = np.zeros((len(texts), self._hidden()), dtype=np.float32)
        for number, own in enumerate(read):
            if len(own):
                found[number] = own[0]
        return found

    def read(self, texts: Sequence[str]) -> list[np.ndarray]:
        """What is kept of each text, float16 (k, H); nothing, k = 0, of texts without words."""
        self._open()
        stored = self._stored
        if stored is None:
            digest = self._digest() if self._path is not None else ""
            stored = EmbeddingFile(self._path, digest, self.kept, self._hidden())
        if self._path is not None:
            self._stored = stored
        missing = [text for text in dict.fromkeys(texts) if text.strip() and stored.get(text) is None]
        began = time.monotonic()
        for first in range(0, len(missing), CHUNK_TEXTS):
            self._progress(first / len(missing), _time_left(first, len(missing), time.monotonic() - began))
            chunk = missing[first : first + CHUNK_TEXTS]
            stored.add(chunk, self._embedded(chunk))
        nothing = np.zeros((0, self._hidden()), dtype=np.float16)
        return [nothing if (own := stored.get(text)) is None else own for text in texts]

    def _embedded(self, texts: list[str]) -> list[np.ndarray]:
        """What is kept of each text, computed in batches of texts of similar length."""
        tokenizer, transformer = self._open(), self._frozen().eval()
        ids = [e.ids for e in tokenizer(texts, truncation=True, max_length=self._longest()).encodings]
        ids = [own[:POOLED_TOKENS] for own in ids]
        found = [np.zeros((0, 0), dtype=np.float16)] * len(texts)
        for rows in batches_by_length([len(own) for own in ids]):
            longest = max(len(ids[row]) for row in rows)
            tokens, present = torch.zeros((len(rows), longest), dtype=torch.long), torch.zeros((len(rows), longest))
            for at, row in enumerate(rows):
                tokens[at, : len(ids[row])] = torch.tensor(ids[row])
                present[at, : len(ids[row])] = 1.0
            with torch.inference_mode():
                states = transformer(input_ids=tokens, attention_mask=present.long()).last_hidden_state
                mean = (states * present[..., None]).sum(1) / present.sum(1, keepdim=True)
                pooled = torch.nn.functional.normalize(mean, dim=-1)
            for at, row in enumerate(rows):
                found[row] = self._kept(pooled[at], states[at, : len(ids[row])])
        return found

    def _kept(self, pooled: Tensor, states: Tensor) -> np.ndarray:
        """Of one text: the pooled state (H,) alone; its token states (T, H) are not."""
        return pooled[None].to(torch.float16).numpy()

    # Nodes are those of plain text.

    def nodes_of(self, rows: list[str]) -> NodeRows:
        return self.words.nodes_of(self.words.parse(rows))

    @property
    def n_ids(self) -> int | None:
        return self.words.n_ids

    def embedding(self, width: int) -> Embedding:
        return self.words.embedding(width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        return self.words.encode([encoded.parsed[row]]).node_names(0)

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        return self.words.encode([encoded.parsed[row]]).node_places(0)

    # Features: words first.

    @property
    def n_features(self) -> int:
        return self.words.n_features + self.n_embedded

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return self._named(columns, self.words.name_features)

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        one = self.words.encode([encoded.parsed[row]])
        return self._named(columns, lambda own: one.named_features(0, own))

    def _named(self, columns: np.ndarray, of_words: Callable[[np.ndarray], list[NamedFeature]]) -> list[NamedFeature]:
        columns, first = np.asarray(columns), self.words.n_features
        words = iter(of_words(columns[columns < first]))
        return [
            next(words) if column < first else NamedFeature(f"meaning {column - first}") for column in columns.tolist()
        ]


def batches_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Rows of similar length together, so that little padding is computed; every row once.

    >>> batches_by_length([1_500, 3, 1_400, 4])
    [[1, 3], [2], [0]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        # Lengths rise, so the new row is the longest; much shorter rows would be mostly padding.
        if (
            batches
            and lengths[row] * (len(batches[-1]) + 1) <= BATCH_TOKENS
            and lengths[row] <= 8 + 2 * lengths[batches[-1][0]]
        ):
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _time_left(done: int, count: int, seconds: float) -> str:
    """What is being done.

    >>> _time_left(0, 2_000, 0.0), _time_left(500, 2_000, 10.0)
    ('embedding 2,000 texts', 'embedding 2,000 texts, 30 s left')
    """
    said = f"embedding {count:,} texts"
    if not done:
        return said
    left = seconds * (count - done) / done
    return f"{said}, {left:.0f} s left" if left < 100 else f"{said}, {left / 60:.0f} min left"


def _no_progress(share: float, doing: str) -> None:
    """Without a callback, nothing is reported."""
