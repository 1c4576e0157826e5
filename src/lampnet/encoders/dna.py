"""DNA windows: one convolution over the bases, then pooling, makes the nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.data.dna_bases import BASES
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows, sinusoidal
from lampnet.encoders.restore import saved_count
from lampnet.encoders.unit_rows import unit_rows
from lampnet.encoders.wordset import counted, warn_of_cut_rows
from lampnet.errors import DataError

UNKNOWN_BASE = 4
KMER = 6
#: length of a row's gapped words beside that of its words without a gap
GAPPED_WEIGHT = 0.7
CHUNK = 4_096


class MotifNodes(Embedding):
    """z = max over `pool` bases of ReLU(convolution), plus sine and cosine of the position.

    A filter is a motif of `filter_bases` bases; an unknown base (N) counts a quarter of each base.
    The pooled nodes are fewer than the bases; edges between bases join the nodes that hold them.
    """

    allows_node_dropout = False  # a convolution needs its neighbours
    one_hot: Tensor

    def __init__(self, filter_bases: int, pool: int, width: int) -> None:
        super().__init__()
        self.pool = pool
        self.convolution = nn.Conv1d(4, width, filter_bases)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        assert self.convolution.bias is not None
        nn.init.zeros_(self.convolution.bias)
        left = (filter_bases - 1) // 2
        self.margins = (left, filter_bases - 1 - left)
        # From NumPy, so that it has its values where a network is built without memory, to be loaded.
        table = np.concatenate([np.eye(4, dtype=np.float32), np.full((1, 4), 0.25, dtype=np.float32)])
        self.register_buffer("one_hot", torch.from_numpy(table), persistent=False)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.vectors_BSF is not None
        present_BW = batch.present_BS
        bases_BWA = self.one_hot[batch.vectors_BSF[:, :, 0].long()] * present_BW.unsqueeze(-1)
        found_BDW = torch.relu(self.convolution(nn.functional.pad(bases_BWA.transpose(1, 2), self.margins)))
        # Padding must not win the maximum: zero is the least that ReLU gives.
        found_BDW = found_BDW * present_BW.unsqueeze(1)
        z_BSD = nn.functional.max_pool1d(found_BDW, self.pool, ceil_mode=True).transpose(1, 2)
        present_BS = present_BW[:, :: self.pool]
        positions = torch.arange(present_BS.shape[1]).expand_as(present_BS).unsqueeze(-1)
        return z_BSD + sinusoidal(positions, z_BSD.shape[-1]), present_BS, self._pooled_edges(batch.edge_types_BSS)

    def _pooled_edges(self, edge_types_BWW: Tensor | None) -> Tensor | None:
        if edge_types_BWW is None:
            return None
        pooled = nn.functional.max_pool2d(edge_types_BWW.float().unsqueeze(1), self.pool, ceil_mode=True)
        return pooled.squeeze(1).to(edge_types_BWW.dtype)


class DnaEncoder(Encoder):
    """Windows of bases 0..4 (A, C, G, T, N); nothing but their width is learned.

    >>> windows = np.array([[0, 1, 2, 3, 4, 0, 1, 2]], dtype=np.uint8)
    >>> encoder = DnaEncoder(InputConfig(filter_bases=3, pool=4)).fit(windows)
    >>> encoder.encode(windows).node_names(0)
    ['1-4', '5-8']
    >>> reverse_complement(windows).tolist()
    [[1, 2, 3, 4, 0, 1, 2, 3]]
    """

    kind = "dna"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.window = 0

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> DnaEncoder:
        windows = bases_of(rows)
        if 0 in windows.shape:
            raise DataError(
                f"an array of shape {windows.shape} was given as DNA; at least one row and one base are needed"
            )
        self.window = windows.shape[1]
        return self

    def parse(self, rows: Any) -> np.ndarray:
        windows = bases_of(rows)
        if windows.shape[1] != self.window:
            raise DataError(
                f"the windows have {windows.shape[1]} bases, but the model was trained on windows of {self.window}; "
                "cut them to the same width"
            )
        return windows

    def nodes_of(self, windows: np.ndarray) -> NodeRows:
        """Every base is a node here, one byte each; the embedding pools them."""
        most = self.config.max_nodes * self.config.pool
        if windows.shape[1] > most:
            warn_of_cut_rows(len(windows), len(windows), self.config.max_nodes)
            windows = windows[:, :most]
        n, width = windows.shape
        return NodeRows(offsets=np.arange(n + 1, dtype=np.int64) * width, vectors=windows.reshape(-1, 1))

    def other_nodes_of(self, windows: np.ndarray) -> NodeRows | None:
        """The other strand, where the settings ask for both."""
        return self.nodes_of(reverse_complement(windows)) if self.config.both_strands else None

    def features_of(self, windows: np.ndarray) -> sparse.csr_matrix:
        """Counts of six-base words, each word and its reverse complement as one; log, each row of length one.

        Words of three and three bases around a gap, whichever of the gaps it is, come behind, at a lower weight.
        """
        words = _word_counts(windows, [0])
        gaps = self.config.gap_lengths
        if not gaps:
            return words
        return unit_rows(sparse.hstack([words, GAPPED_WEIGHT * _word_counts(windows, gaps)], format="csr"))

    def embedding(self, width: int) -> MotifNodes:
        return MotifNodes(self.config.filter_bases, self.config.pool, width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        """The first and last base of each node, as people count them."""
        return [f"{start + 1}-{end}" for ((start, end),) in self.node_places(encoded, row)]

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        pool = self.config.pool
        bases = min(self.window, self.config.max_nodes * pool)
        return [((start, min(start + pool, bases)),) for start in range(0, bases, pool)]

    @property
    def n_features(self) -> int:
        return canonical_words()[1] * (2 if self.config.gap_lengths else 1)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        """A word of six bases with the word that it is on the other strand; two points for a gap."""
        return [NamedFeature(" / ".join(dict.fromkeys(_words_of(int(column))))) for column in columns]

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        bases = "".join(BASES[base] for base in encoded.parsed[row])
        found = []
        for named, column in zip(self.name_features(columns), columns, strict=True):
            gapped, spans = int(column) >= canonical_words()[1], []
            for gap in self.config.gap_lengths if gapped else [0]:
                words = "|".join(word.replace("..", "." * gap) for word in _words_of(int(column)))
                spans += [at.span(1) for at in re.finditer(f"(?=({words}))", bases)]  # of words that overlap too
            found.append(named._replace(places=tuple(sorted(spans))))
        return found

    def no_rows(self) -> np.ndarray:
        return np.zeros((0, 0), dtype=np.uint8)

    def state(self) -> dict[str, Any]:
        return {"window": self.window}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> DnaEncoder:
        encoder = cls(config)
        encoder.window = saved_count(state, "window", low=1)
        return encoder


def bases_of(rows: Any) -> np.ndarray:
    """uint8 (n, W) windows of base numbers; `lampnet.data.dna_bases` makes them of letters."""
    windows = np.asarray(rows)
    if windows.ndim != 2 or windows.dtype.kind not in "iu":
        raise DataError(
            f"an array of shape {windows.shape} and type {windows.dtype} was given; DNA windows are uint8 of shape "
            "(rows, bases) with A, C, G, T, N as 0, 1, 2, 3, 4"
        )
    if windows.size and (windows.min() < 0 or windows.max() > UNKNOWN_BASE):
        row = int(np.flatnonzero(((windows < 0) | (windows > UNKNOWN_BASE)).any(axis=1))[0])
        raise DataError(f"row {row} holds a base number outside 0..4 (A, C, G, T, N)")
    return windows.astype(np.uint8, copy=False)


def reverse_complement(rows: np.ndarray) -> np.ndarray:
    """The other strand of each window, read in its own direction, uint8 (n, W)."""
    return np.ascontiguousarray(np.array([3, 2, 1, 0, 4], dtype=np.uint8)[rows[:, ::-1]])


def word_offsets(gap: int) -> list[int]:
    """Where the six bases of a word lie, three and three around a gap.

    >>> word_offsets(0), word_offsets(2)
    ([0, 1, 2, 3, 4, 5], [0, 1, 2, 5, 6, 7])
    """
    return [i + gap * (i >= KMER // 2) for i in range(KMER)]


def _word_counts(windows: np.ndarray, gaps: Sequence[int]) -> sparse.csr_matrix:
    """Log counts of words around any of these gaps, each row of length one.

    Their bases lie the same from both ends, so the other strand has the same words as for bases side by side.
    """
    table, n_words = canonical_words()
    parts = [sparse.csr_matrix((0, n_words), dtype=np.float32)]
    for first in range(0, len(windows), CHUNK):
        part = windows[first : first + CHUNK]
        known = part < UNKNOWN_BASE
        counts = sparse.csr_matrix((len(part), n_words), dtype=np.float32)
        for gap in gaps:
            offsets = word_offsets(gap)
            starts = max(0, part.shape[1] - offsets[-1])
            code = np.zeros((len(part), starts), dtype=np.int64)
            whole = np.ones((len(part), starts), dtype=bool)
            for i in offsets:
                code = code * 4 + part[:, i : i + starts]
                whole &= known[:, i : i + starts]
            row, _ = np.nonzero(whole)
            counts = counts + counted(row, table[code[whole]], (len(part), n_words))
        counts.data = np.log1p(counts.data)
        parts.append(counts)
    return unit_rows(sparse.vstack(parts, format="csr"))


def _words_of(column: int) -> tuple[str, str]:
    """The six bases of a feature, and those of the other strand.

    >>> _words_of(1), _words_of(2080 + 1)
    (('AAAAAC', 'GTTTTT'), ('AAA..AAC', 'GTT..TTT'))
    """
    table, n_words = canonical_words()
    gapped, number = divmod(column, n_words)
    code = int(np.argmax(table == number))  # the lesser of the two
    word = "".join(BASES[code // 4**place % 4] for place in reversed(range(KMER)))
    other = "".join(BASES[3 - BASES.index(base)] for base in reversed(word))
    half, gap = KMER // 2, gapped * ".."
    return word[:half] + gap + word[half:], other[:half] + gap + other[half:]


@cache
def canonical_words() -> tuple[np.ndarray, int]:
    """For each six-base word its number among words that equal their reverse complement's, and how many there are."""
    codes, powers = np.arange(4**KMER), 4 ** np.arange(KMER)
    reverse = (3 - codes[:, None] // powers % 4) @ powers[::-1]
    kept, table = np.unique(np.minimum(codes, reverse), return_inverse=True)
    return table, len(kept)
