"""k nearest training rows by cosine similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.protocol import FOLDS, Features
from lampnet.data.splits import fold_numbers

NEIGHBOURS = 60


FEW_ROWS = 4 * NEIGHBOURS


REFERENCE_ROWS = 40_000  # neighbours are sought among at most this many training rows


SIMILARITY_POWER = 6  # votes are cosines to this power


class KNNLearner:
    """The labels of the nearest training rows by cosine, closer ones counting more."""

    def __init__(self) -> None:
        self.X: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.Y: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.prior = np.zeros(0, dtype=np.float32)

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        chosen = self._keep(X, Y_nL, seed)
        if fold_n is None:
            # Where nearly all rows are neighbours of each other, what they say of a row that is left out alone is
            # its own labels turned round; whole folds that are left out do not give their rows away.
            n = len(Y_nL)
            fold_n = np.arange(n) if n >= FEW_ROWS else fold_numbers(n, min(FOLDS, max(2, n // 10)), seed)
        return self._logits(_unit_rows(X), (fold_n, fold_n[chosen]))

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        self._keep(X, Y_nL, seed)

    def _keep(self, X: Features, Y_nL: np.ndarray, seed: int) -> np.ndarray:
        """Remember rows to compare with; return their numbers."""
        known = ~np.isnan(Y_nL)
        self.prior = ((np.nan_to_num(Y_nL).sum(0) + 0.5) / (known.sum(0) + 1.0)).astype(np.float32)
        # An unknown label counts as its prior, so that it neither raises nor lowers a neighbour's say.
        chosen = np.sort(np.random.default_rng(seed).permutation(len(Y_nL))[:REFERENCE_ROWS])
        self.X = _unit_rows(X[chosen])
        self.Y = np.where(known[chosen], Y_nL[chosen], self.prior).astype(np.float32)
        if (self.Y != 0).mean() < 0.2:
            self.Y = sparse.csr_matrix(self.Y)
        return chosen

    def logits(self, X: Features) -> np.ndarray:
        return self._logits(_unit_rows(X), None)

    def _logits(self, X: Any, folds: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        """`folds`: of the rows and of the remembered rows; those of a row's own fold have no say about it."""
        logits = np.empty((X.shape[0], len(self.prior)), dtype=np.float32)
        k = min(NEIGHBOURS, self.X.shape[0] - int(folds is not None))
        for first in range(0, X.shape[0], 512):
            part = X[first : first + 512]
            near = part @ self.X.T
            near = np.asarray(near.todense() if sparse.issparse(near) else near, dtype=np.float32)
            if folds is not None:
                near[folds[0][first : first + 512, None] == folds[1]] = -np.inf
            if k < 1:
                logits[first : first + 512] = _logit(self.prior)
                continue
            closest = np.argpartition(-near, k - 1, axis=1)[:, :k]
            weight = np.maximum(np.take_along_axis(near, closest, axis=1), 0) ** SIMILARITY_POWER
            weight /= np.maximum(weight.max(axis=1, keepdims=True), 1e-12)
            rows = np.repeat(np.arange(len(weight)), k)
            vote = sparse.csr_matrix((weight.ravel(), (rows, closest.ravel())), shape=near.shape)
            votes = vote @ self.Y
            votes = np.asarray(votes.todense() if sparse.issparse(votes) else votes)
            share = (votes + self.prior) / (weight.sum(axis=1, keepdims=True) + 1.0)
            logits[first : first + 512] = _logit(share)
        return logits

    def arrays(self) -> dict[str, np.ndarray]:
        return {"prior": self.prior, **_matrix_arrays("X", self.X), **_matrix_arrays("Y", self.Y)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.prior = arrays["prior"]
        self.X, self.Y = _matrix_from("X", arrays), _matrix_from("Y", arrays)


def _logit(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)), dtype=np.float32)


def _unit_rows(X: Features) -> Any:
    if sparse.issparse(X):
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
        return sparse.csr_matrix(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ X, dtype=np.float32)
    X = np.asarray(X, dtype=np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def _matrix_arrays(name: str, X: Any) -> dict[str, np.ndarray]:
    if not sparse.issparse(X):
        return {name: X}
    return {
        f"{name}.data": X.data.astype(np.float32),
        f"{name}.indices": X.indices.astype(np.int32),
        f"{name}.indptr": X.indptr.astype(np.int64),
        f"{name}.shape": np.array(X.shape, dtype=np.int64),
    }


def _matrix_from(name: str, arrays: dict[str, np.ndarray]) -> Any:
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sparse.csr_matrix(parts, shape=tuple(int(s) for s in arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)
    return matrix
