"""Dense vectors: one linear node per row, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array, saved_count
from lampnet.encoders.spectral import start_projection
from lampnet.errors import DataError

#: numbers beyond this are refused: the sum of their squares would leave float64
LARGEST = 1e150
#: standardised values are clipped here, because float32 products of larger ones overflow
FARTHEST = 1e4


class LinearNode(Embedding):
    """z = W^x x + b, for the one node of a row."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(features, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.vectors_BSF is not None
        return self.projection(batch.vectors_BSF), batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """The principal directions of the training rows."""
        assert nodes.vectors is not None
        start_projection(self.projection, nodes.vectors, seed)


class VectorEncoder(Encoder):
    """Learns mean and spread of each number from the training rows.

    >>> encoder = VectorEncoder(InputConfig()).fit(np.array([[0.0, 5.0], [2.0, 5.0]]))
    >>> encoder.encode(np.array([[2.0, 5.0]])).features.tolist()
    [[1.0, 0.0]]
    """

    kind = "vector"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.mean, self.spread = np.zeros(0), np.ones(0)

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> VectorEncoder:
        X = numbers_of(rows)
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise DataError(
                f"an array of shape {X.shape} was given as vectors; at least one row and one number are needed"
            )
        self.mean, self.spread = mean_and_spread(X)
        return self

    def parse(self, rows: Any) -> np.ndarray:
        """The standardised vector, float32 (n, F)."""
        X = numbers_of(rows)
        if X.shape[1] != len(self.mean):
            raise DataError(
                f"the rows have {X.shape[1]} numbers, but the model was trained on {len(self.mean)}; "
                "give the same features in the same order"
            )
        return standardised(X, self.mean, self.spread)

    def nodes_of(self, parsed: np.ndarray) -> NodeRows:
        return NodeRows(offsets=np.arange(len(parsed) + 1, dtype=np.int64), vectors=parsed)

    def features_of(self, parsed: np.ndarray) -> np.ndarray:
        return parsed

    def embedding(self, width: int) -> LinearNode:
        return LinearNode(len(self.mean), width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        return ["vector"]

    @property
    def n_features(self) -> int:
        return len(self.mean)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return [NamedFeature(f"number {column}") for column in columns]

    @property
    def feature_count(self) -> int:
        return len(self.mean)

    def no_rows(self) -> np.ndarray:
        return np.zeros((0, len(self.mean)), dtype=np.float32)

    def state(self) -> dict[str, Any]:
        return {"features": len(self.mean)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "spread": self.spread}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> VectorEncoder:
        encoder = cls(config)
        encoder.mean, encoder.spread = saved_mean_and_spread(arrays, saved_count(state, "features", low=1))
        return encoder


def numbers_of(rows: Any) -> np.ndarray:
    """A dense float64 (n, F) array of finite numbers."""
    X = dense_numbers(rows, "vectors must be numbers (use the kind columns for tables)")
    bad = np.flatnonzero(~(np.abs(X) <= LARGEST).all(axis=1))
    if len(bad) and np.isfinite(X[bad]).all():
        raise DataError(
            f"row {bad[0]} holds the number {X[bad[0]][np.abs(X[bad[0]]).argmax()]:g} ({len(bad)} such rows); numbers "
            f"must lie between -{LARGEST:g} and {LARGEST:g}; divide them, or give their logarithms"
        )
    if len(bad):
        bad = bad[~np.isfinite(X[bad]).all(axis=1)]
        raise DataError(
            f"row {bad[0]} holds a missing or infinite number ({len(bad)} such rows); "
            "fill them, or use the kind columns, which has a vector for missing values"
        )
    return X


def dense_numbers(rows: Any, expected: str) -> np.ndarray:
    """A dense or sparse matrix or a list of lists as float64 (n, F)."""
    try:
        X = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{expected}, not text or rows of different lengths") from None
    if X.ndim != 2:
        raise DataError(f"{expected}, one row of them per row, not an array of shape {X.shape}")
    return X


def mean_and_spread(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, float64 (F,), without its missing (NaN) values.

    A constant column (scikit-learn's test: rounding alone could have made its variance) has spread 1.
    """
    X = np.asarray(X, dtype=np.float64)
    known = np.isfinite(X)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X, 0.0).sum(axis=0) / count
    mean += np.where(known, X - mean, 0.0).sum(axis=0) / count  # what rounding took from a mean far from zero
    variance = np.where(known, np.square(X - mean), 0.0).sum(axis=0) / count
    eps = np.finfo(np.float64).eps
    constant = variance <= count * eps * variance + np.square(count * mean * eps)
    return mean, np.where(constant, 1.0, np.sqrt(variance))


def standardised(X: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """(X - mean) / spread, float32 (n, F), no further than `FARTHEST` from 0; NaN stays NaN."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip((X - mean) / spread, -FARTHEST, FARTHEST), dtype=np.float32)


def saved_mean_and_spread(arrays: Mapping[str, np.ndarray], features: int) -> tuple[np.ndarray, np.ndarray]:
    """The saved arrays `mean` and `spread`, float64 (F,)."""
    return saved_array(arrays, "mean", "float64", (features,)), saved_spread(arrays, "spread", "float64", features)


def saved_spread(arrays: Mapping[str, np.ndarray], key: str, kind: str, features: int) -> np.ndarray:
    """A saved array (F,), all of it above zero."""
    spread = saved_array(arrays, key, kind, (features,))
    if not (spread > 0).all():
        raise DataError("the saved encoder's spreads must be above zero; the model folder is damaged")
    return spread
