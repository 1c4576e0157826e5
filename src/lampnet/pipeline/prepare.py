"""Encode rows once into a folder of mapped arrays, one chunk at a time.

The encoder is fitted on a sample of the training rows, the base learners on all of them: in memory where there are few,
else streamed from features on disk (`base_learners/streamed_stack.py`). Training rows get out-of-fold base logits:
nowhere does a row's own label reach them. Where rows are serially correlated, the last are for validation, and folds
are blocks of consecutive rows. A base learner that was fitted is kept beside the rows until the folder is whole:
preparing the same rows again after an interruption does not fit it again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from lampnet.base_learners.knn import numbered
from lampnet.base_learners.protocol import FOLDS, Features, FitContext
from lampnet.base_learners.row_stream import RowStream
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.streamed_stack import STREAMED_FOLDS, fit_streamed_stack
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import VALIDATION_FRACTION, fold_numbers, hashed_folds, serially_correlated_rows
from lampnet.encoders import make_encoder
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import ConfigError, DataError
from lampnet.pipeline.base_learner_files import FILES, BaseLearnerFiles, identity_of, remove_base_learner_files
from lampnet.pipeline.control import IN_MEMORY, Control, FitRun, Log, no_log
from lampnet.pipeline.feature_spool import FeatureSpool
from lampnet.pipeline.mapped_rows import (
    LEARNED,
    MANIFEST,
    PARTS,
    SPOOL,
    Manifest,
    PartWriter,
    describe_prepared,
    write_manifest,
)
from lampnet.pipeline.plan import LEARNERS_ALONE_SHARE, LEARNERS_SHARE
from lampnet.readers.any_format import left_out
from lampnet.readers.files import ARROW_SUFFIXES, plain_suffix
from lampnet.readers.sources import Source, as_splits, plain_columns
from lampnet.runtime.atomic_files import check_no_link, is_temporary
from lampnet.runtime.budget import Budget
from lampnet.runtime.folder_lock import LOCK, claimed

if TYPE_CHECKING:
    from lampnet.readers.table_chunks import TableChunks

#: rows that are held out for validation, and their (row, label) entries, at most
MAX_VALIDATION_ROWS, MAX_VALIDATION_ENTRIES = 20_000, 10_000_000
#: rows that the encoder is fitted on (vocabulary, means, document frequencies)
ENCODER_ROWS = 200_000
#: up to this many rows, the base learners are fitted in memory; more are streamed
ROWS_IN_MEMORY = 50_000
#: base logits that would take more bytes on disk than this are left out
MAX_BASE_LOGIT_BYTES = 16 << 30
CHUNK_ROWS = 20_000
#: rows whose base logits are computed at once
LOGIT_ROWS = 4_000
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


def prepare_source(
    source: Source, folder: Path, config: Config, log: Log, overwrite: bool = False, run: FitRun = IN_MEMORY
) -> None:
    """Encode a data set's training and validation rows into a folder for `lampnet train`; `run` as for `prepare`."""
    check_prepared_target(folder, overwrite)  # before anything is read
    chunks = None if source.named else _table(source)
    if chunks is not None:
        log(f"{Path(source.data).name}: {chunks.rows:,} rows; {chunks.roles.sentence()}")
        if chunks.skipped:
            log(left_out(Path(source.data).name, chunks.skipped, chunks.rows + chunks.skipped))
        columns = plain_columns(chunks.roles.as_given())
        prepare(chunks, folder, config, log=log, columns=columns, overwrite=overwrite, run=run)
        return
    opened, columns = source.open_and_columns(config.training.seed, log)
    splits = as_splits(opened)
    valid: Chunks | None = None if splits.valid is None else WholeInChunks(splits.valid)
    prepare(WholeInChunks(splits.train), folder, config, valid, log, columns, overwrite, run)


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
    run: FitRun = IN_MEMORY,
) -> None:
    """Write a prepared folder for `lampnet train`; validation rows are sampled from `train` where none came.

    Of serially correlated rows the last are taken. `columns` says what a table's columns were taken for. Prepared
    data that is there already is only replaced with `overwrite`. Of `run`, what is called with the progress counts, and
    when the time budget began. Once base learners are fitted, a signal raises `Stopped`.
    """
    check_prepared_target(folder, overwrite)
    with claimed(folder):
        check_prepared_target(folder, overwrite)
        budget = Budget(config.training.time_budget, run.began)
        with Control(FitRun(log=log, phase=run.phase), budget) as control:
            _prepare(train, folder, config, valid, control, dict(columns or {}))


