"""tf-idf of words and of word pairs: what a linear model reads of a text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from lampnet.errors import DataError
from lampnet.inputs.saved import saved_array
from lampnet.inputs.wordset import inverse_document_frequency, unit_rows

PAIR_DOCUMENTS = 3
#: pairs help short texts (goemotions: micro-F1 .513 -> .528) and hurt long ones (Reuters: .866 -> .852)
SHORT_TEXT = 40
MOST_PAIRS = 60_000


class TextWeights:
    """Inverse document frequencies of the words and, for short texts, the frequent word pairs of training rows.

    idf    float32 (V,)
    pairs  int64 (P,), sorted: first * V + second, for neighbouring known words in at least three rows
    """

    def __init__(self, idf: np.ndarray, pairs: np.ndarray, pair_idf: np.ndarray) -> None:
        self.idf, self.pairs, self.pair_idf = idf, pairs, pair_idf

    @classmethod
    def learn(cls, numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> TextWeights:
        """From the token numbers of training rows (-1: unknown)."""
        n = len(offsets) - 1
        counts = word_counts(numbers, offsets, vocabulary)
        idf = inverse_document_frequency(np.bincount(counts.indices, minlength=vocabulary), n)
        if counts.sum() > SHORT_TEXT * n:
            return cls(idf, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
        row, pair = _pairs(numbers, offsets, vocabulary)
        # Documents, not occurrences: each pair counts once a row.
        once = np.unique(np.stack([pair, row]), axis=1)[0] if len(pair) else pair
        pairs, documents = np.unique(once, return_counts=True)
        often = np.flatnonzero(documents >= PAIR_DOCUMENTS)
        if len(often) > MOST_PAIRS:
            often = np.sort(often[np.argsort(-documents[often], kind="stable")[:MOST_PAIRS]])
        return cls(idf, pairs[often], inverse_document_frequency(documents[often], n))

    def nodes(self, numbers: np.ndarray, offsets: np.ndarray) -> sparse.csr_matrix:
        """(n, V): the weights (1 + log tf) * idf of the distinct words of each row."""
        return _weighted(word_counts(numbers, offsets, len(self.idf)), self.idf)

    def features(self, numbers: np.ndarray, offsets: np.ndarray) -> sparse.csr_matrix:
        """(n, V + P): words and word pairs, each row of length one."""
        words = self.nodes(numbers, offsets)
        if not len(self.pairs):
            return unit_rows(words)
        row, pair = _pairs(numbers, offsets, len(self.idf))
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        known = self.pairs[place] == pair
        counts = _counted(row[known], place[known], (words.shape[0], len(self.pairs)))
        return unit_rows(sparse.hstack([words, _weighted(counts, self.pair_idf)], format="csr"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, by name."""
        return {"idf": self.idf, "pairs": self.pairs, "pair_idf": self.pair_idf}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], vocabulary: int) -> TextWeights:
        """Make again what `arrays` described."""
        idf = saved_array(arrays, "idf", "float32", (vocabulary,))
        pairs = saved_array(arrays, "pairs", "int64", (None,))
        if (np.diff(pairs) <= 0).any():
            raise DataError("the saved word pairs are not in order; the model folder is damaged")
        return cls(idf, pairs, saved_array(arrays, "pair_idf", "float32", (len(pairs),)))


def word_counts(numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> sparse.csr_matrix:
    """(n, V): how often each known word occurs in each row."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    known = numbers >= 0
    return _counted(row[known], numbers[known], (len(offsets) - 1, vocabulary))


def _counted(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    counts = sparse.coo_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=shape).tocsr()
    counts.sort_indices()
    return counts


def _weighted(counts: sparse.csr_matrix, idf: np.ndarray) -> sparse.csr_matrix:
    counts.data = ((1 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    return counts


def _pairs(numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and number of every pair of neighbouring known words."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    inside = (row[1:] == row[:-1]) & (numbers[1:] >= 0) & (numbers[:-1] >= 0)
    return row[1:][inside], numbers[:-1][inside].astype(np.int64) * vocabulary + numbers[1:][inside]
