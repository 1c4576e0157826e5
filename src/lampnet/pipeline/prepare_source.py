"""From what the user calls the data to a prepared folder: large tables in chunks, the rest as it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lampnet.config import Config
from lampnet.pipeline.prepare import Chunks, WholeInChunks, prepare
from lampnet.readers.any_format import left_out
from lampnet.readers.files import ARROW_SUFFIXES, plain_suffix
from lampnet.readers.sources import Source, as_splits, plain_columns

if TYPE_CHECKING:
    from lampnet.readers.table_chunks import TableChunks

#: a Parquet or Arrow file from this size on is prepared by the training itself
LARGE_BYTES = 256 << 20


def is_large_table(source: Source) -> bool:
    """Whether a training should read this file in chunks instead of whole."""
    path = Path(source.data)
    if source.named or not path.is_file() or plain_suffix(path) not in ARROW_SUFFIXES:
        return False
    return path.stat().st_size >= LARGE_BYTES


def prepare_source(source: Source, folder: Path, config: Config, say: Callable[[str], None]) -> None:
    """Encode a data set's training and validation rows into a folder for `lampnet train`."""
    chunks = None if source.named else _table(source)
    if chunks is not None:
        say(f"{Path(source.data).name}: {chunks.rows:,} rows; {chunks.roles.sentence()}")
        if chunks.skipped:
            say(left_out(Path(source.data).name, chunks.skipped, chunks.rows + chunks.skipped))
        prepare(chunks, folder, config, say=say, columns=plain_columns(chunks.roles.as_given()))
        return
    opened, columns = source.open_and_columns(config.training.seed, say)
    splits = as_splits(opened)
    valid: Chunks | None = None if splits.valid is None else WholeInChunks(splits.valid)
    prepare(WholeInChunks(splits.train), folder, config, valid, say, columns)


def _table(source: Source) -> TableChunks | None:
    """A Parquet or Arrow file in chunks; None where it has to be read whole."""
    path = Path(source.data)
    if not path.is_file() or plain_suffix(path) not in ARROW_SUFFIXES:
        return None
    from lampnet.readers.table_chunks import TableChunks

    names = None
    if source.labels is not None:
        from lampnet.readers.arff_header import read_label_names

        names = read_label_names(source.labels)
    chunks = TableChunks(path, source.columns or None, names, on_bad_row=source.on_bad_row)
    return None if chunks.roles.kind == "columns" else chunks
