"""Rows of a request, written as the rows of JSON lines, as what a model reads. No row makes the service open a file."""

from __future__ import annotations

import base64
import binascii
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.column_content import date_seconds
from lampnet.data.dataset import Dataset, Table
from lampnet.data.from_arrays import column_values
from lampnet.data.known_labels import States, nothing_known, read_known
from lampnet.data.named_columns import Roles, part_rows
from lampnet.encoders.image_files import decoded, opened_image
from lampnet.errors import DataError
from lampnet.inference.match_schema import known_states, match_rows
from lampnet.inference.predictor import FittedModel
from lampnet.readers.jsonl import read_jsonl_lines

#: how errors call the place that a row came from
REQUEST = Path("rows")
_BESIDE = ("id", "labels", "known")
#: pixels that the pictures of one request may have together; half a gigabyte while they are decoded
MOST_PIXELS = 64_000_000


def read_rows(model: FittedModel, rows: Sequence[dict[str, Any]]) -> Dataset:
    """The rows in the model's form, without labels; ids are those given, or numbers."""
    if model.encoder.kind == "image":
        data = _pictures(rows)
    elif model.encoder.kind == "parts":
        data = _parts(rows, model.encoder.roles)
    elif model.encoder.kind == "columns" and not any("features" in row for row in rows):
        data = _columns(rows, model.encoder.no_rows())
    else:
        if any("image" in row for row in rows):
            raise DataError("rows: an 'image' was sent to a model of another kind; send what it was trained on")
        numbered = ((number, json.dumps(row)) for number, row in enumerate(rows, start=1))
        data = read_jsonl_lines(REQUEST, numbered, unlabelled=True)
    return match_rows(model, replace(data, labels=None), "rows")


def read_states(model: FittedModel, data: Dataset, known: Sequence[Any] | None) -> States | None:
    """What is known of the rows' labels, from `known` beside the rows or inside them; None where nothing is."""
    inside = known_states(model, data)
    if known is None:
        return inside
    beside = read_known(list(known), model.label_names, len(data))
    if inside is None:
        return beside
    if (clash := (beside * inside == -1).any(axis=1)).any():
        raise DataError(f"row {int(np.argmax(clash))}: 'known' beside the rows contradicts 'known' inside the row")
    return np.where(beside == 0, inside, beside)


def states_or_nothing(model: FittedModel, states: States | None, n_rows: int) -> States:
    """States (n, L), all unknown where nothing is known; those that the label hierarchy forbids are refused."""
    if states is None:
        return nothing_known(n_rows, len(model.label_names))
    if model.hierarchy is not None:
        model.hierarchy.check_known(states)
    return states


def _columns(rows: Sequence[dict[str, Any]], trained: Table) -> Dataset:
    """Rows of a table: an object with a value for each column; what is left out or null is missing.

    Columns that the model was not trained on are left out at once: a cell for each of them in each row could take
    a thousand times the memory of the request.
    """
    given = {name for row in rows for name in row if name not in _BESIDE}
    columns = [column for column, name in enumerate(trained.names) if name in given]
    if not columns:
        raise DataError(f"rows: no row has any of the model's columns ({', '.join(trained.names)[:200]})")
    values = np.full((len(rows), len(columns)), np.nan)
    categories: dict[int, tuple[str, ...]] = {}
    for place, column in enumerate(columns):
        name = trained.names[column]
        is_category = column in trained.categories
        cells = [_cell(row.get(name), name, number, is_category) for number, row in enumerate(rows)]
        values[:, place], words = column_values(cells, as_words=is_category)
        if words is not None:
            categories[place] = words
    names = tuple(trained.names[column] for column in columns)
    return _dataset(Table(values=values, names=names, categories=categories), "columns", rows)


def _cell(cell: Any, name: str, row: int, is_category: bool) -> str | float | None:
    """A cell of a table. Numbers may come as texts, as a CSV file has them: what the column held is known."""
    if cell is not None and not isinstance(cell, (str, int, float)):
        raise DataError(f"row {row}: {name[:40]!r} is {type(cell).__name__}; give a number or a text")
    _check_float(cell, name, row)
    if not isinstance(cell, str) or is_category:
        return cell
    if not cell.strip():
        return None
    try:
        seconds = date_seconds(cell.strip())
        return float(cell) if seconds is None else seconds
    except ValueError:
        raise DataError(f"row {row}: {name[:40]!r} is {cell[:40]!r}; this column holds numbers") from None


def _parts(rows: Sequence[dict[str, Any]], roles: Roles) -> Dataset:
    """Rows of several parts: an object with a value for each column; a part that is left out or null is missing."""
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name, _ in roles}
    if not any(cell is not None for cells in columns.values() for cell in cells):
        raise DataError(f"rows: no row has any of the model's columns ({', '.join(columns)[:200]})")
    pixels = Pixels()
    for name, role in roles:
        for number, cell in enumerate(columns[name]):
            if cell is None:
                continue
            wanted = (list,) if role == "vector" else (list, str) if role == "words" else (str, int, float)
            if not isinstance(cell, wanted):
                raise DataError(f"row {number}: {name[:40]!r} is {type(cell).__name__}; as {role} it cannot be read")
            if role in ("number", "category"):
                columns[name][number] = _cell(cell, name, number, is_category=role == "category")
            else:
                _check_float(cell, name, number)
            if role == "image":  # as above: a path would be opened on the server
                columns[name][number] = _picture({"image": cell}, number, pixels)
    return _dataset(part_rows(columns, roles), "parts", rows)


def _check_float(cell: Any, name: str, row: int) -> None:
    """JSON has whole numbers of any length, and a table holds floats."""
    if isinstance(cell, int) and abs(cell) > sys.float_info.max:
        raise DataError(f"row {row}: {name[:40]!r} is a number beyond 1e308; give a smaller one, or leave it out")


def _pictures(rows: Sequence[dict[str, Any]]) -> Dataset:
    """Pictures come as base64, as in data URLs: a path would be opened on the server."""
    pixels = Pixels()
    return _dataset([_picture(row, number, pixels) for number, row in enumerate(rows)], "image", rows)


class Pixels:
    """Counts the pixels of a request's pictures before they are decoded: a few kB can stand for millions of them."""

    def __init__(self) -> None:
        self.left = MOST_PIXELS

    def take(self, width: int, height: int, number: int) -> None:
        """Refuse the picture of this row where there would be too many."""
        self.left -= width * height
        if self.left < 0:
            raise DataError(
                f"row {number}: its picture has {width:,} x {height:,} pixels, and a request may have "
                f"{MOST_PIXELS:,} in all; send smaller pictures, or several requests"
            )


def _picture(row: dict[str, Any], number: int, pixels: Pixels) -> np.ndarray:
    text = row.get("image")
    if not isinstance(text, str):
        raise DataError(f"row {number}: no 'image'; give the picture's bytes in base64")
    text = text.split(",", 1)[1] if text.startswith("data:") and "," in text else text
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"row {number}: 'image' is not base64; give the picture's bytes, not its path") from None
    name = f"the image of row {number}"
    with opened_image(io.BytesIO(content), name=name) as image:
        pixels.take(image.width, image.height, number)
        return np.asarray(decoded(image, name, "RGB"), dtype=np.uint8)


def _dataset(rows: Any, kind: str, given: Sequence[dict[str, Any]]) -> Dataset:
    known = tuple(row.get("known") for row in given)
    return Dataset(
        name="rows",
        kind=kind,
        rows=rows,
        labels=None,
        label_names=(),
        ids=tuple(str(row.get("id", number)) for number, row in enumerate(given)),
        known=known if any(one is not None for one in known) else None,
    )