def _prepare(
    train: Chunks, folder: Path, config: Config, valid: Chunks | None, control: Control, columns: dict[str, Any]
) -> None:
    log = control.log
    sampled = _sample(train, valid is None, config.training.seed)
    n = train.rows
    if sampled.blocked:
        log("rows that follow each other are alike: folds are blocks of consecutive rows")
    log(f"fitting the encoder on {len(sampled.encoder_rows):,} of {n - int(sampled.is_valid.sum()):,} training rows")
    reading = control.part("fitting the encoder", 0.0, 0.7)
    learned = Dataset.joined(list(_rows_of(train, sampled.encoder_rows, reading)))
    if learned.labels is None:
        raise DataError(f"{learned.name}: the training rows carry no labels; give rows with labels")
    if config.input.pools:
        raise ConfigError(
            "prepared rows take no pooled text encoder; train on the rows themselves, or set input.pretrained_use=nodes"
        )
    encoder = make_encoder(learned.kind, config.input).fit(learned.rows, learned.feature_names)
    config = config.resolved(learned.kind, n, len(train.label_names))
    config = _affordable(config, n, len(train.label_names), log)
    del learned
    log(f"encoding {n:,} rows")
    _remove_prepared(folder)
    writer = _Writer(folder, encoder, config)
    try:
        first, encoding = 0, control.part("encoding")
        for chunk in train:
            encoding(first / n)
            numbers = np.arange(first, first + len(chunk))
            first += len(chunk)
            writer.append(chunk, numbers, sampled.is_valid[numbers])
        for chunk in valid if valid is not None else ():
            writer.append(chunk, np.full(len(chunk), -1), np.ones(len(chunk), dtype=bool))
        stack = writer.fit_base_learners(sampled.blocked, control)
        manifest = Manifest(
            name=chunk.name,
            config=config,
            label_names=train.label_names,
            encoder=encoder,
            stack=stack,
            parts=writer.close(),
            columns=columns,
        )
        write_manifest(folder, manifest)
        remove_base_learner_files(folder)
    except OSError as fault:
        raise DataError(
            f"{folder} could not be written to the end ({fault.strerror or fault}); make room and prepare again"
        ) from fault
    finally:
        writer.abandon()


@dataclass(frozen=True)
class _Sample:
    """Which rows are for validation, and which the encoder is fitted on (sorted)."""

    is_valid: np.ndarray
    encoder_rows: np.ndarray
    blocked: bool


