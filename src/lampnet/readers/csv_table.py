"""CSV, TSV, Parquet and Arrow tables.

Labels are either 0/1 columns (an empty cell is unknown) or one column of names with a separator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.dna_bases import encode_bases
from lampnet.data.schema import NoLabels, label_matrix, names_in
from lampnet.errors import FormatError
from lampnet.readers.arrow_files import is_arrow, read_arrow
from lampnet.readers.cells import CellColumn
from lampnet.readers.column_roles import ColumnRoles, RawTable, is_missing, number_name, roles_of
from lampnet.readers.delimited import read_delimited
from lampnet.readers.files import MAX_BYTES, plain_stem
from lampnet.readers.trained_columns import KnownColumns


def read_table(
    path: str | Path,
    *,
    columns: Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    on_bad_row: str = "error",
    notice: Callable[[str], None] | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Read a table with a header line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "films.csv"
    >>> _ = path.write_text("plot,genres\\nA long war story,drama|war\\nTwo friends on the road,comedy\\n")
    >>> read_table(path, notice=print).label_names
    films.csv: text from the column 'plot'; labels from the column 'genres', separated by '|'
    ('comedy', 'drama', 'war')

    Parameters
    ----------
    path : str or Path
        `.csv`, `.tsv`, `.tab` (plain, gzip, bz2), `.parquet`, `.arrow` or `.feather`.
    columns : mapping, optional
        What columns are for, e.g. ``{"text": "body", "labels": "tags", "separator": ";"}``; roles are
        text, smiles, dna, image, features, categories (features whose numbers stand for words), labels, id.
        What is not given is guessed.
    labels : sequence of str, optional
        Label names that are known already; they fix the order of the labels.
    on_bad_row : {"error", "skip"}
        What to do with a line that has another number of fields.
    notice : callable, optional
        Is told in a sentence which column was taken for what, and how many rows were left out.
    """
    return read_table_and_roles(path, columns, labels, on_bad_row, notice, name, max_bytes)[0]


def read_table_and_roles(
    path: str | Path,
    columns: Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    on_bad_row: str = "error",
    notice: Callable[[str], None] | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
    known: KnownColumns | None = None,
) -> tuple[Dataset, ColumnRoles]:
    """As `read_table`, and what was made of the columns; `known` ones are not guessed."""
    path = Path(path)
    given = columns or {}
    if is_arrow(path):
        table = read_arrow(path, max_bytes)
    else:
        # A number that stands for a word is its text: 007 is not 7.
        words = "categories" in given or (known is not None and "categories" in known.roles)
        table = read_delimited(path, on_bad_row, max_bytes, as_text=words)
    if not len(table):
        raise FormatError(path, "there are no rows after the header line; give a file with rows", 1)
    roles = roles_of(table, given, labels) if known is None else known.roles_in(table, given)
    if notice is not None:
        if roles.as_given() != given:  # the later parts of a folder are read as the first, which was told
            notice(f"{path.name}: {roles.sentence()}")
        if table.skipped:
            rows = table.skipped + len(table)
            notice(f"{path.name}: {table.skipped:,} of {rows:,} rows could not be read and are left out")
    data = table_dataset(table, roles, labels, name or plain_stem(path))
    return data, roles


def table_dataset(table: RawTable, roles: ColumnRoles, labels: Sequence[str] | None, name: str) -> Dataset:
    """The rows of a table whose columns have known roles."""
    y, label_names = table_labels(table, roles, labels)
    rows, feature_names = table_rows(table, roles)
    ids = tuple(_ids(table.column(roles.id))) if roles.id else None
    return Dataset(
        name=name,
        kind=roles.kind,
        rows=rows,
        labels=y,
        label_names=label_names,
        feature_names=feature_names,
        ids=ids,
    )


def _ids(column: Any) -> list[str]:
    if isinstance(column, CellColumn):
        return column.texts
    return [_number_text(value) if isinstance(value, float) else str(value) for value in column]


def _number_text(value: float) -> str:
    return "" if np.isnan(value) else number_name(value)


def read_table_columns(path: Path, max_bytes: int = MAX_BYTES) -> LabelTable:
    """All columns of a CSV or TSV file as they are, for label tables beside other files."""
    table = read_delimited(path, "error", max_bytes)
    return LabelTable(table.path, table.names, table.columns, table.lines)


class LabelTable(RawTable):
    """A table whose columns (but the first) are labels."""

    def indicator(self, names: Sequence[str]) -> sparse.csr_matrix:
        """CSR float32 (n, len(names)) of 0/1 columns."""
        return _indicator_columns(self, names)


def table_labels(
    table: RawTable, roles: ColumnRoles, known: Sequence[str] | None
) -> tuple[sparse.csr_matrix | None, tuple[str, ...]]:
    """The labels as CSR float32 (n, L) and their names; `known` names fix the order."""
    if not roles.labels:
        return None, tuple(known or ())
    if not roles.separator:
        return _indicator_columns(table, roles.labels), roles.labels
    column, values, sets = _label_sets(table, roles)
    label_names = tuple(known) if known is not None else names_in(sets)
    if not label_names:
        raise no_label_at_all(table.path, roles)
    if isinstance(column, CellColumn):
        place = {value: number for number, value in enumerate(values)}
        of_row = np.fromiter(map(place.__getitem__, column.texts), dtype=np.int64, count=len(column))
        if set(names_in(sets)) <= set(label_names):
            return label_matrix(sets, label_names)[of_row], label_names
        sets = [sets[number] for number in of_row]  # so that the error names its row
    return label_matrix(sets, label_names), label_names


