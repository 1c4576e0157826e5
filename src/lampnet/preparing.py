"""Encode rows once into a folder of memory-mapped arrays, a piece at a time.

Encoder and opinions are learned from a sample of the training rows. A sampled row's opinions are
out-of-fold, as in `lampnet.evidence`; every other row is judged by a model that never saw it: nowhere
does a row's own label reach its opinions. Where rows come in order (`lampnet.folds`), the last are for
validation and the stretch before them teaches the opinions, so that no model judges rows amid its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from lampnet.config import Config
from lampnet.dataset import VALIDATION_FRACTION, Dataset
from lampnet.errors import DataError
from lampnet.evidence import FOLDS, Evidence
from lampnet.folds import come_in_order, fold_numbers
from lampnet.inputs import make_encoder
from lampnet.inputs.nodes import Encoder, NodeRows, with_edges
from lampnet.shards import MANIFEST, PartWriter, write_manifest

MOST_VALIDATION_ROWS = 20_000
#: rows that vocabulary, means and frequencies are learned from, and how many of them teach the opinions
ENCODER_ROWS = 200_000
EVIDENCE_ROWS = 50_000
#: opinions that would take more bytes on disk than this are left out
MOST_OPINION_BYTES = 16 << 30
PIECE_ROWS = 20_000


class Pieces(Protocol):
    """Rows in order, in pieces of one data set, as often as they are asked for."""

    rows: int
    label_names: tuple[str, ...]

    def __iter__(self) -> Iterator[Dataset]: ...

    def labels(self) -> sparse.csr_matrix | None:
        """CSR (n, L) of all rows, above 0 where a row has the label; None where the rows carry none."""
        ...


class WholeInPieces:
    """A data set that is in memory already, cut into pieces."""

    def __init__(self, data: Dataset, size: int = PIECE_ROWS) -> None:
        self.data, self.size = data, size
        self.rows, self.label_names = len(data), data.label_names

    def __iter__(self) -> Iterator[Dataset]:
        for first in range(0, self.rows, self.size):
            yield self.data.take(np.arange(first, min(first + self.size, self.rows)))

    def labels(self) -> sparse.csr_matrix | None:
        return self.data.labels


def prepare(
    train: Pieces,
    folder: Path,
    config: Config,
    valid: Pieces | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    columns: Mapping[str, Any] | None = None,
) -> None:
    """Write a prepared folder for `lampnet train`; validation rows are drawn from `train` where none came.

    Of rows that come in order the last are taken. `columns` tells what a table's columns were taken for.
    """
    _claim(folder)
    n, labels = train.rows, train.labels()
    in_order = valid is None and labels is not None and come_in_order(labels)
    del labels
    held = min(max(1, round(n * VALIDATION_FRACTION)), MOST_VALIDATION_ROWS) if valid is None else 0
    if n - held < 2:
        raise DataError(f"{n} rows came; at least three are needed to train and to validate")
    if in_order:
        say("rows that follow each other are alike: parts are cut in their order")
    drawn = _drawn(n, held, config.training.seed, in_order)
    is_valid = np.zeros(n, dtype=bool)
    is_valid[drawn[:held]] = True
    sample = np.sort(drawn[held : held + ENCODER_ROWS])
    judged = np.sort(drawn[held : held + EVIDENCE_ROWS])
    say(f"learning the encoder from {len(sample):,} of {n - held:,} training rows")
    learned = Dataset.joined(list(_rows_of(train, sample)))
    if learned.labels is None:
        raise DataError(f"{learned.name}: the training rows carry no labels; give rows with labels")
    encoder = make_encoder(learned.kind, config.input).fit(learned.rows, learned.feature_names)
    config = config.resolved(learned.kind, n, len(train.label_names))
    config = _affordable(config, n, len(train.label_names), say)
    evidence, opinions = _opinions(config, encoder, learned.take(np.searchsorted(sample, judged)), say, in_order)
    del learned
    say(f"encoding {n:,} rows")
    parts: dict[str, PartWriter] = {name: PartWriter(folder / name) for name in ("train", "valid")}
    try:
        first = 0
        for piece in train:
            numbers = np.arange(first, first + len(piece))
            first += len(piece)
            own = _judge(evidence, encoder, piece, numbers, judged, opinions)
            for name, chosen in (("train", ~is_valid[numbers]), ("valid", is_valid[numbers])):
                if chosen.any():
                    _write(parts, folder, name, encoder, piece, own, np.flatnonzero(chosen))
        for piece in valid if valid is not None else ():
            own = _judge(evidence, encoder, piece, np.zeros(0, dtype=np.int64), judged, opinions)
            _write(parts, folder, "valid", encoder, piece, own, np.arange(len(piece)))
        described = {name: part.close() for name, part in parts.items()}
        write_manifest(folder, piece.name, config, train.label_names, encoder, evidence, described, columns or {})
    except OSError as fault:
        raise DataError(
            f"{folder} could not be written to the end ({fault.strerror or fault}); make room and prepare again"
        ) from fault
    finally:
        for part in parts.values():
            part.abandon()


def _drawn(n: int, held: int, seed: int, in_order: bool) -> np.ndarray:
    """The numbers of n rows: those held back for validation, then those that teach the opinions, then the rest."""
    drawn = np.random.default_rng(seed).permutation(n)
    if not in_order:
        return drawn
    last = np.arange(n)[::-1][: held + EVIDENCE_ROWS]
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
    size = 4 * n * n_labels * len(config.model.evidence)
    if size <= MOST_OPINION_BYTES:
        return config
    say(f"the opinions of {n:,} rows would take {size / 2**30:.0f} GB; prepared without them (model.evidence=none)")
    return config.updated({"model.evidence": ()})


def _opinions(
    config: Config, encoder: Encoder, data: Dataset, say: Callable[[str], None], in_order: bool
) -> tuple[Evidence | None, np.ndarray | None]:
    if not config.model.evidence:
        return None, None
    say(f"gathering first opinions ({', '.join(config.model.evidence)}) from {len(data):,} rows")
    evidence, seed = Evidence(config.model.evidence), config.training.seed
    fold_n = fold_numbers(len(data), FOLDS, seed, in_order) if in_order else None
    return evidence, evidence.fit(encoder.linear_features(data.rows), data.indicator(), seed, fold_n)


def _judge(
    evidence: Evidence | None,
    encoder: Encoder,
    piece: Dataset,
    numbers: np.ndarray,
    judged: np.ndarray,
    opinions: np.ndarray | None,
) -> np.ndarray | None:
    """(n, L, K): out-of-fold opinions where the row taught them, the learned model's elsewhere."""
    if evidence is None or opinions is None:
        return None
    own = evidence.of(encoder.linear_features(piece.rows))
    place = np.minimum(np.searchsorted(judged, numbers), len(judged) - 1)
    taught = np.flatnonzero(judged[place] == numbers) if len(numbers) else numbers
    own[taught] = opinions[place[taught]]
    return own


