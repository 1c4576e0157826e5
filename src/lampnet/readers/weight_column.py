"""What rows and labels count, as files say it: a column of weights, a file of label weights."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lampnet.data.weights import BALANCED, LabelWeight
from lampnet.errors import ConfigError, FormatError
from lampnet.readers.files import read_text
from lampnet.runtime.limited_json import parse_json

FORM = "balanced, a file, or NAME=WEIGHT,NAME=WEIGHT"


def row_weight(path: Path, name: str, value: Any, line: int) -> float:
    """What a row counts: a finite number of at least 0.

    >>> row_weight(Path("rows.csv"), "trust", 0.5, 2)
    0.5
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        found = "missing" if value is None or value == "" or value != value else f"{str(value)[:40]!r}"
        raise FormatError(path, f"the weight {name!r} is {found}; give a finite number of at least 0", line)
    return number


def read_label_weight(given: str | None) -> LabelWeight:
    """What `--label-weight` says: "balanced", the name of a file, or names and weights.

    A file is a JSON object, or has a label and its weight on each line, separated by a comma or a tab.

    >>> read_label_weight("rain=2,snow=0.5")
    {'rain': 2.0, 'snow': 0.5}
    """
    if given is None or given == BALANCED:
        return given
    path = Path(given)
    if "=" not in given or path.is_file():
        if not path.is_file():
            raise ConfigError(f"--label-weight {given[:80]!r} is no file; give {FORM}")
        return _read_file(path)
    pairs = [part.rpartition("=") for part in given.split(",")]
    return {name.strip(): _number(value, f"--label-weight {name.strip()[:80]}") for name, _, value in pairs}


def _read_file(path: Path) -> dict[str, float]:
    text = read_text(path)
    if text.lstrip().startswith("{"):
        try:
            found = parse_json(text.encode())
        except ValueError as fault:
            raise FormatError(path, f"this is not a JSON object of labels and weights ({fault})") from None
        assert isinstance(found, Mapping)
        return {name: _number(value, f"{path}: {name[:80]!r}") for name, value in found.items()}
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    weights: dict[str, float] = {}
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for record in reader:
            if not record or record[0].startswith("#"):
                continue
            if len(record) != 2:
                raise FormatError(path, f"expected a label and its weight, found {len(record)} fields", reader.line_num)
            if record[0] in weights:
                raise FormatError(path, f"the label {record[0][:80]!r} has a weight already", reader.line_num)
            weights[record[0]] = _number(record[1], f"{path}, line {reader.line_num}: {record[0][:80]!r}")
    except csv.Error as fault:
        raise FormatError(path, f"this is not CSV ({fault})", reader.line_num) from None
    if not weights:
        raise FormatError(path, "there are no weights; give a label and its weight on each line", 1)
    return weights


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{what}: the weight is {str(value)[:40]!r}; give a number above 0") from None
