"""tf-idf of words, of word pairs in short texts and of the opening of long ones: features for a linear model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from lampnet.encoders.restore import saved_array
from lampnet.encoders.unit_rows import unit_rows
from lampnet.encoders.wordset import counted, inverse_document_frequency
from lampnet.errors import DataError

PAIR_DOCUMENTS = 3
#: pairs help short texts (goemotions: micro-F1 .513 -> .528) and hurt long ones (Reuters: .866 -> .852)
SHORT_TEXT = 40
MOST_PAIRS = 60_000
#: the title and first sentences of a long text count once more: results/trials/reuters21578.json
OPENING_WORDS = 32
OPENING_WEIGHT = 0.7


class TextWeights:
    """Inverse document frequencies of the words and, for short texts, the frequent word pairs of training rows.

    idf      float32 (V,)
    pairs    int64 (P,), sorted: first * V + second, for neighbouring known words in at least three rows
    opening  how many words of a long text are its opening; 0 for short texts
    """

    def __init__(self, idf: np.ndarray, pairs: np.ndarray, pair_idf: np.ndarray, opening: int = 0) -> None:
        self.idf, self.pairs, self.pair_idf, self.opening = idf, pairs, pair_idf, opening

    @classmethod
    def learn(cls, numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> TextWeights:
        """From the token numbers of training rows (-1: unknown)."""
        n = len(offsets) - 1
        counts = word_counts(numbers, offsets, vocabulary)
        idf = inverse_document_frequency(np.bincount(counts.indices, minlength=vocabulary), n)
        if counts.sum() > SHORT_TEXT * n:
            return cls(idf, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), OPENING_WORDS)
        row, pair = _pairs(numbers, offsets, vocabulary)
        once = np.unique(np.stack([pair, row]), axis=1)[0] if len(pair) else pair  # once per row
        pairs, documents = np.unique(once, return_counts=True)
        often = np.flatnonzero(documents >= PAIR_DOCUMENTS)
        if len(often) > MOST_PAIRS:
            often = np.sort(often[np.argsort(-documents[often], kind="stable")[:MOST_PAIRS]])
        return cls(idf, pairs[often], inverse_document_frequency(documents[often], n))

    def nodes(self, numbers: np.ndarray, offsets: np.ndarray) -> sparse.csr_matrix:
        """(n, V): the weights (1 + log tf) * idf of the distinct words of each row."""
        return _weighted(word_counts(numbers, offsets, len(self.idf)), self.idf)

    def features(self, words: sparse.csr_matrix, numbers: np.ndarray, offsets: np.ndarray) -> sparse.csr_matrix:
        """(n, V + P), words and word pairs, or (n, 2 V), words and those of the opening; each row of length one.

        words  what `nodes` makes of these numbers
        """
        if self.opening:
            first = unit_rows(self.nodes(*_openings(numbers, offsets, self.opening)))
            first.data *= np.float32(OPENING_WEIGHT)
            return unit_rows(_side_by_side(unit_rows(words), first))
        if not len(self.pairs):
            return unit_rows(words)
        row, pair = _pairs(numbers, offsets, len(self.idf))
        index = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        known = self.pairs[index] == pair
        counts = counted(row[known], index[known], (words.shape[0], len(self.pairs)))
        return unit_rows(_side_by_side(words, _weighted(counts, self.pair_idf)))

    def words_of(self, column: int) -> tuple[tuple[int, ...], int | None]:
        """The word or the words of a pair that a feature counts, and among how many of the first words, None for all.

        >>> weights = TextWeights(np.ones(3), np.array([1 * 3 + 2]), np.ones(1))
        >>> weights.words_of(2), weights.words_of(3)
        (((2,), None), ((1, 2), None))
        """
        vocabulary = len(self.idf)
        if column < vocabulary:
            return (column,), None
        if self.opening:
            return (column - vocabulary,), self.opening
        first, second = divmod(int(self.pairs[column - vocabulary]), vocabulary)
        return (first, second), None

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, by name."""
        opening = np.array([self.opening], dtype=np.int64)
        return {"idf": self.idf, "pairs": self.pairs, "pair_idf": self.pair_idf, "opening": opening}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], vocabulary: int) -> TextWeights:
        """Make again what `arrays` described."""
        idf = saved_array(arrays, "idf", "float32", (vocabulary,))
        pairs = saved_array(arrays, "pairs", "int64", (None,))
        if (np.diff(pairs) <= 0).any():
            raise DataError("the saved word pairs are not in order; the model folder is damaged")
        opening = int(saved_array(arrays, "opening", "int64", (1,))[0])
        if opening < 0:
            raise DataError(f"the saved texts' opening has {opening} words; the model folder is damaged")
        return cls(idf, pairs, saved_array(arrays, "pair_idf", "float32", (len(pairs),)), opening)


def word_counts(numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> sparse.csr_matrix:
    """(n, V): how often each known word occurs in each row."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    known = numbers >= 0
    return counted(row[known], numbers[known], (len(offsets) - 1, vocabulary))


def _openings(numbers: np.ndarray, offsets: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and offsets of the first words of each row.

    >>> _openings(np.array([4, 5, 6, 7]), np.array([0, 3, 4]), 2)
    (array([4, 5, 7]), array([0, 2, 3]))
    """
    lengths = np.diff(offsets)
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return numbers[position < words], np.concatenate([[0], np.cumsum(np.minimum(lengths, words))])


def _weighted(counts: sparse.csr_matrix, idf: np.ndarray) -> sparse.csr_matrix:
    counts.data = ((1 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    return counts


def _side_by_side(left: sparse.csr_matrix, right: sparse.csr_matrix) -> sparse.csr_matrix:
    if left.shape[0] != 1:
        return sparse.csr_matrix(sparse.hstack([left, right], format="csr"))
    data, columns = (
        np.concatenate([left.data, right.data]),
        np.concatenate([left.indices, right.indices + left.shape[1]]),
    )
    return sparse.csr_matrix((data, columns, [0, len(data)]), shape=(1, left.shape[1] + right.shape[1]))


def _pairs(numbers: np.ndarray, offsets: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and number of every pair of neighbouring known words."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    inside = (row[1:] == row[:-1]) & (numbers[1:] >= 0) & (numbers[:-1] >= 0)
    return row[1:][inside], numbers[:-1][inside].astype(np.int64) * vocabulary + numbers[1:][inside]
