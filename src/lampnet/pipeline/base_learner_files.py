"""Base learners on disk while a training runs: one that was fitted is never fitted again.

Each fitted base learner is a file `base-NAME` beside the checkpoints: its arrays, its out-of-fold logits, and the
identity of what it was fitted on. A file of other rows or settings, or a damaged one, is passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from lampnet.base_learners.protocol import BaseLearner, Features
from lampnet.base_learners.restore import fits, fits_streamed
from lampnet.base_learners.row_stream import RowStream
from lampnet.base_learners.stack import LEARNERS, FittedLearner, Stack
from lampnet.base_learners.streamed_stack import StreamedLearner
from lampnet.errors import CheckpointError
from lampnet.persistence.tensor_file import arrays_under
from lampnet.runtime.atomic_files import remove_file
from lampnet.training.checkpoint import read_checkpoint, write_checkpoint

PREFIX = "base-"
EMBEDDINGS = f"{PREFIX}embeddings"
OUT_OF_FOLD = "out_of_fold"
#: the files that a fit writes
FILES = frozenset(f"{PREFIX}{name}" for name in LEARNERS)
#: a learner of streamed rows that is larger is not kept: it is written from memory
MOST_BYTES = 1 << 30


class BaseLearnerFiles:
    """The base learners of one fit in a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def save(self, name: str, learner: BaseLearner, out_of_fold: np.ndarray) -> None:
        """Keep a learner that was just fitted; a full disk costs the file, not the fit."""
        self._write(name, learner, {OUT_OF_FOLD: out_of_fold})

    def save_streamed(self, name: str, learner: BaseLearner, apart: Mapping[str, np.ndarray]) -> None:
        """Keep a learner of streamed rows that was just fitted, unless it is very large."""
        if sum(array.nbytes for array in (*learner.arrays().values(), *apart.values())) <= MOST_BYTES:
            self._write(name, learner, {f"apart.{key}": value for key, value in apart.items()})

    def _write(self, name: str, learner: BaseLearner, beside: Mapping[str, np.ndarray]) -> None:
        if self.folder is None:
            return
        arrays = {f"array.{key}": value for key, value in learner.arrays().items()} | dict(beside)
        tensors = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()}
        try:
            write_checkpoint(self.folder / f"{PREFIX}{name}", tensors, {"identity": self.identity})
        except CheckpointError:
            remove_file(self.folder / f"{PREFIX}{name}")

    def restored(
        self, names: tuple[str, ...], X: Features, Y_nL: np.ndarray, embedded: int = 0
    ) -> dict[str, FittedLearner]:
        """Those of the named learners that were fitted on these rows with the same settings.

        embedded  how many of the last features are a pretrained encoder's
        """
        stack = Stack(names, embedded)
        found: dict[str, FittedLearner] = {}
        for name in names:
            kept = self._read(name)
            if kept is None:
                continue
            fitted = FittedLearner(arrays_under(kept, "array."), kept.get(OUT_OF_FOLD, np.zeros(0)))
            if fits(name, fitted, stack.columns_of(name, X[:1]), Y_nL):
                found[name] = fitted
        return found

    def restored_streamed(self, names: tuple[str, ...], rows: RowStream) -> dict[str, StreamedLearner]:
        """Those of the named learners that were fitted on these streamed rows with the same settings."""
        found: dict[str, StreamedLearner] = {}
        for name in names:
            kept = self._read(name)
            if kept is None:
                continue
            fitted = StreamedLearner(arrays_under(kept, "array."), arrays_under(kept, "apart."))
            if fits_streamed(name, fitted, rows):
                found[name] = fitted
        return found

    def _read(self, name: str) -> dict[str, np.ndarray] | None:
        """What the file of a learner holds; None where there is none of this fit."""
        if self.folder is None:
            return None
        path = self.folder / f"{PREFIX}{name}"
        try:
            kept = read_checkpoint(path) if path.is_file() else None
        except CheckpointError:
            return None
        if kept is None or kept.state.get("identity") != self.identity:
            return None
        try:
            return {key: tensor.numpy() for key, tensor in kept.tensors.items()}
        except TypeError:  # a kind of number that NumPy does not have
            return None


def has_base_learner_files(folder: Path) -> bool:
    """Whether a run has fitted base learners."""
    return any(folder.glob(f"{PREFIX}*"))


def remove_base_learner_files(folder: Path) -> None:
    """Forget the base learners of an earlier run."""
    for path in folder.glob(f"{PREFIX}*"):
        remove_file(path)


def identity_of(X: Features, Y_nL: np.ndarray, *settings: Any) -> str:
    """A fingerprint of features, labels and settings."""
    digest = hashlib.sha256(repr(settings).encode())
    arrays = [X.indptr, X.indices, X.data] if sparse.issparse(X) else [X]
    for array in (*arrays, Y_nL):
        digest.update(str((array.dtype, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
