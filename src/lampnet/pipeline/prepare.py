"""Encode rows once into a folder of memory-mapped arrays, a chunk at a time.

Encoder and opinions are learned from a sample of the training rows. A sampled row's opinions are
out-of-fold, as in `lampnet.base_learners.stack`; every other row is judged by a model that never saw it: nowhere
does a row's own label reach its opinions. Where rows come in order (`lampnet.data.splits`), the last are for
validation and the stretch before them teaches the opinions, so that no model judges rows amid its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from lampnet.base_learners.protocol import FOLDS
from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import VALIDATION_FRACTION, fold_numbers, serially_correlated_rows
from lampnet.encoders import make_encoder
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import DataError
from lampnet.pipeline.mapped_rows import MANIFEST, PartWriter, write_manifest

MOST_VALIDATION_ROWS = 20_000
#: rows that vocabulary, means and document frequencies are learned from, and how many of them teach the opinions
ENCODER_ROWS = 200_000
BASE_LEARNER_ROWS = 50_000
#: base_logits that would take more bytes on disk than this are left out
MAX_BASE_LOGIT_BYTES = 16 << 30
CHUNK_ROWS = 20_000


class Chunks(Protocol):
    """Rows in order, in chunks of one data set, as often as they are asked for."""

    rows: int
    label_names: tuple[str, ...]

    def __iter__(self) -> Iterator[Dataset]: ...

    def labels(self) -> sparse.csr_matrix | None:
        """CSR (n, L) of all rows, above 0 where a row has the label; None where the rows carry none."""
        ...


class WholeInChunks:
    """A data set that is in memory already, cut into chunks."""

    def __init__(self, data: Dataset, size: int = CHUNK_ROWS) -> None:
        self.data, self.size = data, size
        self.rows, self.label_names = len(data), data.label_names

    def __iter__(self) -> Iterator[Dataset]:
        for first in range(0, self.rows, self.size):
            yield self.data.take(np.arange(first, min(first + self.size, self.rows)))

    def labels(self) -> sparse.csr_matrix | None:
        return self.data.labels


def prepare(
    train: Chunks,
    folder: Path,
    config: Config,
    valid: Chunks | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    columns: Mapping[str, Any] | None = None,
) -> None:
    """Write a prepared folder for `lampnet train`; validation rows are drawn from `train` where none came.

    Of rows that come in order the last are taken. `columns` tells what a table's columns were taken for.
    """
    _claim(folder)
    n, labels = train.rows, train.labels()
    serially_correlated = valid is None and labels is not None and serially_correlated_rows(labels)
    del labels
    held = min(max(1, round(n * VALIDATION_FRACTION)), MOST_VALIDATION_ROWS) if valid is None else 0
    if n - held < 2:
        raise DataError(f"{n} rows came; at least three are needed to train and to validate")
    if serially_correlated:
        say("rows that follow each other are alike: parts are cut in their order")
    drawn = _drawn(n, held, config.training.seed, serially_correlated)
    is_valid = np.zeros(n, dtype=bool)
    is_valid[drawn[:held]] = True
    sample = np.sort(drawn[held : held + ENCODER_ROWS])
    judged = np.sort(drawn[held : held + BASE_LEARNER_ROWS])
    say(f"learning the encoder from {len(sample):,} of {n - held:,} training rows")
    learned = Dataset.joined(list(_rows_of(train, sample)))
    if learned.labels is None:
        raise DataError(f"{learned.name}: the training rows carry no labels; give rows with labels")
    encoder = make_encoder(learned.kind, config.input).fit(learned.rows, learned.feature_names)
    config = config.resolved(learned.kind, n, len(train.label_names))
    config = _affordable(config, n, len(train.label_names), say)
    stack, base_logits = _fit_base_learners(
        config, encoder, learned.take(np.searchsorted(sample, judged)), say, serially_correlated
    )
    del learned
    say(f"encoding {n:,} rows")
    parts: dict[str, PartWriter] = {name: PartWriter(folder / name) for name in ("train", "valid")}
    try:
        first = 0
        for chunk in train:
            numbers = np.arange(first, first + len(chunk))
            first += len(chunk)
            encoded = encoder.encode(chunk.rows, chunk.row_edges)
            own = _base_logits_of(stack, encoded, numbers, judged, base_logits)
            for name, chosen in (("train", ~is_valid[numbers]), ("valid", is_valid[numbers])):
                if chosen.any():
                    _write(parts, folder, name, encoded, chunk, own, np.flatnonzero(chosen))
        for chunk in valid if valid is not None else ():
            encoded = encoder.encode(chunk.rows, chunk.row_edges)
            own = _base_logits_of(stack, encoded, np.zeros(0, dtype=np.int64), judged, base_logits)
            _write(parts, folder, "valid", encoded, chunk, own, np.arange(len(chunk)))
        described = {name: part.close() for name, part in parts.items()}
        write_manifest(folder, chunk.name, config, train.label_names, encoder, stack, described, columns or {})
    except OSError as fault:
        raise DataError(
            f"{folder} could not be written to the end ({fault.strerror or fault}); make room and prepare again"
        ) from fault
    finally:
        for part in parts.values():
            part.abandon()


def _drawn(n: int, held: int, seed: int, serially_correlated: bool) -> np.ndarray:
    """The numbers of n rows: those held back for validation, then those that teach the opinions, then the rest."""
    drawn = np.random.default_rng(seed).permutation(n)
    if not serially_correlated:
        return drawn
    last = np.arange(n)[::-1][: held + BASE_LEARNER_ROWS]
    return np.concatenate([last, drawn[drawn < n - len(last)]])


def _claim(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        known = {MANIFEST, "train", "valid", "valid_other", "encoder.safetensors"}
        if not {path.name for path in folder.iterdir()} <= known:
            raise DataError(f"{folder} is not empty and holds no prepared data; give another folder")
        (folder / MANIFEST).unlink(missing_ok=True)  # first: without it the folder is not whole
        for part in ("train", "valid", "valid_other"):
            shutil.rmtree(folder / part, ignore_errors=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise DataError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder") from None


def _affordable(config: Config, n: int, n_labels: int, say: Callable[[str], None]) -> Config:
    size = 4 * n * n_labels * len(config.model.base_learners)
    if size <= MAX_BASE_LOGIT_BYTES:
        return config
    say(
        f"the opinions of {n:,} rows would take {size / 2**30:.0f} GB; prepared without them (model.base_learners=none)"
    )
    return config.updated({"model.base_learners": ()})


def _fit_base_learners(
    config: Config, encoder: Encoder, data: Dataset, say: Callable[[str], None], serially_correlated: bool
) -> tuple[Stack | None, np.ndarray | None]:
    if not config.model.base_learners:
        return None, None
    say(f"gathering first opinions ({', '.join(config.model.base_learners)}) from {len(data):,} rows")
    stack, seed = Stack(config.model.base_learners), config.training.seed
    fold_n = fold_numbers(len(data), FOLDS, seed, serially_correlated) if serially_correlated else None
    return stack, stack.fit(encoder.encode(data.rows).features, data.indicator(), seed, fold_n)


def _base_logits_of(
    stack: Stack | None,
    encoded: EncodedRows,
    numbers: np.ndarray,
    judged: np.ndarray,
    base_logits: np.ndarray | None,
) -> np.ndarray | None:
    """(n, L, K): out-of-fold base_logits where the row taught them, the learned model's elsewhere."""
    if stack is None or base_logits is None:
        return None
    own = stack.logits(encoded.features)
    place = np.minimum(np.searchsorted(judged, numbers), len(judged) - 1)
    taught = np.flatnonzero(judged[place] == numbers) if len(numbers) else numbers
    own[taught] = base_logits[place[taught]]
    return own


def _write(
    parts: dict[str, PartWriter],
    folder: Path,
    name: str,
    encoded: EncodedRows,
    chunk: Dataset,
    base_logits: np.ndarray | None,
    rows: np.ndarray,
) -> None:
    labels = None if chunk.labels is None else chunk.labels[rows]
    own = None if base_logits is None else base_logits[rows]
    parts[name].append(encoded.nodes.take(rows), labels, own)
    if encoded.other_view is not None:  # trained on as rows of its own; averaged with the first view when validating
        target = name if name == "train" else "valid_other"
        if target not in parts:
            parts[target] = PartWriter(folder / target)
        parts[target].append(encoded.other_view.take(rows), labels, own)


def _rows_of(chunks: Chunks, rows: np.ndarray) -> Iterator[Dataset]:
    """The rows with these (sorted) numbers, chunk by chunk."""
    first = 0
    for chunk in chunks:
        begin, end = np.searchsorted(rows, [first, first + len(chunk)])
        if end > begin:
            yield chunk.take(rows[begin:end] - first)
        first += len(chunk)
