"""A file with one value per label: a JSON object, or a label and its value on each line."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lampnet.errors import FormatError
from lampnet.readers.files import read_text, text_fields_size
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.memory_limit import STRING, MemoryBudget

#: bytes of memory that a label and its value take, beside their characters
_PER_VALUE = 320


class Given(NamedTuple):
    """A value as the file has it, and where that is, for messages."""

    value: Any
    place: str


def read_label_values(path: Path, what: str) -> dict[str, Given]:
    """The value of each label that the file names; lines have a comma or a tab between the two, or begin with #.

    what  how messages call a value, such as "weight"
    """
    text, budget = read_text(path), MemoryBudget(path)
    if text.lstrip().startswith("{"):
        budget.check(6 * sys.getsizeof(text) + STRING * sum(map(text.count, "[{,")) + _PER_VALUE * text.count(":"))
        try:
            found = parse_json(text.encode())
        except ValueError as fault:
            raise FormatError(path, f"this is not a JSON object of labels and {what}s ({fault})") from None
        assert isinstance(found, Mapping)
        return {name: Given(value, str(path)) for name, value in found.items()}
    budget.check(text_fields_size(text) + (_PER_VALUE + len(str(path))) * (text.count("\n") + 1))
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    given: dict[str, Given] = {}
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for record in reader:
            if not record or record[0].startswith("#"):
                continue
            if len(record) != 2:
                raise FormatError(path, f"expected a label and its {what}, found {len(record)} fields", reader.line_num)
            if record[0] in given:
                raise FormatError(path, f"the label {record[0][:80]!r} has a {what} already", reader.line_num)
            given[record[0]] = Given(record[1], f"{path}, line {reader.line_num}")
    except csv.Error as fault:
        raise FormatError(path, f"this is not CSV ({fault})", reader.line_num) from None
    if not given:
        raise FormatError(path, f"there are no {what}s; give a label and its {what} on each line", 1)
    return given
