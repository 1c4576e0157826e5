"""Encode rows once into a folder of mapped arrays, one chunk at a time.

Encoder and base learners are fitted on a sample of the training rows. Sampled rows get out-of-fold base logits;
every other row is predicted by a model that never saw it: nowhere does a row's own label reach its base logits.
Where rows are serially correlated, the last are for validation and the block before them fits the base learners,
so that no model predicts rows that lie between its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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
from lampnet.pipeline.control import Log, no_log
from lampnet.pipeline.mapped_rows import (
    LEARNED,
    MANIFEST,
    PARTS,
    Manifest,
    PartWriter,
    describe_prepared,
    write_manifest,
)
from lampnet.readers.any_format import left_out
from lampnet.readers.files import ARROW_SUFFIXES, plain_suffix
from lampnet.readers.sources import Source, as_splits, plain_columns
from lampnet.runtime.atomic_files import is_temporary
from lampnet.runtime.folder_lock import LOCK, claimed

if TYPE_CHECKING:
    from lampnet.readers.table_chunks import TableChunks

MAX_VALIDATION_ROWS = 20_000
#: rows that the encoder is fitted on (vocabulary, means, document frequencies), and how many the base learners are
ENCODER_ROWS = 200_000
BASE_LEARNER_ROWS = 50_000
#: base logits that would take more bytes on disk than this are left out
MAX_BASE_LOGIT_BYTES = 16 << 30
CHUNK_ROWS = 20_000
#: a Parquet or Arrow file from this size on is prepared by the training itself
LARGE_BYTES = 256 << 20


class Chunks(Protocol):
    """The rows of one data set in order, in chunks, as often as they are asked for."""

    rows: int
    label_names: tuple[str, ...]

    def __iter__(self) -> Iterator[Dataset]: ...

    def labels(self) -> sparse.csr_matrix | None:
        """CSR (n, L) of all rows, above 0 where a row has the label; None where the rows carry none."""
        ...


class WholeInChunks:
    """A data set that is in memory already, in chunks."""

    def __init__(self, data: Dataset, size: int = CHUNK_ROWS) -> None:
        self.data, self.size = data, size
        self.rows, self.label_names = len(data), data.label_names

    def __iter__(self) -> Iterator[Dataset]:
        for first in range(0, self.rows, self.size):
            yield self.data.take(np.arange(first, min(first + self.size, self.rows)))

    def labels(self) -> sparse.csr_matrix | None:
        return self.data.labels


def is_large_table(source: Source) -> bool:
    """Whether a training should read this file in chunks instead of whole."""
    path = Path(source.data)
    if source.named or not path.is_file() or plain_suffix(path) not in ARROW_SUFFIXES:
        return False
    return path.stat().st_size >= LARGE_BYTES


def prepare_source(source: Source, folder: Path, config: Config, log: Log, overwrite: bool = False) -> None:
    """Encode a data set's training and validation rows into a folder for `lampnet train`."""
    check_prepared_target(folder, overwrite)  # before anything is read
    chunks = None if source.named else _table(source)
    if chunks is not None:
        log(f"{Path(source.data).name}: {chunks.rows:,} rows; {chunks.roles.sentence()}")
        if chunks.skipped:
            log(left_out(Path(source.data).name, chunks.skipped, chunks.rows + chunks.skipped))
        columns = plain_columns(chunks.roles.as_given())
        prepare(chunks, folder, config, log=log, columns=columns, overwrite=overwrite)
        return
    opened, columns = source.open_and_columns(config.training.seed, log)
    splits = as_splits(opened)
    valid: Chunks | None = None if splits.valid is None else WholeInChunks(splits.valid)
    prepare(WholeInChunks(splits.train), folder, config, valid, log, columns, overwrite)


def _table(source: Source) -> TableChunks | None:
    """A Parquet or Arrow file in chunks; None where it has to be read whole."""
    path = Path(source.data)
    if not path.is_file() or plain_suffix(path) not in ARROW_SUFFIXES:
        return None
    from lampnet.readers.arff_header import read_label_names
    from lampnet.readers.table_chunks import TableChunks

    names = None if source.labels is None else read_label_names(source.labels)
    chunks = TableChunks(path, source.columns or None, names, on_bad_row=source.on_bad_row)
    return None if chunks.roles.kind in ("columns", "parts") else chunks


