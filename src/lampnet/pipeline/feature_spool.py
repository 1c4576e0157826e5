"""Features on disk while the base learners learn from them: written once, in order, and read in every pass."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.protocol import Features
from lampnet.pipeline.mapped_rows import GrowingArray


class FeatureSpool:
    """Features (n, F), sparse or dense, that are appended in chunks and then read back in blocks.

    chunks  the number of rows of every chunk
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.chunks = folder, list[int]()
        self.n_features, self.ends = 0, 0
        self._growing: dict[str, GrowingArray] = {}
        self._arrays: dict[str, Any] = {}

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.chunks), self.n_features

    def append(self, X: Features) -> None:
        self.n_features = X.shape[1]
        if sparse.issparse(X):
            X = sparse.csr_matrix(X)
            offsets = X.indptr.astype(np.int64) + self.ends
            self.ends = int(offsets[-1])
            self._append("offsets", offsets[1:] if self.chunks else offsets)
            self._append("ids", X.indices.astype(np.int32))
            self._append("values", X.data.astype(np.float32))
        else:
            self._append("vectors", np.asarray(X, dtype=np.float32))
        self.chunks.append(X.shape[0])

    def _append(self, name: str, rows: np.ndarray) -> None:
        if name not in self._growing:
            self._growing[name] = GrowingArray(self.folder / f"{name}.npy", rows)
        self._growing[name].append(rows)

    def finish(self) -> None:
        """From now on rows are read."""
        for name, array in self._growing.items():
            array.close()
            self._arrays[name] = np.load(self.folder / f"{name}.npy", mmap_mode="r") if array.length else array.empty()

    def digest(self) -> str:
        """A fingerprint of the rows."""
        arrays = sorted(self._growing.items())
        return " ".join(f"{name} {array.digest.hexdigest()}" for name, array in arrays) + f" {self.shape}"

    def block(self, first: int, last: int) -> Features:
        """The rows from `first` to before `last`, in memory."""
        if "vectors" in self._arrays:
            return np.array(self._arrays["vectors"][first:last])
        offsets = np.array(self._arrays["offsets"][first : last + 1])
        entries = slice(int(offsets[0]), int(offsets[-1]))
        values, ids = (np.array(self._arrays[name][entries]) for name in ("values", "ids"))
        return sparse.csr_matrix(
            (values, ids, (offsets - offsets[0]).astype(np.int32)), shape=(last - first, self.n_features)
        )

    def remove(self) -> None:
        """The rows are no longer needed."""
        self._arrays = {}
        for array in self._growing.values():
            array.file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
