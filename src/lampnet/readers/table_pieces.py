"""Parquet and Arrow files larger than memory: a piece of the rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.dataset import Dataset
from lampnet.errors import FormatError, MissingExtra
from lampnet.readers.csv_table import arrow_table, table_dataset, table_labels
from lampnet.readers.source import plain_stem, plain_suffix
from lampnet.readers.table_columns import ColumnRoles, roles_of

PIECE_ROWS = 20_000
SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")


class TablePieces:
    """The rows of a Parquet or Arrow file, in order, as often as they are asked for.

    What the columns are for is told from the first piece; label names are gathered over the whole file.
    Columns of numbers and categories as input are left to `read_table`: their categories need all rows.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Mapping[str, Any] | None = None,
        labels: Sequence[str] | None = None,
        size: int = PIECE_ROWS,
    ) -> None:
        self.path, self.size = Path(path), size
        first = next(self._tables(), None)
        if first is None or not first.num_rows:
            raise FormatError(path, "there are no rows; give a file with rows")
        self.roles: ColumnRoles = roles_of(arrow_table(self.path, first, range(1, first.num_rows + 1)), columns, labels)
        self.rows = 0
        names: set[str] = set()
        for table in self._tables(self.roles.labels):
            raw = arrow_table(self.path, table, range(self.rows + 1, self.rows + 1 + table.num_rows))
            names.update(table_labels(raw, self.roles, labels)[1])
            self.rows += table.num_rows
        self.label_names = tuple(labels) if labels is not None else tuple(sorted(names))
        if not self.roles.separator:
            self.label_names = self.roles.labels

    def __iter__(self) -> Iterator[Dataset]:
        return self._pieces(self.label_names if self.roles.separator else None)

    def _pieces(self, labels: Sequence[str] | None) -> Iterator[Dataset]:
        line = 1
        for table in self._tables():
            raw = arrow_table(self.path, table, range(line, line + table.num_rows))
            yield table_dataset(raw, self.roles, labels, plain_stem(self.path))
            line += table.num_rows

    def _tables(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of at most `size` rows, all or some of their columns."""
        try:
            import pyarrow as arrow
            from pyarrow import parquet
        except ImportError:
            raise MissingExtra("pyarrow", "tables", "reading Parquet and Arrow files") from None
        try:
            if plain_suffix(self.path) in (".parquet", ".pq"):
                with parquet.ParquetFile(self.path, memory_map=True) as file:
                    for batch in file.iter_batches(self.size, columns=None if columns is None else list(columns)):
                        yield arrow.Table.from_batches([batch])
                return
            with arrow.memory_map(str(self.path)) as mapped, arrow.ipc.open_file(mapped) as file:
                for number in range(file.num_record_batches):
                    whole = arrow.Table.from_batches([file.get_batch(number)])
                    whole = whole if columns is None else whole.select(list(columns))
                    for start in range(0, whole.num_rows, self.size):
                        yield whole.slice(start, self.size)
        except (arrow.ArrowException, OSError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(self.path, f"this is not a readable Parquet or Arrow file ({str(error)[:120]})") from None
