"""CSV, TSV and Parquet tables.

Labels are either 0/1 columns (an empty cell is unknown) or one column of names with a separator.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.dataset import Dataset, Table
from lampnet.errors import DataError, FormatError, MissingExtra
from lampnet.readers.alignment import label_matrix, names_in
from lampnet.readers.bases import encode_bases
from lampnet.readers.number_text import blocks_of_lines, dense_block
from lampnet.readers.source import MAX_BYTES, decode, plain_stem, plain_suffix, read_bytes
from lampnet.readers.table_columns import ColumnRoles, RawTable, is_missing, roles_of

_FIELD_LIMIT = 1 << 27


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
        `.csv`, `.tsv`, `.tab` (plain, gzip, bz2) or `.parquet`.
    columns : mapping, optional
        What columns are for, e.g. ``{"text": "body", "labels": "tags", "separator": ";"}``; roles are
        text, smiles, dna, image, features, labels, id. What is not given is guessed.
    labels : sequence of str, optional
        Label names that are known already; they fix the order of the labels.
    on_bad_row : {"error", "skip"}
        What to do with a line that has another number of fields.
    notice : callable, optional
        Is told in a sentence which column was taken for what.
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
) -> tuple[Dataset, ColumnRoles]:
    """As `read_table`, and what was made of the columns."""
    path = Path(path)
    if plain_suffix(path) in (".parquet", ".pq"):
        table = _parquet(path, max_bytes)
    else:
        table = _delimited(path, on_bad_row, max_bytes)
    if not len(table):
        raise FormatError(path, "there are no rows after the header line; give a file with rows", 1)
    roles = roles_of(table, columns, labels)
    if notice is not None:
        notice(f"{path.name}: {roles.sentence()}")
    data = table_dataset(table, roles, labels, name or plain_stem(path))
    return data, roles


def table_dataset(table: RawTable, roles: ColumnRoles, labels: Sequence[str] | None, name: str) -> Dataset:
    """The rows of a table whose columns have known roles."""
    y, label_names = table_labels(table, roles, labels)
    rows, feature_names = _rows(table, roles)
    ids = tuple(_id(value) for value in table.column(roles.id)) if roles.id else None
    return Dataset(
        name=name,
        kind=roles.kind,
        rows=rows,
        labels=y,
        label_names=label_names,
        feature_names=feature_names,
        ids=ids,
    )


def _id(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def read_table_columns(path: Path, max_bytes: int = MAX_BYTES) -> LabelTable:
    """All columns of a CSV or TSV file as they are, for label tables beside other files."""
    table = _delimited(path, "error", max_bytes)
    return LabelTable(table.path, table.names, table.columns, table.lines)


class LabelTable(RawTable):
    """A table whose columns (but the first) are labels."""

    def indicator(self, names: Sequence[str]) -> sparse.csr_matrix:
        """CSR float32 (n, len(names)) of 0/1 columns."""
        return _indicator_columns(self, names)


def _parquet(path: Path, max_bytes: int) -> RawTable:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtra("pyarrow", "tables", "reading Parquet files") from None
    if not path.is_file():
        raise FormatError(path, "there is no such file; check the path")
    try:
        file = parquet.ParquetFile(path)
        size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        if size > max_bytes:
            raise FormatError(path, f"the content is larger than {max_bytes:,} bytes; pass a larger max_bytes")
        loaded = file.read()
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(path, f"this is not a readable Parquet file ({str(error)[:120]})") from None
    return arrow_table(path, loaded, range(1, loaded.num_rows + 1))


def arrow_table(path: Path, loaded: Any, lines: Sequence[int]) -> RawTable:
    """The columns of an Arrow table: numbers as floats, everything else as text or lists."""
    from pyarrow import types as arrow_types

    columns: list[Any] = []
    for column in loaded.columns:
        kind = column.type
        if arrow_types.is_floating(kind) or arrow_types.is_integer(kind) or arrow_types.is_boolean(kind):
            values = column.to_pylist() if arrow_types.is_boolean(kind) else column.to_numpy()
            columns.append(np.array([np.nan if v is None else v for v in values], dtype=np.float64))
        else:
            columns.append(
                ["" if v is None else (v if isinstance(v, (str, list)) else str(v)) for v in column.to_pylist()]
            )
    return RawTable(path, tuple(loaded.column_names), tuple(columns), lines)


def _delimited(path: Path, on_bad_row: str, max_bytes: int) -> RawTable:
    raw = read_bytes(path, max_bytes)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raw = decode(path, raw).encode()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    head, _, body = raw.partition(b"\n")
    if not raw.strip():
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    delimiter = _delimiter(path, head)
    if b'"' not in raw and b"\r" not in body.replace(b"\r\n", b"") and delimiter == b",":
        numeric = _all_numbers(path, decode(path, head).strip(), body)
        if numeric is not None:
            return numeric
    text = decode(path, raw)
    plain = _without_quotes(path, text, delimiter.decode()) if b'"' not in raw else None
    return plain if plain is not None else _with_csv_module(path, text, delimiter.decode(), on_bad_row)


def _without_quotes(path: Path, text: str, delimiter: str) -> RawTable | None:
    """A table whose every line has the same fields and no quotation mark: split all at once."""
    kept = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line]
    signs = kept[0][1].count(delimiter) if kept else 0
    if signs < 1 or any(line.count(delimiter) != signs for _, line in kept):
        return None
    names = [name.strip() for name in kept[0][1].split(delimiter)]
    _check_names(path, names)
    cells = delimiter.join(line for _, line in kept[1:]).split(delimiter) if len(kept) > 1 else []
    columns = tuple(cells[place :: len(names)] for place in range(len(names)))
    return RawTable(path, tuple(names), columns, [number for number, _ in kept[1:]])


def _delimiter(path: Path, head: bytes) -> bytes:
    if plain_suffix(path) in (".tsv", ".tab"):
        return b"\t"
    counts = {sign: head.count(sign) for sign in (b",", b";", b"\t")}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else b","


def _all_numbers(path: Path, head: str, body: bytes) -> RawTable | None:
    """A table of plain numbers, parsed in blocks; None when it holds anything else."""
    names = tuple(part.strip() for part in head.split(","))
    first = body.partition(b"\n")[0]
    if len(names) < 2 or first.count(b",") + 1 != len(names) or not _looks_numeric(first):
        return None
    blocks, lines = [], []
    for part in blocks_of_lines(body, 2):
        if any(text.count(b",") + 1 != len(names) for text in part.text):
            return None
        block = dense_block(part, len(names), path)
        if block is None:
            return None
        blocks.append(block)
        lines.extend(part.numbers)
    _check_names(path, names)
    return RawTable(path, names, tuple(np.concatenate(blocks).T), lines)


def _looks_numeric(line: bytes) -> bool:
    return not line.strip().translate(None, b"0123456789.,+-eE? \t")


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise FormatError(path, f"the column name {twice!r} occurs twice; the first line must name the columns", 1)


def _with_csv_module(path: Path, text: str, delimiter: str, on_bad_row: str) -> RawTable:
    # Tab-separated files seldom quote; a lone quotation mark there is part of the text.
    plain = delimiter == "\t" and text.count('"') % 2 == 1
    before = csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL,
        strict=True,
    )
    records: list[list[str]] = []
    lines: list[int] = []
    names: list[str] | None = None
    line = 1
    try:
        for record in reader:
            here, line = line, reader.line_num + 1
            if not record or (len(record) == 1 and not record[0].strip()):
                continue
            if names is None:
                names = [name.strip() for name in record]
                continue
            if len(record) != len(names):
                if on_bad_row == "skip":
                    continue
                raise FormatError(path, f"the line has {len(record)} fields, the header {len(names)}", here)
            records.append(record)
            lines.append(here)
    except csv.Error as error:
        raise FormatError(path, f"the line cannot be split into fields ({error})", line) from None
    finally:
        csv.field_size_limit(before)
    if names is None:
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    _check_names(path, names)
    columns = tuple(list(column) for column in zip(*records, strict=True)) if records else tuple([] for _ in names)
    return RawTable(path, tuple(names), columns, lines)


def table_labels(
    table: RawTable, roles: ColumnRoles, known: Sequence[str] | None
) -> tuple[sparse.csr_matrix | None, tuple[str, ...]]:
    """The labels as CSR float32 (n, L) and their names; `known` names fix the order."""
    if not roles.labels:
        return None, tuple(known or ())
    if not roles.separator:
        return _indicator_columns(table, roles.labels), roles.labels
    column = table.column(roles.labels[0])
    if isinstance(column, np.ndarray):
        column = ["" if np.isnan(value) else f"{value:g}" for value in column]
    sets = [_names(table, row, value, roles.separator) for row, value in enumerate(column)]
    label_names = tuple(known) if known is not None else names_in(sets)
    if not label_names:
        raise DataError(f"{table.path}: the label column {roles.labels[0]!r} names no label at all")
    return label_matrix(sets, label_names), label_names


def _names(table: RawTable, row: int, value: Any, separator: str) -> list[str]:
    if separator == "list" and isinstance(value, str):
        if not value.strip():
            return []
        try:
            value = json.loads(value if '"' in value else value.replace("'", '"'))
        except (ValueError, RecursionError):
            raise FormatError(table.path, f"{value[:40]!r} is not a list of labels", table.lines[row]) from None
    if not isinstance(value, str):
        return [str(part) for part in value]
    parts = [value] if separator == "none" else value.split(separator)
    return [part.strip() for part in parts if part.strip()]


def _indicator_columns(table: RawTable, names: Sequence[str]) -> sparse.csr_matrix:
    y = np.empty((len(table), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        numbers = table.numbers(name)
        good = None if numbers is None else np.isnan(numbers) | (numbers == 0) | (numbers == 1)
        if numbers is None or good is None or not good.all():
            row = 0 if good is None else int(np.flatnonzero(~good)[0])
            raise FormatError(table.path, f"the label column {name!r} must hold 0, 1 or nothing", table.lines[row])
        y[:, place] = numbers
    return sparse.csr_matrix(y)


def _rows(table: RawTable, roles: ColumnRoles) -> tuple[Any, tuple[str, ...] | None]:
    if roles.kind == "columns":
        return _table(table, roles.inputs), roles.inputs
    parts = [[str(value) for value in table.column(name)] for name in roles.inputs]
    values = ["\n".join(value) for value in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]
    if roles.kind == "image":
        return [_picture(table, row, value) for row, value in enumerate(values)], None
    if roles.kind == "dna":
        return encode_bases([value.strip() for value in values], table.path, table.lines), None
    if roles.kind == "molecule":
        return [value.strip() for value in values], None
    return values, None


def _picture(table: RawTable, row: int, value: str) -> Path:
    folder = table.path.parent
    for place in (folder / value, folder / "images" / value):
        if place.is_file():
            return place
    raise FormatError(table.path, f"the picture {value!r} is neither in {folder} nor in its images/", table.lines[row])


def _table(table: RawTable, names: Sequence[str]) -> Table:
    values = np.empty((len(table), len(names)))
    categories: dict[int, tuple[str, ...]] = {}
    for place, name in enumerate(names):
        column = table.column(name)
        numbers = table.numbers(name)
        if numbers is None:
            words = tuple(sorted({str(value).strip() for value in column if not is_missing(str(value))}))
            code = {word: float(number) for number, word in enumerate(words)}
            numbers = np.array([code.get(str(value).strip(), np.nan) for value in column])
            categories[place] = words
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise FormatError(table.path, f"the column {name!r} holds an infinite value", table.lines[row])
        values[:, place] = numbers
    return Table(values=values, names=tuple(names), categories=categories)
