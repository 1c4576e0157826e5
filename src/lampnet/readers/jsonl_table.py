"""JSON lines whose rows have several parts: every field is a column, read as the columns of any table are.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "films.jsonl"
>>> film = '{"plot": "A war story of %d men", "year": 1979, "labels": ["war"]}\\n'
>>> _ = path.write_text(film % 2 + film % 3)
>>> data, roles = read_jsonl_table(path, enumerate(path.read_text().splitlines(), start=1))
>>> roles.sentence(), data.label_names
("text from the column 'plot'; number from the column 'year'; no labels", ('war',))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.names import half_a_character, unwritable
from lampnet.errors import FormatError
from lampnet.readers.column_roles import ALIASES, INPUT_ROLES, ColumnRoles, roles_of
from lampnet.readers.files import LARGEST, plain_stem
from lampnet.readers.jsonl import KINDS, OWN_FIELDS, known_of, label_columns, label_list, parsed_size, record_of
from lampnet.readers.raw_table import RawTable, TextColumn, number_name
from lampnet.readers.tables import table_dataset
from lampnet.readers.trained_columns import KnownColumns
from lampnet.runtime.memory_limit import STRING, MemoryBudget


def has_parts(line: str, given: Mapping[str, Any] | None, known: KnownColumns | None, path: Path = Path("row")) -> bool:
    """Whether rows such as this line have several parts: the caller or the model says so, or their fields do.

    >>> has_parts('{"text": "a", "source": "x"}', None, None), has_parts('{"title": "a", "plot": "b"}', None, None)
    (False, True)
    """
    inputs = (*INPUT_ROLES, "features", "categories", "dates")
    if any(ALIASES.get(role, role) in inputs for role in given or {}):
        return True
    if known is not None:
        names = [name for role in inputs for name in _listed(known.roles.get(role, ()))]
        return len(set(names)) > 1 and any(role in known.roles for role in INPUT_ROLES)
    MemoryBudget(path).check(parsed_size(line), 1)
    try:
        fields = [name for name in record_of(path, line, 1) if name not in OWN_FIELDS]
    except FormatError:
        return False
    plain = [name for name in fields if name in KINDS]
    return len(fields) > 1 and "features" not in plain and len(plain) != 1


def _listed(names: Any) -> Sequence[str]:
    return names.split(",") if isinstance(names, str) else names


def read_jsonl_table(
    path: Path,
    numbered: Iterable[tuple[int, str]],
    *,
    columns: Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    known: KnownColumns | None = None,
    on_bad_row: str = "error",
    first_row: int = 0,
    roles: ColumnRoles | None = None,
) -> tuple[Dataset, ColumnRoles]:
    """Rows from numbered lines, and what their fields were taken for; options as in `read_jsonl_lines`.

    roles  what the fields are for, where earlier lines of the same file have shown it
    """
    budget = MemoryBudget(path)
    records, lines, skipped = [], [], 0
    for number, line in numbered:
        if not line.strip():
            continue
        budget.take(parsed_size(line), number)
        try:
            record = record_of(path, line, number)
            _check(path, record, number)
        except FormatError:
            if on_bad_row != "skip":
                raise
            skipped += 1
            continue
        records.append(record)
        lines.append(number)
    if not records:
        raise FormatError(path, "the file has no rows; expected one JSON object per line", 1)
    names = tuple(name for name in dict.fromkeys(key for record in records for key in record) if name not in OWN_FIELDS)
    for name in () if roles is None else (*roles.inputs, *roles.labels):  # a few rows need not have every field
        names = names if name in names else (*names, name)
    budget.check(STRING * len(names) * len(records))
    own = [_column(path, [record.get(name) for record in records], lines) for name in names]
    table = RawTable(path, names, tuple(own), lines, skipped)
    listed = any("labels" in record for record in records)
    if roles is None:
        given = {**({"labels": ()} if listed else {}), **(columns or {})}
        roles = roles_of(table, given, labels) if known is None else known.roles_in(table, given)
    if listed:
        roles = replace(roles, labels=(), separator="")
    data = table_dataset(table, roles, labels, plain_stem(path))
    if listed and not (known is not None and known.unlabelled):
        sets = [label_list(path, record.get("labels"), line) for record, line in zip(records, lines, strict=True)]
        y, label_names = label_columns(sets, labels, path)
        data = replace(data, labels=y, label_names=label_names)
    beforehand = tuple(known_of(path, record.get("known"), line) for record, line in zip(records, lines, strict=True))
    ids = data.ids or tuple(str(record.get("id", first_row + row)) for row, record in enumerate(records))
    return replace(data, ids=ids, known=beforehand if any(one is not None for one in beforehand) else data.known), roles


def _check(path: Path, record: Mapping[str, Any], number: int) -> None:
    for name, value in record.items():
        strings = [name, *([value] if isinstance(value, str) else [])]
        if (bad := unwritable(strings)) is not None:
            raise FormatError(path, half_a_character("the field", strings[bad][:40]), number)
        if isinstance(value, dict) and name != "known":
            problem = f"{name[:40]!r} is an object; a part of a row is a text, a number or a list"
            raise FormatError(path, problem, number)
        numbers = [value] if isinstance(value, (int, float)) else value if isinstance(value, list) else []
        if any(isinstance(one, (int, float)) and not abs(one) <= LARGEST for one in numbers):
            raise FormatError(path, f"{name[:40]!r} holds a number that is infinite or too large", number)
        label_list(path, record.get("labels"), number)


def _column(path: Path, values: list[Any], lines: Sequence[int]) -> Any:
    """Numbers as float64 (n,), lists as lists, anything else as text; None is missing."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, (int, float)) for value in there):
        return np.array([np.nan if value is None else float(value) for value in values])
    if there and all(isinstance(value, list) for value in there):
        return [[] if value is None else value for value in values]
    wrong = next((row for row, value in enumerate(values) if isinstance(value, list)), None)
    if wrong is not None:
        raise FormatError(path, "a field is a list here and something else in other rows; give one form", lines[wrong])
    return TextColumn([_text(value) for value in values])


def _text(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_name(float(value))
    return "" if value is None else str(value)
