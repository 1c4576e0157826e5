"""From what the user calls the data to a prepared folder: large tables in pieces, the rest as it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lampnet.config import Config
from lampnet.data_source import Source, as_splits, plain_columns
from lampnet.preparing import Pieces, WholeInPieces, prepare
from lampnet.readers.arrow_files import SUFFIXES
from lampnet.readers.open import left_out
from lampnet.readers.source import plain_suffix
from lampnet.readers.table_pieces import TablePieces

#: a Parquet or Arrow file from this size on is prepared by the training itself
LARGE_BYTES = 256 << 20


def is_large_table(source: Source) -> bool:
    """Whether a training should read this file in pieces instead of whole."""
    path = Path(source.data)
    if source.named or not path.is_file() or plain_suffix(path) not in SUFFIXES:
        return False
    return path.stat().st_size >= LARGE_BYTES


def prepare_source(source: Source, folder: Path, config: Config, say: Callable[[str], None]) -> None:
    """Encode a data set's training and validation rows into a folder for `lampnet train`."""
    pieces = None if source.named else _table(source)
    if pieces is not None:
        say(f"{Path(source.data).name}: {pieces.rows:,} rows; {pieces.roles.sentence()}")
        if pieces.skipped:
            say(left_out(Path(source.data).name, pieces.skipped, pieces.rows + pieces.skipped))
        prepare(pieces, folder, config, say=say, columns=plain_columns(pieces.roles.as_given()))
        return
    opened, columns = source.open_and_columns(config.training.seed, say)
    splits = as_splits(opened)
    valid: Pieces | None = None if splits.valid is None else WholeInPieces(splits.valid)
    prepare(WholeInPieces(splits.train), folder, config, valid, say, columns)


def _table(source: Source) -> TablePieces | None:
    """A Parquet or Arrow file in pieces; None where it has to be read whole."""
    path = Path(source.data)
    if not path.is_file() or plain_suffix(path) not in SUFFIXES:
        return None
    names = None
    if source.labels is not None:
        from lampnet.readers.arff_header import read_label_names

        names = read_label_names(source.labels)
    pieces = TablePieces(path, source.columns or None, names, on_bad_row=source.on_bad_row)
    return None if pieces.roles.kind == "columns" else pieces
