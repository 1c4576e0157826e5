"""Word sets: the active features of a row are its nodes; their values scale the vectors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array, saved_names
from lampnet.encoders.spectral import word_directions
from lampnet.encoders.unit_rows import unit_rows
from lampnet.errors import DataError

#: products of all words are looked up where they take at most this many numbers
TABLE_NUMBERS = 64_000_000


class WordVectors(Embedding):
    """z_j = value_j * W^x[id_j]."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(max(1, vocabulary), width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.ids_BS is not None
        assert batch.values_BS is not None
        z_BSD = self.vectors(batch.ids_BS) * batch.values_BS.unsqueeze(-1)
        return z_BSD, batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """Vectors become the right singular vectors of the row-by-word matrix."""
        assert nodes.ids is not None
        assert nodes.values is not None
        vocabulary, width = self.vectors.weight.shape
        matrix = sparse.csr_matrix((nodes.values, nodes.ids, nodes.offsets), shape=(len(nodes), vocabulary), copy=True)
        matrix.sum_duplicates()
        with torch.no_grad():
            self.vectors.weight.copy_(torch.from_numpy(word_directions(matrix, width, seed)))

    def projected(self, matrices: Sequence[Tensor], nodes: int) -> Embedding | None:
        words = self.vectors.num_embeddings
        if nodes < words or words * sum(len(matrix) for matrix in matrices) > TABLE_NUMBERS:
            return None
        return ProjectedWords(self.vectors.weight, matrices)


class ProjectedWords(Embedding):
    """For prediction: the products of every word vector with each of the (K, D) matrices, side by side."""

    def __init__(self, words_VD: Tensor, matrices: Sequence[Tensor]) -> None:
        super().__init__()
        with torch.no_grad():
            self.table = torch.cat([nn.functional.linear(words_VD, matrix) for matrix in matrices], dim=1)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        assert batch.ids_BS is not None
        assert batch.values_BS is not None
        sent = nn.functional.embedding(batch.ids_BS, self.table)
        return sent.mul_(batch.values_BS.unsqueeze(-1)), batch.present_BS, None


class WordSetEncoder(Encoder):
    """Learns the inverse document frequencies of the training rows.

    >>> rows = sparse.csr_matrix([[1.0, 0, 1], [0, 1, 1]])
    >>> encoder = WordSetEncoder(InputConfig(tfidf=False)).fit(rows, ["a", "b", "c"])
    >>> encoder.encode(rows).node_names(0)
    ['a', 'c']
    """

    kind = "wordset"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.idf = np.zeros(0, dtype=np.float32)

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> WordSetEncoder:
        matrix = _finite(rows)
        n, n_features = matrix.shape
        if n == 0 or n_features == 0:
            raise DataError(
                f"a matrix of shape {matrix.shape} was given as word sets; at least one row and one feature are needed"
            )
        if feature_names is not None and len(feature_names) != n_features:
            raise DataError(f"{n_features} features were given with {len(feature_names)} names; give one per feature")
        self.feature_names = tuple(feature_names if feature_names is not None else (f"f{i}" for i in range(n_features)))
        self.idf = inverse_document_frequency(np.bincount(matrix.indices, minlength=n_features), n)
        return self

    def parse(self, rows: Any) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """The values as they came, and multiplied with the inverse document frequencies."""
        matrix = _finite(rows)
        if matrix.shape[1] != len(self.feature_names):
            raise DataError(
                f"the rows have {matrix.shape[1]} features, but the model was trained on {len(self.feature_names)}; "
                "give the same features in the same order"
            )
        weighted = matrix.copy()
        weighted.data = weighted.data * self.idf[weighted.indices]
        return matrix, weighted

    def nodes_of(self, parsed: tuple[sparse.csr_matrix, sparse.csr_matrix]) -> NodeRows:
        plain, weighted = parsed
        return NodeRows.from_csr(heaviest(weighted if self.config.tfidf else plain, self.config.max_nodes))

    def features_of(self, parsed: tuple[sparse.csr_matrix, sparse.csr_matrix]) -> sparse.csr_matrix:
        """tf-idf, each row of length one."""
        return unit_rows(parsed[1])

    @property
    def n_ids(self) -> int:
        return max(1, len(self.feature_names))

    def embedding(self, width: int) -> WordVectors:
        return WordVectors(len(self.feature_names), width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        return [self.feature_names[i] for i in encoded.nodes.ids_of(row)]

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return [NamedFeature(self.feature_names[column]) for column in columns]

    def no_rows(self) -> sparse.csr_matrix:
        return sparse.csr_matrix((0, len(self.feature_names)), dtype=np.float32)

    def state(self) -> dict[str, Any]:
        return {"names": list(self.feature_names)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"idf": self.idf}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> WordSetEncoder:
        encoder = cls(config)
        encoder.feature_names = saved_names(state, "names")
        encoder.idf = saved_array(arrays, "idf", "float32", (len(encoder.feature_names),))
        return encoder


def inverse_document_frequency(documents: np.ndarray, n: int) -> np.ndarray:
    """log((1 + n) / (1 + documents)) + 1, float32: how much a feature in that many of n rows tells."""
    return np.asarray(np.log((1 + n) / (1 + documents)) + 1, dtype=np.float32)


def counted(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    """How often each pair of a row and a column occurs, CSR float32 of this shape; `row` is in ascending order."""
    starts = np.searchsorted(row, np.arange(shape[0] + 1))
    counts = sparse.csr_matrix((np.ones(len(row), dtype=np.float32), column, starts), shape=shape)
    counts.sum_duplicates()
    return counts


def heaviest(matrix: sparse.csr_matrix, max_nodes: int) -> sparse.csr_matrix:
    """Keep the heaviest features of rows that have more than `max_nodes`, and warn how many rows were cut."""
    lengths = np.diff(matrix.indptr)
    long = np.flatnonzero(lengths > max_nodes)
    if not len(long):
        return matrix
    warn_of_cut_rows(len(long), matrix.shape[0], max_nodes)
    keep = np.ones(matrix.nnz, dtype=bool)
    for row in long:
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        light = np.argsort(-np.abs(matrix.data[span]), kind="stable")[max_nodes:]
        keep[matrix.indptr[row] + light] = False
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, max_nodes))])
    return sparse.csr_matrix((matrix.data[keep], matrix.indices[keep], offsets), shape=matrix.shape)


def warn_of_cut_rows(cut: int, n: int, max_nodes: int) -> None:
    """Warn how many rows lost nodes, if any."""
    if cut:
        found = f"{cut} of {n} rows had more than {max_nodes} nodes and were cut"
        warnings.warn(f"{found}; raise input.max_nodes to keep them whole", UserWarning, stacklevel=3)


def _finite(rows: Any) -> sparse.csr_matrix:
    """CSR float32 without duplicates and stored zeros; anything but finite numbers is refused."""
    matrix = sparse.csr_matrix(rows, dtype=np.float32, copy=True)  # the caller's matrix keeps its stored zeros
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        bad = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right") - 1)
        raise DataError(f"row {bad} holds a value that is not a finite number; word sets have none missing")
    return matrix
