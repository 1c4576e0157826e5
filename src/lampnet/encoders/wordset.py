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
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array, saved_names
from lampnet.encoders.spectral import word_directions
from lampnet.errors import DataError


class WordVectors(nn.Module):
    """z_j = value_j * W^x[id_j]."""

    thin_before = True

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


class WordSetEncoder:
    """Learns the inverse document frequencies of the training rows.

    >>> rows = sparse.csr_matrix([[1.0, 0, 1], [0, 1, 1]])
    >>> encoder = WordSetEncoder(InputConfig(tfidf=False)).fit(rows, ["a", "b", "c"])
    >>> encoder.node_names(rows, 0)
    ['a', 'c']
    """

    kind = "wordset"
    edge_types = 0

    def __init__(self, config: InputConfig) -> None:
        self.config = config
        self.names: tuple[str, ...] = ()
        self.idf = np.zeros(0, dtype=np.float32)

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> WordSetEncoder:
        matrix = _finite(rows)
        n, n_features = matrix.shape
        if n == 0 or n_features == 0:
            raise DataError(f"word sets need rows and features; a matrix of shape {matrix.shape} came")
        if feature_names is not None and len(feature_names) != n_features:
            raise DataError(f"{n_features} features came with {len(feature_names)} names; give one a feature")
        self.names = tuple(feature_names) if feature_names is not None else tuple(f"f{i}" for i in range(n_features))
        self.idf = inverse_document_frequency(np.bincount(matrix.indices, minlength=n_features), n)
        return self

    def encode(self, rows: Any) -> NodeRows:
        matrix = self._checked(rows)
        return NodeRows.from_csr(
            heaviest(self._weighted(matrix) if self.config.tfidf else matrix, self.config.max_nodes)
        )

    def linear_features(self, rows: Any) -> sparse.csr_matrix:
        """tf-idf, each row of length one."""
        return unit_rows(self._weighted(self._checked(rows)))

    def embedding(self, width: int) -> WordVectors:
        return WordVectors(len(self.names), width)

    def node_names(self, rows: Any, row: int) -> list[str]:
        ids = self.encode(self._checked(rows)[[row]]).ids
        assert ids is not None
        return [self.names[i] for i in ids]

    def other_view(self, rows: Any) -> None:
        return None

    def state(self) -> dict[str, Any]:
        return {"names": list(self.names)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"idf": self.idf}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> WordSetEncoder:
        encoder = cls(config)
        encoder.names = saved_names(state, "names")
        encoder.idf = saved_array(arrays, "idf", "float32", (len(encoder.names),))
        return encoder

    def _checked(self, rows: Any) -> sparse.csr_matrix:
        matrix = _finite(rows)
        if matrix.shape[1] != len(self.names):
            raise DataError(
                f"rows with {matrix.shape[1]} features came to a model trained on {len(self.names)}; "
                "give the same features in the same order"
            )
        return matrix

    def _weighted(self, matrix: sparse.csr_matrix) -> sparse.csr_matrix:
        weighted = matrix.copy()
        weighted.data = weighted.data * self.idf[weighted.indices]
        return weighted


def inverse_document_frequency(documents: np.ndarray, n: int) -> np.ndarray:
    """log((1 + n) / (1 + documents)) + 1, float32: how much a feature in that many of n rows tells."""
    return np.asarray(np.log((1 + n) / (1 + documents)) + 1, dtype=np.float32)


def unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Each row divided by its length; empty rows stay empty."""
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
    scale = (1 / np.maximum(length, 1e-12)).astype(np.float32)
    return sparse.csr_matrix(
        (matrix.data * np.repeat(scale, np.diff(matrix.indptr)), matrix.indices, matrix.indptr), shape=matrix.shape
    )


def heaviest(matrix: sparse.csr_matrix, max_nodes: int) -> sparse.csr_matrix:
    """Keep the heaviest features of rows that have more than `max_nodes`, and say how many rows were cut."""
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
    """Say how many rows lost nodes."""
    warnings.warn(
        f"{cut} of {n} rows had more than {max_nodes} nodes and were cut; raise input.max_nodes to keep them whole",
        UserWarning,
        stacklevel=3,
    )


def _finite(rows: Any) -> sparse.csr_matrix:
    """CSR float32 without duplicates and stored zeros; anything but finite numbers is refused."""
    matrix = sparse.csr_matrix(rows, dtype=np.float32, copy=True)  # the caller's matrix keeps its stored zeros
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        bad = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right") - 1)
        raise DataError(f"row {bad} holds a value that is not a finite number; word sets have none missing")
    return matrix
