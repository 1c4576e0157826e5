"""JSON lines: one object per row, with `text`, `features`, `smiles`, `dna` (or `sequence`) or `image`.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "two.jsonl"
>>> _ = path.write_text('{"text": "ships and grain", "labels": ["ship", "grain"]}\\n{"text": "gold", "labels": []}\\n')
>>> read_jsonl_lines(path, enumerate(path.read_text().splitlines(), start=1)).label_names
('grain', 'ship')
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.dna_bases import encode_bases
from lampnet.data.names import half_a_character, unwritable
from lampnet.data.schema import NoLabels, label_matrix, names_in
from lampnet.errors import DataError, FormatError, did_you_mean
from lampnet.readers.files import LARGEST, is_file, plain_stem
from lampnet.readers.row_fields import RowFields
from lampnet.runtime.limited_json import DoubledKey, unique_keys
from lampnet.runtime.memory_limit import STRING, MemoryBudget

KINDS = {"text": "text", "features": "", "smiles": "molecule", "dna": "dna", "sequence": "dna", "image": "image"}
#: fields that every row may have beside its input
OWN_FIELDS = ("id", "labels", "known")
#: Bytes of memory for what a row has beside its values: its id, its line, its places in lists.
_PER_ROW = 300
#: Bytes for every unknown label of a row, which is stored as NaN.
_PER_UNKNOWN = 32


def read_jsonl_lines(
    path: str | Path,
    numbered: Iterable[tuple[int, str]],
    *,
    labels: Sequence[str] | None = None,
    on_bad_row: str = "error",
    first_row: int = 0,
    unlabelled: bool = False,
    columns: Mapping[str, Any] | None = None,
) -> Dataset:
    """Rows from numbered lines of a JSONL file, so that a long file can be read in chunks.

    `labels`, where the names are known, fix the order of the labels; `unlabelled`: labels are not looked at.
    `first_row` is the number of rows before these; rows without an "id" are called by their number. `columns` names
    the fields of groups, times and weights; all other fields are left out.
    A row without "labels" has every label unknown (NaN); when no row has any, the labels are None.
    """
    path, budget = Path(path), MemoryBudget(path)
    field: str | None = None
    inputs: list[Any] = []
    label_sets: list[list[str] | None] = []
    ids: list[str] = []
    lines: list[int] = []
    known: list[Any] = []
    fields = RowFields(path, columns)
    for number, line in numbered:
        if not line.strip():
            continue
        budget.check(parsed_size(line), number)
        try:
            record = record_of(path, line, number)
            here = _field(path, record, number)
            if field is not None and here != field:
                raise FormatError(path, f"the row has {here!r}, the rows before it {field!r}; give one kind", number)
            value = _value(path, here, record[here], inputs[0] if inputs else None, number)
            names = None if unlabelled else label_list(path, record.get("labels"), number)
            name = str(record["id"]) if "id" in record else None
            if "\\u" in line:  # only an escape can stand for half a character
                _check_writable(path, here, value, names, name, number)
            known_here = known_of(path, record.get("known"), number)
            beside = fields.read(record, number)
        except FormatError:
            if on_bad_row == "skip":
                continue
            raise
        field = here
        budget.take(_kept_size(value, [*(names or ()), *(known_here or ())]), number)
        inputs.append(value)
        label_sets.append(names)
        ids.append(str(first_row + len(ids)) if name is None else name)
        lines.append(number)
        known.append(known_here)
        fields.keep(beside)
    if field is None:
        raise FormatError(path, "the file has no rows; expected one JSON object per line", 1)
    rows, kind, feature_names = _rows(path, field, inputs, lines)
    y, label_names = label_columns(label_sets, labels, path)
    return Dataset(
        name=plain_stem(path),
        kind=kind,
        rows=rows,
        labels=y,
        label_names=label_names,
        feature_names=feature_names,
        ids=tuple(ids),
        known=tuple(known) if any(given is not None for given in known) else None,
        **fields.of_rows(),
    )


def fields_left_out(path: Path, line: str, columns: Mapping[str, Any] | None) -> list[str]:
    """The fields of a row that are neither its input nor have another use.

    >>> fields_left_out(Path("rows.jsonl"), '{"text": "a", "labels": [], "source": "x", "day": 3}', {"time": "day"})
    ['source']
    """
    try:
        record = record_of(path, line, 1)
    except FormatError:
        return []
    return [name for name in record if name not in (*KINDS, *OWN_FIELDS, *RowFields(path, columns).names.values())]


def parsed_size(line: str) -> int:
    """Bytes of memory that the JSON of a line may take: every sign may begin a value."""
    return 4 * len(line) + STRING * sum(map(line.count, "[{,:"))


def _kept_size(value: Any, names: list[str] | None) -> int:
    entries = len(value) if isinstance(value, (dict, list)) else 0
    return _PER_ROW + sys.getsizeof(value) + 2 * STRING * (entries + len(names or ()))


def record_of(path: Path, line: str, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=unique_keys)
    except DoubledKey as error:
        raise FormatError(path, f"{error}; give each key once", number) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"this is not JSON ({str(error)[:80]})", number) from None
    if not isinstance(record, dict):
        raise FormatError(path, f"expected a JSON object, found {type(record).__name__}", number)
    return record


def _field(path: Path, record: dict[str, Any], number: int) -> str:
    found = [key for key in KINDS if key in record]
    if len(found) != 1:
        problem = f"the row has {' and '.join(found)}" if found else f"the row has none of {', '.join(KINDS)}"
        close = [did_you_mean(key, KINDS) for key in record if not found and key not in (*OWN_FIELDS, "weight")]
        raise FormatError(path, "; ".join([problem, *close[:1], "give exactly one input field"]), number)
    return found[0]


def _value(path: Path, field: str, value: Any, first: Any, number: int) -> Any:
    if field != "features":
        if not isinstance(value, str):
            raise FormatError(path, f"{field!r} must be a string, found {type(value).__name__}", number)
        return value
    if not isinstance(value, (dict, list)) or (first is not None and not isinstance(value, type(first))):
        raise FormatError(path, "'features' must be an object or a list, the same in every row", number)
    if isinstance(value, list) and first is not None and len(value) != len(first):
        raise FormatError(path, f"'features' has {len(value)} numbers, the first row {len(first)}", number)
    entries = value.values() if isinstance(value, dict) else value
    for entry in entries:
        if not isinstance(entry, (int, float)) or not abs(entry) <= LARGEST:
            raise FormatError(path, f"'features' holds {str(entry)[:40]!r}; give finite numbers", number)
    return value


def label_list(path: Path, labels: Any, number: int, what: str = "labels") -> list[str] | None:
    if labels is None:
        return None
    if isinstance(labels, str) or not isinstance(labels, list):
        raise FormatError(path, f"{what!r} must be a list of names", number)
    for label in labels:
        if not isinstance(label, (str, int)):
            raise FormatError(path, f"the label {str(label)[:40]!r} is not a name", number)
    return [str(label) for label in labels]


def _check_writable(path: Path, field: str, value: Any, names: list[str] | None, name: str | None, number: int) -> None:
    """Names and SMILES go to files and other libraries; in a text, half a character is read as a blank."""
    features = list(value) if isinstance(value, dict) else [value] if field == "smiles" else []
    for what, given in (("label", names or []), ("id", [name or ""]), ("feature name", features)):
        if (bad := unwritable(given)) is not None:
            what = "SMILES" if field == "smiles" and given is features else what
            raise FormatError(path, half_a_character(f"the {what}", given[bad]), number)


def known_of(path: Path, known: Any, number: int) -> dict[str, bool | float | None] | list[str] | None:
    """What a row says of its labels beforehand: {"grain": true, "wheat": 0.2}, or a list of true ones."""
    if known is None or isinstance(known, list):
        return None if known is None else label_list(path, known, number, "known")
    if not isinstance(known, dict):
        raise FormatError(path, "'known' must be an object of label: true or false, or a list of labels", number)
    for label, value in known.items():
        if value is not None and not (isinstance(value, (bool, int, float)) and 0 <= value <= 1):
            problem = f"'known' has {label[:40]!r}: {str(value)[:40]}; give true, false or a probability"
            raise FormatError(path, problem, number)
    return known


def _rows(path: Path, field: str, inputs: list[Any], lines: list[int]) -> tuple[Any, str, tuple[str, ...] | None]:
    if field == "features" and isinstance(inputs[0], list):
        if not inputs[0]:
            raise FormatError(path, "'features' is an empty list; give at least one number", lines[0])
        return np.array(inputs, dtype=np.float32), "vector", None
    if field == "features":
        names = tuple(sorted({name for features in inputs for name in features}))
        place = {name: number for number, name in enumerate(names)}
        columns = [place[name] for features in inputs for name in features]
        values = [float(value) for features in inputs for value in features.values()]
        indptr = np.concatenate([[0], np.cumsum([len(features) for features in inputs])])
        shape = (len(inputs), len(names))
        matrix = sparse.csr_matrix((np.array(values, dtype=np.float32), columns, indptr), shape=shape)
        matrix.sort_indices()
        matrix.eliminate_zeros()
        return matrix, "wordset", names
    if KINDS[field] == "dna":
        return encode_bases([value.strip() for value in inputs], path, lines), "dna", None
    if field == "image":
        places = [path.parent / value for value in inputs]
        for place, number in zip(places, lines, strict=True):
            if not is_file(place):
                raise FormatError(path, f"there is no picture {str(place)[:200]}", number)
        return places, "image", None
    return inputs, KINDS[field], None


def label_columns(
    label_sets: list[list[str] | None], known: Sequence[str] | None, path: Path
) -> tuple[sparse.csr_matrix | None, tuple[str, ...]]:
    given = [names for names in label_sets if names is not None]
    label_names = tuple(known) if known is not None else names_in(given)
    if not given:
        return None, label_names
    if not label_names:
        raise NoLabels(f'{path}: every row\'s "labels" is empty; give rows that have labels')
    unknown_rows = [row for row, names in enumerate(label_sets) if names is None]
    try:
        y = label_matrix([names or [] for names in label_sets], label_names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if unknown_rows:
        count = len(label_names)
        MemoryBudget(path).check(_PER_UNKNOWN * count * len(unknown_rows))
        at = np.repeat(unknown_rows, count), np.tile(np.arange(count), len(unknown_rows))
        y = sparse.csr_matrix(y + sparse.csr_matrix((np.full(len(at[0]), np.nan, dtype=np.float32), at), shape=y.shape))
    return y, label_names
