"""CSV, TSV, Parquet and Arrow tables.

Labels are either 0/1 columns (an empty cell is unknown) or one column of names with a separator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.column_content import SAMPLE, date_seconds, is_doubtful_category, unclear_dates
from lampnet.data.dataset import Dataset, Table
from lampnet.data.dna_bases import encode_bases
from lampnet.data.from_arrays import only_texts
from lampnet.data.joined_labels import doubtful_separator, found_separator, taken_apart
from lampnet.data.named_columns import part_of_values
from lampnet.data.names import half_a_character, unwritable
from lampnet.data.parts import COLUMN_KINDS, Part, PartRows, part_of
from lampnet.data.schema import NoLabels, label_matrix, names_in
from lampnet.data.yes_no import blank_means_no, yes_or_no
from lampnet.errors import FormatError
from lampnet.readers.arrow_files import is_arrow, read_arrow
from lampnet.readers.column_roles import FEW, ColumnRoles, listed_columns, roles_of, separator_of
from lampnet.readers.delimited import read_delimited
from lampnet.readers.files import LARGEST, is_file, plain_stem
from lampnet.readers.options import ReadOptions
from lampnet.readers.raw_table import RawTable, TextColumn, is_missing
from lampnet.readers.weight_column import row_weight
from lampnet.runtime.memory_limit import STRING, MemoryBudget


def read_table(path: str | Path, **options: Any) -> Dataset:
    """Read a table with a header line: `.csv`, `.tsv`, `.tab` (plain, gzip, bz2), `.parquet`, `.arrow`, `.feather`.

    Options as in `ReadOptions`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "films.csv"
    >>> _ = path.write_text("plot,genres\\nA long war story,drama|war\\nTwo friends on the road,comedy\\n")
    >>> read_table(path, notice=print).label_names
    films.csv: text from the column 'plot'; labels from the column 'genres', separated by '|'
    ('comedy', 'drama', 'war')
    """
    return read_table_and_roles(Path(path), ReadOptions(**options))[0]


def read_table_and_roles(path: Path, options: ReadOptions) -> tuple[Dataset, ColumnRoles]:
    """As `read_table`, and what was made of the columns."""
    given, labels, notice = options.columns or {}, options.label_names(), options.notice
    learned = options.known.roles.get("encoding", "") if options.known is not None else ""
    encoding, is_given = str(given.get("encoding") or learned), bool(given.get("encoding"))
    how: dict[str, Any] = {"encoding": encoding, "unless_utf8": not is_given}
    table = read_arrow(path) if is_arrow(path) else read_delimited(path, options.on_bad_row, **how)
    if not len(table):
        raise FormatError(path, "there are no rows after the header line; give a file with rows", 1)
    roles = roles_of(table, given, labels) if options.known is None else options.known.roles_in(table, given)
    roles = replace(roles, encoding=encoding)
    if notice is not None:
        if roles.as_given() != given:  # the later parts of a folder are read as the first: nothing new
            notice(f"{path.name}: {roles.sentence()}")
        for doubt in _doubts(table, roles, given, is_learned=options.known is not None):
            notice(f"{path.name}: {doubt}")
        if table.skipped:
            rows = table.skipped + len(table)
            notice(f"{path.name}: {table.skipped:,} of {rows:,} rows could not be read and are left out")
    return table_dataset(table, roles, labels, options.name or plain_stem(path)), roles


def _doubts(table: RawTable, roles: ColumnRoles, given: Mapping[str, Any], is_learned: bool) -> Iterator[str]:
    """What the reader should know of how a table was read, or be asked."""
    if roles.separator and (doubt := _doubtful_labels(table, roles)):
        yield doubt
    columns = {name: column for name in table.names if isinstance(column := table.column(name), TextColumn)}
    if is_learned or roles.as_given() == given:
        return
    likely_row = [name for name, column in columns.items() if column.numbers is None and name in column[:SAMPLE]]
    if likely_row:
        yield f"the first line should name the columns, but {likely_row[0][:60]!r} is a cell of its column, too"
    commas = [name for name in roles.inputs if name in columns and columns[name].has_decimal_commas]
    if commas:
        yield f"commas are decimal commas in {listed_columns(commas)}"
    if not roles.separator:
        words = [name for name in roles.labels if name in columns and name not in table.binary()]
        blanks = [name for name in words if blank_means_no(columns[name].distinct[0])]
        if blanks:
            yield f"empty cells mean no in {listed_columns(blanks)}"
    texts = [
        name
        for name in roles.of_role("category")
        if name in columns
        and not any(name in _names_given(given, role) for role in ("category", "categories"))
        and is_doubtful_category([cell.strip() for cell in columns[name][:SAMPLE] if cell.strip()])
    ]
    if texts:
        yield f"read as categories, although they may be texts: {listed_columns(texts)}; --columns text=NAME sets it"
    unclear = [
        name
        for name, column in columns.items()
        if name not in roles.labels and unclear_dates([cell for cell in column[:SAMPLE] if cell.strip()])
    ]
    if unclear:
        yield (
            f"{listed_columns(unclear)} may hold dates, but which number is the day is not clear: written as "
            "2024-05-31, they are used as dates"
        )


def _names_given(given: Mapping[str, Any], role: str) -> Sequence[str]:
    names = given.get(role, ())
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _doubtful_labels(table: RawTable, roles: ColumnRoles) -> str:
    """What to ask where every row has one label at most, although its cells look as if they named several."""
    column = table.texts(roles.labels[0])
    if not isinstance(column, TextColumn) or roles.separator == "list":
        return ""
    cells = [value for value in column.distinct[0] if value.strip()]
    if roles.separator != "none" and any(roles.separator in value for value in cells):
        return ""
    sign = found_separator(cells)
    several = f"every row has one label, but {roles.labels[0]!r} looks like several; set the sign between them with"
    if sign in ("none", roles.separator):
        sign = doubtful_separator(cells) or sign
    if sign not in ("none", roles.separator):
        return f"{several} --columns separator={sign!r}"
    often = len(cells) * 2 > len(table) > FEW
    return f"{several} --columns separator=SIGN, if it holds more than one" if often else ""


def table_dataset(table: RawTable, roles: ColumnRoles, labels: Sequence[str] | None, name: str) -> Dataset:
    """The rows of a table whose columns have known roles."""
    y, label_names = table_labels(table, roles, labels)
    rows, feature_names = table_rows(table, roles)
    return Dataset(
        name=name,
        kind=roles.kind,
        rows=rows,
        labels=y,
        label_names=label_names,
        feature_names=feature_names,
        ids=tuple(map(str, table.texts(roles.id))) if roles.id else None,
        known=_known_labels(table, roles.known) if roles.known else None,
        groups=tuple(map(str, table.texts(roles.group))) if roles.group else None,
        times=_times(table, roles.time) if roles.time else None,
        weights=_weights(table, roles.weight) if roles.weight else None,
    )


def _weights(table: RawTable, name: str) -> tuple[float, ...]:
    numbers = table.numbers(name)
    cells = table.texts(name) if numbers is None else numbers
    return tuple(row_weight(table.path, name, cell, line) for cell, line in zip(cells, table.lines, strict=True))


def _times(table: RawTable, name: str) -> tuple[Any, ...]:
    """Numbers where all cells are, else texts."""
    numbers = table.numbers(name)
    return tuple(map(str, table.texts(name)) if numbers is None else numbers.tolist())


def _known_labels(table: RawTable, name: str) -> tuple[list[str], ...]:
    """The labels that each cell of a column names; an empty cell is nothing known."""
    column = table.texts(name)
    sets, of_row = _label_sets(table, name, separator_of([column]))
    return tuple(sets if of_row is None else [sets[number] for number in of_row])


def table_labels(
    table: RawTable, roles: ColumnRoles, known: Sequence[str] | None
) -> tuple[sparse.csr_matrix | None, tuple[str, ...]]:
    """The labels as CSR float32 (n, L) and their names; `known` names fix the order."""
    if not roles.labels:
        return None, tuple(known or ())
    if not roles.separator:
        return indicator_columns(table, roles.labels), roles.labels
    sets, of_row = _label_sets(table, roles.labels[0], roles.separator)
    label_names = tuple(known) if known is not None else names_in(sets)
    if not label_names:
        raise no_label_at_all(table.path, roles)
    if of_row is not None and set(names_in(sets)) <= set(label_names):
        return label_matrix(sets, label_names)[of_row], label_names
    sets = sets if of_row is None else [sets[number] for number in of_row]  # so that an error names its row
    return label_matrix(sets, label_names), label_names


def label_names_in(table: RawTable, roles: ColumnRoles) -> tuple[str, ...]:
    """The labels that the cells of a table name, or its label columns, their cells checked."""
    if roles.separator:
        return names_in(_label_sets(table, roles.labels[0], roles.separator)[0])
    return table_labels(table, roles, None)[1]


def no_label_at_all(path: Path, roles: ColumnRoles) -> NoLabels:
    return NoLabels(
        f"{path}: the label column {roles.labels[0]!r} names no label at all; give rows with labels, or say which "
        "column has them with --label-columns"
    )


def _label_sets(table: RawTable, name: str, separator: str) -> tuple[list[list[str]], np.ndarray | None]:
    """The label names of every cell; of text, those of every distinct cell and which of them each row has."""
    column = table.texts(name)
    if isinstance(column, TextColumn):
        # The same few combinations come again and again: each is taken apart once.
        values, of_row = column.distinct
        budget = MemoryBudget(table.path)
        return [_names(table, column, value, separator, budget) for value in values], of_row
    # A list may name a label many times over. Strings only: 1 and True are equal, but not the same label.
    distinct = (dict.fromkeys(cell) if only_texts(cell) else cell for cell in column)
    return [[str(name) for name in cell if name is not None] for cell in distinct], None


def _names(table: RawTable, column: TextColumn, value: str, separator: str, budget: MemoryBudget) -> list[str]:
    if value.strip() in ("", "?"):
        return []
    names = taken_apart(value, separator, budget.check)
    budget.take(STRING * len(names or ()))
    if names is None:
        raise FormatError(table.path, f"{value[:40]!r} is not a list of labels", table.lines[column.index(value)])
    if (bad := unwritable(names)) is not None:  # JSON has escapes for halves of characters
        problem = half_a_character("the label", names[bad])
        raise FormatError(table.path, problem, table.lines[column.index(value)])
    return names


def indicator_columns(table: RawTable, names: Sequence[str]) -> sparse.csr_matrix:
    """CSR float32 (n, len(names)) of columns that hold 0, 1 or nothing, or yes, no or nothing."""
    return _sparse(np.stack([_answers(table, name) for name in names], axis=1))


def _answers(table: RawTable, name: str) -> np.ndarray:
    """1, 0 and NaN (unknown) of a label column, float64 (n,)."""
    numbers = table.numbers(name)
    if name in table.binary():
        assert numbers is not None
        return numbers
    if (answers := table.yes_or_no(name)) is not None:
        return answers
    cells = table.texts(name)
    if not isinstance(cells, TextColumn):
        wrong = 0
    elif numbers is not None:
        others = np.flatnonzero(~(np.isnan(numbers) | (numbers == 0) | (numbers == 1)))
        if not len(others):  # all are missing
            return numbers
        wrong = int(others[0])
    else:
        wrong = next((row for row, cell in enumerate(cells) if yes_or_no([cell]) is None and not is_missing(cell)), 0)
    problem = f"the label column {name!r} holds {str(cells[wrong])[:40]!r}; expected 0, 1 or nothing, or yes and no"
    raise FormatError(table.path, problem, table.lines[wrong])


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
    if roles.kind == "parts":
        return _parts(table, roles), None
    part = _part(table, roles.inputs[0], roles.roles[0])
    if part.where is not None:
        empty = int(np.argmin(part.where))
        problem = f"the column {part.name!r} is empty here; fill it in or leave the row out"
        raise FormatError(table.path, problem, table.lines[empty])
    return part.rows, part.feature_names


def _parts(table: RawTable, roles: ColumnRoles) -> PartRows:
    pairs = tuple(zip(roles.inputs, roles.roles, strict=True))
    plain = tuple((name, role) for name, role in pairs if COLUMN_KINDS[role] == "columns")
    parts: list[Part] = []
    for name, role in pairs:
        if (name, role) not in plain:
            parts.append(_part(table, name, role))
        elif not any(part.kind == "columns" for part in parts):
            own = replace(roles, inputs=tuple(n for n, _ in plain), roles=tuple(r for _, r in plain))
            parts.append(Part(name="", kind="columns", rows=_table(table, own)))
    return PartRows(tuple(parts), pairs)


def _part(table: RawTable, name: str, role: str) -> Part:
    """One column that is no number, category or date."""
    column = table.texts(name) if role != "vector" else table.column(name)
    cells: list[Any] = list(column)
    if role in ("words", "vector"):
        return part_of_values(name, role, cells)
    values = [value if role == "text" else value.strip() for value in map(str, cells)]
    if role == "text":
        return Part(name=name, kind="text", rows=values)
    there = np.array([bool(value) for value in values])
    lines = [line for line, here in zip(table.lines, there, strict=True) if here]
    if role == "image":
        rows = {value: row for row, value in reversed(list(enumerate(values)))}
        return part_of(name, "image", values, there, lambda kept: ([_picture(table, rows[v], v) for v in kept], None))
    if role == "dna":
        return part_of(name, "dna", values, there, lambda kept: (encode_bases(kept, table.path, lines), None))
    return part_of(name, "molecule", values, there, lambda kept: (kept, None))


def _picture(table: RawTable, row: int, value: str) -> Path:
    folder = table.path.parent
    for place in (folder / value, folder / "images" / value):
        if is_file(place):
            return place
    raise FormatError(
        table.path, f"the picture {value[:200]!r} is neither in {folder} nor in its images/", table.lines[row]
    )


def _table(table: RawTable, roles: ColumnRoles) -> Table:
    values = np.empty((len(table), len(roles.inputs)))
    categories: dict[int, tuple[str, ...]] = {}
    for place, name in enumerate(roles.inputs):
        numbers = None if name in roles.categories else table.numbers(name)
        if roles.roles[place] == "date" and numbers is None:
            numbers = _seconds(table, name)
        if numbers is None:
            numbers, categories[place] = _category_codes(table.texts(name))
        values[:, place] = numbers
    large = np.abs(values) > LARGEST
    if large.any():
        row, place = np.argwhere(large)[0]
        problem = f"the column {roles.inputs[place]!r} is infinite or beyond 3.4e38 here; give finite numbers"
        raise FormatError(table.path, problem, table.lines[row])
    return Table(values=values, names=roles.inputs, categories=categories)


def _seconds(table: RawTable, name: str) -> np.ndarray:
    """Dates as seconds since 1970, NaN where missing."""
    values, of_row = table.texts(name).distinct
    found = [float("nan") if is_missing(value) else date_seconds(value.strip()) for value in values]
    if None in found:
        bad = found.index(None)
        problem = f"{values[bad][:40]!r} in the column {name!r} is not a date such as 2024-05-31 or 31.05.2024"
        raise FormatError(table.path, problem, table.lines[int(np.argmax(of_row == bad))])
    seconds: np.ndarray = np.array(found, dtype=np.float64)[of_row]
    return seconds


def _category_codes(column: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """float64 (n,) of places among the sorted words, NaN where missing; and the words."""
    values, of_row = (column if isinstance(column, TextColumn) else TextColumn(list(map(str, column)))).distinct
    words = tuple(sorted({value.strip() for value in values if not is_missing(value)}))
    code = {word: float(number) for number, word in enumerate(words)}
    return np.array([code.get(value.strip(), np.nan) for value in values])[of_row], words