def _sample(train: Chunks, needs_validation: bool, seed: int) -> _Sample:
    n, labels = train.rows, train.labels()
    blocked = needs_validation and labels is not None and serially_correlated_rows(labels)
    most = min(MAX_VALIDATION_ROWS, max(1_000, MAX_VALIDATION_ENTRIES // max(1, len(train.label_names))))
    held = min(max(1, round(n * VALIDATION_FRACTION)), most) if needs_validation else 0
    if n - held < 2:
        raise DataError(f"{n} rows were given; at least three are needed to train and to validate")
    order = np.random.default_rng(seed).permutation(n)
    if blocked:
        order = np.concatenate([np.arange(n)[::-1][:held], order[order < n - held]])
    is_valid = np.zeros(n, dtype=bool)
    is_valid[order[:held]] = True
    return _Sample(is_valid, np.sort(order[held : held + ENCODER_ROWS]), blocked)


def check_prepared_target(folder: Path, overwrite: bool) -> None:
    """Refuse to write over prepared data without being asked to, and over anything else."""
    if not folder.exists():
        return
    known = {MANIFEST, LEARNED, LOCK, SPOOL, *PARTS, *FILES}
    for part in (*PARTS, SPOOL):
        check_no_link(folder / part)
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
    for part in (*PARTS, SPOOL):
        shutil.rmtree(folder / part, ignore_errors=True)


def _affordable(config: Config, n: int, n_labels: int, log: Log) -> Config:
    size = 4 * n * n_labels * len(config.model.base_learners)
    if size <= MAX_BASE_LOGIT_BYTES or not _keeps_logits(config, n):
        return config
    log(f"the base logits of {n:,} rows would take {size / 2**30:.0f} GB: prepared with model.base_learners=none")
    return config.updated({"model.base_learners": ()})


def _keeps_logits(config: Config, n: int) -> bool:
    """Whether training rows keep their base logits; without a network, those of validation rows can be enough."""
    return config.model.network or n <= ROWS_IN_MEMORY


class _Writer:
    """The parts of a prepared folder, to which chunks of rows are appended, and the features of the rows meanwhile."""

    def __init__(self, folder: Path, encoder: Encoder, config: Config) -> None:
        self.folder, self.encoder, self.config = folder, encoder, config
        self.parts = {name: PartWriter(folder / name) for name in ("train", "valid")}
        self.features = {name: FeatureSpool(folder / SPOOL / name) for name in self.parts}
        #: of the training rows
        self.numbers: list[np.ndarray] = []
        #: where they stood in what came
        self.stood: list[np.ndarray] = []
        self.labels: list[sparse.csr_matrix] = []

    def append(self, chunk: Dataset, numbers: np.ndarray, is_valid: np.ndarray) -> None:
        """Rows with these numbers among the training rows, -1 for others."""
        encoded = self.encoder.encode(chunk.rows, chunk.row_edges)
        for name, chosen in (("train", np.flatnonzero(~is_valid)), ("valid", np.flatnonzero(is_valid))):
            if len(chosen):
                self._append(name, chunk, encoded, chosen, numbers[chosen])

    def _append(self, name: str, chunk: Dataset, encoded: EncodedRows, rows: np.ndarray, numbers: np.ndarray) -> None:
        labels = None if chunk.labels is None else chunk.labels[rows]
        self.parts[name].append(encoded.nodes.take(rows), labels)
        if encoded.other_view is not None:  # trained on as rows of its own; averaged with the first view in validation
            target = name if name == "train" else "valid_other"
            if target not in self.parts:
                self.parts[target] = PartWriter(self.folder / target)
            self.parts[target].append(encoded.other_view.take(rows), labels)
        if self.config.model.base_learners:
            self.features[name].append(encoded.features[rows])
            if name == "train":
                self.numbers.append(numbers)
                self.stood.append(numbers if chunk.numbers is None else np.array(chunk.numbers)[rows])
                self.labels.append(sparse.csr_matrix(labels, dtype=np.float32))

    def fit_base_learners(self, blocked: bool, control: Control) -> Stack | None:
        """Fit them on all training rows and write the base logits; None without base learners."""
        control.collect_signals()
        log, names = control.log, self.config.model.base_learners
        if not names:
            return None
        for spool in self.features.values():
            spool.finish()
        features, labels = self.features["train"], sparse.csr_matrix(sparse.vstack(self.labels))
        n, seed = features.shape[0], self.config.training.seed
        log(f"fitting base learners ({', '.join(names)}) on {n:,} rows")
        stack = Stack(names)

        def report(share: float, doing: str) -> None:
            control.phase(share, f"base learners: {doing}")
            control.check_signals()

        share = LEARNERS_SHARE if self.config.model.network else LEARNERS_ALONE_SHARE
        context = FitContext(progress=report, budget_seconds=control.budget.share(share), log=log)
        fitted_on = [features.digest(), seed, names, blocked, n <= ROWS_IN_MEMORY]
        files = BaseLearnerFiles(self.folder, identity_of(labels, np.concatenate(self.numbers), *fitted_on))
        out_of_fold: Callable[[np.ndarray, Features], np.ndarray]
        if n <= ROWS_IN_MEMORY:
            out_of_fold = _fit_in_memory(stack, features.block(0, n), labels.toarray(), seed, blocked, context, files)
        else:
            fold_n = (
                fold_numbers(n, STREAMED_FOLDS, seed, serially_correlated=True)
                if blocked
                else hashed_folds(np.concatenate(self.numbers), STREAMED_FOLDS, seed)
            )
            log(f"the rows are streamed; their out-of-fold logits come from {STREAMED_FOLDS} folds")
            rows = RowStream(features, labels, fold_n, blocked)
            fitted = files.restored_streamed(names, rows)
            _log_kept(fitted, log)
            out_of_fold = fit_streamed_stack(stack, rows, seed, context, files.save_streamed, fitted).logits
        stack.number_rows(numbered(np.concatenate(self.stood)))
        if _keeps_logits(self.config, n):
            log(f"out-of-fold base logits of {n:,} rows")
            self._write_logits("train", out_of_fold, control)
        self._write_logits("valid", lambda numbers, X: stack.logits(X), control)
        return stack

    def _write_logits(
        self, name: str, logits_of: Callable[[np.ndarray, Features], np.ndarray], control: Control
    ) -> None:
        """In the order in which the rows were appended: after each chunk, its rows in their other view."""
        spool, first = self.features[name], 0
        own, other = self.parts[name], self.parts.get("valid_other") if name == "valid" else None
        twice = own.rows == 2 * spool.shape[0]
        for size in spool.chunks:
            blocks = []
            for begin in range(first, first + size, LOGIT_ROWS):
                end = min(begin + LOGIT_ROWS, first + size)
                control.phase(begin / spool.shape[0], f"base logits of {spool.shape[0]:,} rows")
                control.check_signals()
                logits = logits_of(np.arange(begin, end), spool.block(begin, end))
                own.append_base_logits(logits)
                if other is not None:
                    other.append_base_logits(logits)
                if twice:
                    blocks.append(logits)
            for logits in blocks:
                own.append_base_logits(logits)
            first += size

    def close(self) -> dict[str, Any]:
        return {name: part.close() for name, part in self.parts.items()}

    def abandon(self) -> None:
        for part in self.parts.values():
            part.abandon()
        for spool in self.features.values():
            spool.remove()
        shutil.rmtree(self.folder / SPOOL, ignore_errors=True)


def _log_kept(fitted: Mapping[str, Any], log: Log) -> None:
    if fitted:
        log(f"fitted before the interruption: {', '.join(fitted)}")


def _fit_in_memory(
    stack: Stack,
    X: Features,
    Y_nL: np.ndarray,
    seed: int,
    blocked: bool,
    context: FitContext,
    files: BaseLearnerFiles,
) -> Callable[[np.ndarray, Features], np.ndarray]:
    """Fit a stack on rows in memory; what gives these rows their out-of-fold logits."""
    fold_n = fold_numbers(len(Y_nL), FOLDS, seed, serially_correlated=True) if blocked else None
    fitted = files.restored(stack.names, X, Y_nL)
    _log_kept(fitted, context.log)
    logits = stack.fit(X, Y_nL, seed, fold_n, context, files.save, fitted)
    stack.choose_and_fit_weights(logits, Y_nL, fold_numbers(len(Y_nL), FOLDS, seed, blocked))
    return lambda numbers, X: logits[numbers]


def _rows_of(chunks: Chunks, rows: np.ndarray, report: Callable[[float], None]) -> Iterator[Dataset]:
    """The rows with these (sorted) numbers, chunk by chunk."""
    first = 0
    for chunk in chunks:
        report(first / chunks.rows)
        begin, end = np.searchsorted(rows, [first, first + len(chunk)])
        if end > begin:
            yield chunk.take(rows[begin:end] - first)
        first += len(chunk)