def _write(
    parts: dict[str, PartWriter],
    folder: Path,
    name: str,
    encoder: Encoder,
    piece: Dataset,
    opinions: np.ndarray | None,
    rows: np.ndarray,
) -> None:
    chosen = piece.take(rows)
    own = None if opinions is None else opinions[rows]
    parts[name].append(_nodes(encoder, chosen, chosen.rows), chosen.labels, own)
    other = encoder.other_view(chosen.rows)
    if other is not None:  # trained on as rows of its own; averaged with the first view when validating
        target = name if name == "train" else "valid_other"
        if target not in parts:
            parts[target] = PartWriter(folder / target)
        parts[target].append(_nodes(encoder, chosen, other), chosen.labels, own)


def _nodes(encoder: Encoder, data: Dataset, rows: Any) -> NodeRows:
    nodes = encoder.encode(rows)
    return nodes if data.row_edges is None else with_edges(nodes, data.row_edges)


def _rows_of(pieces: Pieces, rows: np.ndarray) -> Iterator[Dataset]:
    """The rows with these (sorted) numbers, piece by piece."""
    first = 0
    for piece in pieces:
        begin, end = np.searchsorted(rows, [first, first + len(piece)])
        if end > begin:
            yield piece.take(rows[begin:end] - first)
        first += len(piece)
