"""Parquet and Arrow files larger than memory: a chunk of the rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.errors import FormatError
from lampnet.readers.any_format import no_molecule, readable_smiles
from lampnet.readers.arrow_files import arrow_chunks
from lampnet.readers.column_roles import ColumnRoles, roles_of, separator_of
from lampnet.readers.files import plain_stem
from lampnet.readers.raw_table import RawTable
from lampnet.readers.tables import label_names_in, no_label_at_all, table_dataset, table_labels, table_rows

CHUNK_ROWS = 20_000


class TableChunks:
    """The rows of a Parquet or Arrow file, in order, as often as they are asked for.

    What the columns are for is guessed from the first chunk; the sign between labels and the label names are
    gathered over the whole file. With `on_bad_row="skip"`, molecules that RDKit cannot read are left out.
    Columns of numbers and categories as input are left to `read_table`: their categories need all rows.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Mapping[str, Any] | None = None,
        labels: Sequence[str] | None = None,
        size: int | None = None,
        on_bad_row: str = "error",
    ) -> None:
        self.path, self.size = Path(path), size or CHUNK_ROWS
        first = next(self._tables(), None)
        if first is None or not len(first):
            raise FormatError(path, "there are no rows; give a file with rows")
        self.roles: ColumnRoles = roles_of(first, columns, labels)
        if self.roles.separator and "separator" not in (columns or {}):
            cells = (table.column(self.roles.labels[0]) for table in self._tables(self.roles.labels))
            self.roles = replace(self.roles, separator=separator_of(cells))
        names: set[str] = set()
        good: list[np.ndarray] = []
        skip = on_bad_row == "skip" and self.roles.kind == "molecule"
        for table in self._tables(self.roles.labels + (self.roles.inputs if skip else ())):
            names.update(label_names_in(table, self.roles))
            good.append(readable_smiles(table_rows(table, self.roles)[0]) if skip else np.ones(len(table), dtype=bool))
        self.label_names = tuple(labels) if labels is not None else tuple(sorted(names))
        if not self.roles.separator:
            self.label_names = self.roles.labels
        elif not self.label_names:
            raise no_label_at_all(self.path, self.roles)
        self._good = np.concatenate(good)
        self.rows = int(self._good.sum())
        self.skipped = len(self._good) - self.rows
        if not self.rows:
            raise no_molecule(str(self.path))

    def __iter__(self) -> Iterator[Dataset]:
        for table in self._tables():
            rows = self._rows_of(table)
            chunk = table_dataset(table, self.roles, self._known, plain_stem(self.path))
            if len(rows):
                yield chunk.take(rows) if len(rows) < len(chunk) else chunk

    def labels(self) -> sparse.csr_matrix | None:
        """CSR bool (n, L) of all rows: which labels each has; None where the rows carry none."""
        if not self.roles.labels:
            return None
        found = []
        for table in self._tables(self.roles.labels):
            Y, _ = table_labels(table, self.roles, self._known)
            assert Y is not None
            found.append(sparse.csr_matrix(Y > 0)[self._rows_of(table)])
        return sparse.csr_matrix(sparse.vstack(found))

    @property
    def _known(self) -> tuple[str, ...] | None:
        return self.label_names if self.roles.separator else None

    def _rows_of(self, table: RawTable) -> np.ndarray:
        """The numbers of a chunk's rows that are not left out."""
        return np.flatnonzero(self._good[table.lines[0] - 1 : table.lines[-1]])

    def _tables(self, columns: Sequence[str] | None = None) -> Iterator[RawTable]:
        return arrow_chunks(self.path, self.size, columns)
