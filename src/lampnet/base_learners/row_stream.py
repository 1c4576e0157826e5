"""Rows too many to hold in memory: their features in blocks, as often as they are asked for, and their folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from lampnet.base_learners.protocol import Features

#: a pass over the rows reads runs of consecutive rows in random order and shuffles this many runs together
RUN_ROWS, RUNS_TOGETHER = 64, 128


class StoredFeatures(Protocol):
    """Features (n, F) that are not in memory."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def block(self, first: int, last: int) -> Features:
        """The rows from `first` to before `last`, CSR or dense."""
        ...


@dataclass(frozen=True)
class HeldFeatures:
    """Features that are in memory, as if they were not."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def block(self, first: int, last: int) -> Features:
        return self.X[first:last]


@dataclass(frozen=True)
class RowStream:
    """Labelled rows that are read again in every pass.

    features  of the rows
    labels    CSR (n, L): 1 where a row has the label, NaN where that is unknown, else nothing or 0
    fold_n    int (n,): rows of one fold do not influence each other's out-of-fold logits
    blocked   whether folds are blocks of consecutive rows
    """

    features: StoredFeatures
    labels: sparse.csr_matrix
    fold_n: np.ndarray
    blocked: bool = False

    def __len__(self) -> int:
        return self.features.shape[0]

    def take(self, rows: np.ndarray) -> tuple[Features, np.ndarray]:
        """Features and dense labels (n, L) of the rows with these sorted numbers."""
        parts, at = [], 0
        for first, X in self.blocks():
            last = first + X.shape[0]
            end = int(np.searchsorted(rows, last))
            if end > at:
                parts.append(X[rows[at:end] - first])
            at = end
        return stacked_rows(parts), self.labels[rows].toarray().astype(np.float32)

    def blocks(self, size: int = RUN_ROWS * RUNS_TOGETHER) -> Iterator[tuple[int, Features]]:
        """The rows in order: the number of a block's first row, and the block."""
        for first in range(0, len(self), size):
            yield first, self.features.block(first, min(first + size, len(self)))

    def shuffled(self, seed: int) -> Iterator[tuple[np.ndarray, Features]]:
        """All rows in random order, a few thousand at a time: their numbers and features."""
        draw, n = np.random.default_rng(seed), len(self)
        runs = draw.permutation(-(-n // RUN_ROWS))
        for first in range(0, len(runs), RUNS_TOGETHER):
            starts = np.sort(runs[first : first + RUNS_TOGETHER]) * RUN_ROWS
            numbers = np.concatenate([np.arange(start, min(start + RUN_ROWS, n)) for start in starts])
            X = stacked_rows([self.features.block(start, min(start + RUN_ROWS, n)) for start in starts.tolist()])
            order = draw.permutation(len(numbers))
            yield numbers[order], X[order]


def stacked_rows(parts: list[Features]) -> Features:
    """Rows one below the other."""
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_matrix(sparse.vstack(parts))
    return np.vstack(parts)