def label_names_in(table: RawTable, roles: ColumnRoles) -> tuple[str, ...]:
    """The labels that the cells of a table name, or its label columns, their cells checked."""
    if roles.separator:
        return names_in(_label_sets(table, roles)[2])
    return table_labels(table, roles, None)[1]


def no_label_at_all(path: Path, roles: ColumnRoles) -> NoLabels:
    return NoLabels(
        f"{path}: the label column {roles.labels[0]!r} names no label at all; give rows with labels, or say which "
        "column has them with --label-columns"
    )


def _label_sets(table: RawTable, roles: ColumnRoles) -> tuple[Any, Sequence[Any], list[list[str]]]:
    """The label column, its cells, and the names in each cell."""
    column = table.column(roles.labels[0])
    if isinstance(column, np.ndarray):
        column = list(map(_number_text, column))
    # The same few combinations come again and again: each is taken apart once.
    values = column.distinct if isinstance(column, CellColumn) else column
    return column, values, [_names(table, column, value, roles.separator) for value in values]


def _names(table: RawTable, column: Sequence[Any], value: Any, separator: str) -> list[str]:
    if separator == "list" and isinstance(value, str):
        if not value.strip():
            return []
        try:
            names = json.loads(value if '"' in value else value.replace("'", '"'))
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list):
            line = table.lines[next(row for row, other in enumerate(column) if other == value)]
            raise FormatError(table.path, f"{value[:40]!r} is not a list of labels", line)
        value = names
    if not isinstance(value, str):
        return [str(part) for part in value if part is not None]
    parts = [value] if separator == "none" else value.split(separator)
    return [part.strip() for part in parts if part.strip()]


def _indicator_columns(table: RawTable, names: Sequence[str]) -> sparse.csr_matrix:
    if table.binary().issuperset(names):
        if table.matrix is not None:
            return _sparse(table.part(table.matrix, names))
        return _sparse(np.stack([np.asarray(table.numbers(name)) for name in names], axis=1))
    y = np.empty((len(table), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        numbers = table.numbers(name)
        good = None if numbers is None else np.isnan(numbers) | (numbers == 0) | (numbers == 1)
        if numbers is None or good is None or not good.all():
            row = 0 if good is None else int(np.flatnonzero(~good)[0])
            raise FormatError(table.path, f"the label column {name!r} must hold 0, 1 or nothing", table.lines[row])
        y[:, place] = numbers
    return _sparse(y)


def _sparse(y: np.ndarray) -> sparse.csr_matrix:
    """CSR float32, missing values stored; SciPy's own conversion takes thrice the time."""
    stored = y != 0
    at = np.flatnonzero(stored)
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return sparse.csr_matrix((y.ravel()[at].astype(np.float32), at % y.shape[1], indptr), shape=y.shape)


def table_rows(table: RawTable, roles: ColumnRoles) -> tuple[Any, tuple[str, ...] | None]:
    """The input of a table's rows, as its kind wants it, and the names of its features."""
    if roles.kind == "columns":
        return _table(table, roles), roles.inputs
    parts = [_texts(table.column(name)) for name in roles.inputs]
    values = ["\n".join(value) for value in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]
    if roles.kind == "image":
        return [_picture(table, row, value) for row, value in enumerate(values)], None
    if roles.kind == "dna":
        return encode_bases([value.strip() for value in values], table.path, table.lines), None
    if roles.kind == "molecule":
        column = table.column(roles.inputs[0])
        alone = isinstance(column, CellColumn) and len(parts) == 1
        return column.stripped if alone else [value.strip() for value in values], None
    return values, None


def _texts(column: Any) -> list[str]:
    return column.texts if isinstance(column, CellColumn) else [str(value) for value in column]


def _picture(table: RawTable, row: int, value: str) -> Path:
    folder = table.path.parent
    for place in (folder / value, folder / "images" / value):
        if place.is_file():
            return place
    raise FormatError(table.path, f"the picture {value!r} is neither in {folder} nor in its images/", table.lines[row])


def _table(table: RawTable, roles: ColumnRoles) -> Table:
    names = roles.inputs
    if table.matrix is not None and not roles.categories:
        return Table(values=table.part(table.matrix, names), names=tuple(names))
    values = np.empty((len(table), len(names)))
    categories: dict[int, tuple[str, ...]] = {}
    for place, name in enumerate(names):
        numbers = None if name in roles.categories else table.numbers(name)
        if numbers is None:
            column = table.column(name)
            column = list(map(_number_text, column)) if isinstance(column, np.ndarray) else column
            words = tuple(sorted({str(value).strip() for value in column if not is_missing(str(value))}))
            code = {word: float(number) for number, word in enumerate(words)}
            numbers = np.array([code.get(str(value).strip(), np.nan) for value in column])
            categories[place] = words
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise FormatError(table.path, f"the column {name!r} holds an infinite value", table.lines[row])
        values[:, place] = numbers
    return Table(values=values, names=tuple(names), categories=categories)
