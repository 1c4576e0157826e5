"""Which column of a table is what: guessed from names and content, summed up in a sentence; any of it can be set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.errors import DataError, did_you_mean
from lampnet.readers.raw_table import SAMPLE, RawTable, TextColumn

ROLES = ("text", "smiles", "dna", "image", "labels", "features", "categories", "id", "separator", "known")
INPUT_ROLES = ("text", "smiles", "dna", "image")
_LABEL_NAMES = {"labels", "label", "tags", "tag", "categories", "category", "genres", "topics", "classes", "targets"}
_TEXT_NAMES = {"text", "body", "document", "content", "abstract", "comment", "sentence", "review", "description"}
_ID_NAMES = {"id", "ids", "row_id", "mol_id", "doc_id", "uid", "uuid", "index", "key"}
_IMAGE_NAMES = {"image", "images", "file", "filename", "filenames", "path", "picture"}
_DNA = re.compile(r"[ACGTNacgtn]{8,}")
_SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$:/\\.%*~]+")
_IMAGE = re.compile(r".+\.(?:jpe?g|png|gif|bmp|webp|tiff?)", re.IGNORECASE)
_SEPARATORS = ("|", ";", ",")


class MissingColumn(DataError):
    """A column that was named for a role and is not there."""

    def __init__(self, role: str, problem: str) -> None:
        super().__init__(problem)
        self.role = role


@dataclass(frozen=True)
class ColumnRoles:
    """What each column is used for; `separator` is empty when labels have a column each.

    `categories` are the inputs that hold words, or numbers that stand for words.
    """

    kind: str
    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    separator: str
    id: str | None
    unused: tuple[str, ...]
    categories: tuple[str, ...] = ()
    known: str | None = None

    def sentence(self) -> str:
        """The roles in one sentence.

        >>> ColumnRoles("text", ("body",), ("tags",), ";", "id", ()).sentence()
        "text from the column 'body'; labels from the column 'tags', separated by ';'; ids from 'id'"
        """
        parts = [f"{self.kind} from {_listed(self.inputs)}"]
        if not self.labels:
            parts.append("no labels")
        elif self.separator:
            how = "one per row" if self.separator == "none" else f"separated by {self.separator!r}"
            parts.append(f"labels from {_listed(self.labels)}, {how}")
        else:
            parts.append(f"one label per column from {_listed(self.labels)}")
        if self.id:
            parts.append(f"ids from {self.id!r}")
        if self.known:
            parts.append(f"known labels from {self.known!r}")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return "; ".join(parts)

    def as_given(self) -> dict[str, Any]:
        """The roles as the `columns` argument of another file of the same form."""
        role = {"molecule": "smiles", "columns": "features"}.get(self.kind, self.kind)
        given = {role: self.inputs, "categories": self.categories, "labels": self.labels, "separator": self.separator}
        given["id"] = (self.id,) if self.id else ()
        given["known"] = (self.known,) if self.known else ()
        return {role: value for role, value in given.items() if value}


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the column {names[0]!r}"
    if len(names) <= 3:
        return "the columns " + ", ".join(map(repr, names))
    return f"{len(names)} columns ({names[0]!r} to {names[-1]!r})"


def roles_of(
    table: RawTable, given: Mapping[str, Any] | None = None, label_names: Sequence[str] | None = None
) -> ColumnRoles:
    """Guess what every column is for; what the caller gave is taken as it is.

    `given` maps a role (one of `ROLES`) to a column name, or several (a list, or separated by commas); columns of
    the known `label_names` are label columns.
    """
    chosen = _given(table, given or {})
    words = frozenset(chosen.pop("categories", ()))
    numbers = {name: table.numbers(name) for name in table.names}
    binary = table.binary() - words
    taken = {name for names in chosen.values() for name in names}
    free = _without(table.names, taken)

    id_column = chosen.get("id", (None,))[0]
    if id_column is None and "id" not in chosen:
        id_column = next((name for name in free if name.strip().lower() in _ID_NAMES and name not in binary), None)
        free = _without(free, (id_column,))

    separator = (given or {}).get("separator", "")
    labels = chosen.get("labels")
    there, unclaimed = frozenset(table.names), frozenset(free)
    if labels is None and label_names is not None and not there.isdisjoint(label_names):
        labels = tuple(name for name in label_names if name in unclaimed)
    if labels is None:
        named = [name for name in free if name.strip().lower() in _LABEL_NAMES and name not in binary]
        labels = (named[0],) if named else None
    free = _without(free, labels or ())

    kind, inputs = _input(table, chosen, _without(free, words), numbers)
    free = _without(free, inputs)
    if labels is None:
        marked = tuple(name for name in free if name in binary and re.match(r"(?i)(label|tag|y)_", name))
        labels = marked or tuple(name for name in free if name in binary)
        free = _without(free, labels)
    if kind == "columns" and not inputs:
        inputs = tuple(free)
        if not inputs:
            raise DataError(
                f"{table.path}: which columns are features and which are labels is not clear (all are 0/1); "
                "state it with --columns labels=NAME,NAME (columns={'labels': [...]} in Python)"
            )
        free = []
    if len(labels) == 1 and labels[0] not in binary and not separator:
        separator = separator_of([table.column(labels[0])])
    if len(labels) != 1:
        separator = ""
    categories = tuple(name for name in inputs if kind == "columns" and (name in words or numbers[name] is None))
    known = chosen.get("known", (None,))[0]
    return ColumnRoles(kind, inputs, labels, separator, id_column, tuple(free), categories, known)


def _without(names: Sequence[str], others: Iterable[str | None]) -> list[str]:
    left_out = frozenset(others)
    return [name for name in names if name not in left_out]


def _given(table: RawTable, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    chosen: dict[str, tuple[str, ...]] = {}
    there = frozenset(table.names)
    for role, value in given.items():
        if role not in ROLES:
            raise DataError(f"columns: {role!r} is not a role of a column; {did_you_mean(role, ROLES)}")
        if role == "separator":
            if not value:
                raise DataError(
                    "columns: the separator of the labels is empty; give the sign between them, such as ';' or ' ', "
                    "or none where every cell is one label"
                )
            continue
        names = named_columns(table.names, value)
        for name in names:
            if name not in there:
                raise MissingColumn(
                    role, f"{table.path}: there is no column {name!r}; {did_you_mean(name, table.names)[:300]}"
                )
        chosen[role] = names
    if sum(role in chosen for role in (*INPUT_ROLES, "features")) > 1:
        raise DataError("columns: give one kind of input only, one of text, smiles, dna, image and features")
    return chosen


def named_columns(there: Sequence[str], value: Any) -> tuple[str, ...]:
    """The columns that a role was given: a list of names, or a text that is a name or several with commas.

    >>> named_columns(["a,b", "c"], "a,b"), named_columns(["a", "b"], "a, b")
    (('a,b',), ('a', 'b'))
    """
    if not isinstance(value, str):
        return tuple(map(str, value))
    return (value,) if value in there else tuple(part.strip() for part in value.split(","))


def _input(
    table: RawTable, chosen: dict[str, tuple[str, ...]], free: list[str], numbers: dict[str, np.ndarray | None]
) -> tuple[str, tuple[str, ...]]:
    kinds = {"text": "text", "smiles": "molecule", "dna": "dna", "image": "image", "features": "columns"}
    for role, kind in kinds.items():
        if role in chosen:
            return kind, chosen[role]
    words = [name for name in free if numbers[name] is None]
    for name in words:
        lower = name.strip().lower()
        sample = [value.strip() for value in table.column(name)[:SAMPLE] if isinstance(value, str) and value.strip()]
        if not sample:
            continue
        if all(_DNA.fullmatch(value) for value in sample) and len(set(sample)) > 1:
            return "dna", (name,)
        if "smiles" in lower and all(_SMILES.fullmatch(value) for value in sample[:20]):
            return "molecule", (name,)
        if all(_IMAGE.fullmatch(value) for value in sample) or (
            lower in _IMAGE_NAMES and sum(map(bool, map(_IMAGE.fullmatch, sample))) * 2 > len(sample)
        ):
            return "image", (name,)
    for name in words:
        if name.strip().lower() in _TEXT_NAMES:
            return "text", (name,)
    # Values of several words that seldom repeat are prose; the same few words again are a category.
    lengths = {name: _words_per_value(table.column(name)[:SAMPLE]) for name in words}
    prose = max(lengths, key=lambda name: lengths[name], default=None)
    if prose is not None and lengths[prose] >= 2:
        return "text", (prose,)
    return "columns", ()


def _words_per_value(sample: Sequence[Any]) -> float:
    """Mean words of the values; 0 when half of them are repetitions."""
    values = [str(value) for value in sample]
    if not values or len(set(values)) * 2 <= len(values):
        return 0.0
    return float(np.mean([len(value.split()) for value in values]))


def separator_of(columns: Iterable[Any]) -> str:
    """The sign between the labels of a cell, from the chunks of a column.

    It is "none" for one label per cell and "list" for lists.

    >>> parts = [TextColumn(cells) for cells in (["", ""], ["a", "b,c"], ["a|b"])]
    >>> separator_of(parts), separator_of(parts[:1])
    ('|', 'none')
    """
    signs = (*_SEPARATORS, "list", "none")
    return signs[min((signs.index(_separator(column)) for column in columns), default=-1)]


def _separator(column: Any) -> str:
    if isinstance(column, np.ndarray):
        return "none"
    if not isinstance(column, TextColumn):
        return "list"
    sample = [value for value in column.distinct[0] if value.strip()]
    if sample and all(value.strip().startswith("[") and value.strip().endswith("]") for value in sample):
        return "list"
    for separator in _SEPARATORS:
        if any(separator in value for value in sample):
            return separator
    return "none"