def prepare(
    train: Chunks,
    folder: Path,
    config: Config,
    valid: Chunks | None = None,
    log: Log = no_log,
    columns: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a prepared folder for `lampnet train`; validation rows are sampled from `train` where none came.

    Of serially correlated rows the last are taken. `columns` says what a table's columns were taken for. Prepared
    data that is there already is only replaced with `overwrite`.
    """
    check_prepared_target(folder, overwrite)
    with claimed(folder):
        check_prepared_target(folder, overwrite)
        _prepare(train, folder, config, valid, log, dict(columns or {}))


def _prepare(
    train: Chunks, folder: Path, config: Config, valid: Chunks | None, log: Log, columns: dict[str, Any]
) -> None:
    sampled = _sample(train, valid is None, config.training.seed)
    n = train.rows
    if sampled.blocked:
        log("rows that follow each other are alike: folds are blocks of consecutive rows")
    log(f"fitting the encoder on {len(sampled.encoder_rows):,} of {n - int(sampled.is_valid.sum()):,} training rows")
    learned = Dataset.joined(list(_rows_of(train, sampled.encoder_rows)))
    if learned.labels is None:
        raise DataError(f"{learned.name}: the training rows carry no labels; give rows with labels")
    encoder = make_encoder(learned.kind, config.input).fit(learned.rows, learned.feature_names)
    config = config.resolved(learned.kind, n, len(train.label_names))
    config = _affordable(config, n, len(train.label_names), log)
    rows = learned.take(np.searchsorted(sampled.encoder_rows, sampled.learner_rows))
    logits = _BaseLogits.fitted(config, encoder, rows, sampled, log)
    del learned, rows
    log(f"encoding {n:,} rows")
    _remove_prepared(folder)
    writer = _Writer(folder, encoder, logits)
    try:
        first = 0
        for chunk in train:
            numbers = np.arange(first, first + len(chunk))
            first += len(chunk)
            writer.append(chunk, numbers, sampled.is_valid[numbers])
        for chunk in valid if valid is not None else ():
            writer.append(chunk, np.full(len(chunk), -1), np.ones(len(chunk), dtype=bool))
        manifest = Manifest(
            name=chunk.name,
            config=config,
            label_names=train.label_names,
            encoder=encoder,
            stack=logits.stack,
            parts=writer.close(),
            columns=columns,
        )
        write_manifest(folder, manifest)
    except OSError as fault:
        raise DataError(
            f"{folder} could not be written to the end ({fault.strerror or fault}); make room and prepare again"
        ) from fault
    finally:
        writer.abandon()


@dataclass(frozen=True)
class _Sample:
    """Which rows are for validation, and which the encoder and the base learners are fitted on (sorted)."""

    is_valid: np.ndarray
    encoder_rows: np.ndarray
    learner_rows: np.ndarray
    blocked: bool


def _sample(train: Chunks, needs_validation: bool, seed: int) -> _Sample:
    n, labels = train.rows, train.labels()
    blocked = needs_validation and labels is not None and serially_correlated_rows(labels)
    held = min(max(1, round(n * VALIDATION_FRACTION)), MAX_VALIDATION_ROWS) if needs_validation else 0
    if n - held < 2:
        raise DataError(f"{n} rows came; at least three are needed to train and to validate")
    order = np.random.default_rng(seed).permutation(n)
    if blocked:
        last = np.arange(n)[::-1][: held + BASE_LEARNER_ROWS]
        order = np.concatenate([last, order[order < n - len(last)]])
    is_valid = np.zeros(n, dtype=bool)
    is_valid[order[:held]] = True
    encoder_rows, learner_rows = (np.sort(order[held : held + most]) for most in (ENCODER_ROWS, BASE_LEARNER_ROWS))
    return _Sample(is_valid, encoder_rows, learner_rows, blocked)


def check_prepared_target(folder: Path, overwrite: bool) -> None:
    """Refuse to write over prepared data without being asked to, and over anything else."""
    if not folder.exists():
        return
    known = {MANIFEST, LEARNED, LOCK, *PARTS}
    try:
        there = {path.name for path in folder.iterdir()}
    except OSError as fault:
        raise DataError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder") from None
    foreign = sorted(name for name in there - known if not is_temporary(name))
    if foreign:
        raise DataError(
            f"{folder} is not empty and holds no prepared data ({foreign[0]!r} is there); give another folder"
        )
    if MANIFEST in there and not overwrite:
        raise DataError(
            f"{folder} holds {describe_prepared(folder)}; add --overwrite to replace it, or give another folder"
        )


def _remove_prepared(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)  # first: without it the folder is not whole
    for part in PARTS:
        shutil.rmtree(folder / part, ignore_errors=True)


def _affordable(config: Config, n: int, n_labels: int, log: Log) -> Config:
    size = 4 * n * n_labels * len(config.model.base_learners)
    if size <= MAX_BASE_LOGIT_BYTES:
        return config
    log(f"the base logits of {n:,} rows would take {size / 2**30:.0f} GB: prepared with model.base_learners=none")
    return config.updated({"model.base_learners": ()})


@dataclass(frozen=True)
class _BaseLogits:
    """The base learners, the (sorted) numbers of the rows they were fitted on, and these rows' out-of-fold logits."""

    stack: Stack | None
    rows: np.ndarray
    out_of_fold: np.ndarray | None

    @classmethod
    def fitted(cls, config: Config, encoder: Encoder, data: Dataset, sampled: _Sample, log: Log) -> _BaseLogits:
        if not config.model.base_learners:
            return cls(None, sampled.learner_rows, None)
        log(f"fitting base learners ({', '.join(config.model.base_learners)}) on {len(data):,} rows")
        stack, seed = Stack(config.model.base_learners), config.training.seed
        fold_n = fold_numbers(len(data), FOLDS, seed, sampled.blocked) if sampled.blocked else None
        logits = stack.fit(encoder.encode(data.rows).features, data.indicator(), seed, fold_n)
        held_out_n = fold_numbers(len(data), FOLDS, seed, sampled.blocked)
        stack.choose_and_fit_weights(logits, data.indicator(), held_out_n)
        return cls(stack, sampled.learner_rows, logits)

    def of(self, encoded: EncodedRows, numbers: np.ndarray) -> np.ndarray | None:
        """(n, L, K): out-of-fold where the learners were fitted on the row, else the fitted learners' logits."""
        if self.stack is None or self.out_of_fold is None:
            return None
        logits = self.stack.logits(encoded.features)
        index = np.minimum(np.searchsorted(self.rows, numbers), len(self.rows) - 1)
        fitted_on = np.flatnonzero(self.rows[index] == numbers)
        logits[fitted_on] = self.out_of_fold[index[fitted_on]]
        return logits


class _Writer:
    """The parts of a prepared folder, to which chunks of rows are appended."""

    def __init__(self, folder: Path, encoder: Encoder, base_logits: _BaseLogits) -> None:
        self.folder, self.encoder, self.base_logits = folder, encoder, base_logits
        self.parts = {name: PartWriter(folder / name) for name in ("train", "valid")}

    def append(self, chunk: Dataset, numbers: np.ndarray, is_valid: np.ndarray) -> None:
        """Rows with these numbers among the training rows, -1 for others."""
        encoded = self.encoder.encode(chunk.rows, chunk.row_edges)
        logits = self.base_logits.of(encoded, numbers)
        for name, chosen in (("train", np.flatnonzero(~is_valid)), ("valid", np.flatnonzero(is_valid))):
            if len(chosen):
                self._append(name, chunk, encoded, logits, chosen)

    def _append(
        self, name: str, chunk: Dataset, encoded: EncodedRows, base_logits: np.ndarray | None, rows: np.ndarray
    ) -> None:
        labels = None if chunk.labels is None else chunk.labels[rows]
        own = None if base_logits is None else base_logits[rows]
        self.parts[name].append(encoded.nodes.take(rows), labels, own)
        if encoded.other_view is not None:  # trained on as rows of its own; averaged with the first view in validation
            target = name if name == "train" else "valid_other"
            if target not in self.parts:
                self.parts[target] = PartWriter(self.folder / target)
            self.parts[target].append(encoded.other_view.take(rows), labels, own)

    def close(self) -> dict[str, Any]:
        return {name: part.close() for name, part in self.parts.items()}

    def abandon(self) -> None:
        for part in self.parts.values():
            part.abandon()


def _rows_of(chunks: Chunks, rows: np.ndarray) -> Iterator[Dataset]:
    """The rows with these (sorted) numbers, chunk by chunk."""
    first = 0
    for chunk in chunks:
        begin, end = np.searchsorted(rows, [first, first + len(chunk)])
        if end > begin:
            yield chunk.take(rows[begin:end] - first)
        first += len(chunk)
