"""Which column of a table is what: guessed from names and content, summed up in a sentence; any of it can be set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.column_content import role_of_strings, role_of_values, words_per_value
from lampnet.data.joined_labels import SEPARATORS, SIGNS, found_separator, taken_apart
from lampnet.data.named_columns import kind_of_roles
from lampnet.data.yes_no import blank_means_no
from lampnet.errors import DataError, did_you_mean
from lampnet.readers.raw_table import SAMPLE, RawTable, TextColumn
from lampnet.runtime.memory_limit import MemoryBudget

ROLES = (
    "text", "smiles", "dna", "image", "words", "vector", "features", "categories", "dates",
    "labels", "id", "separator", "known", "group", "time", "weight", "encoding",
)  # fmt: skip
INPUT_ROLES = ("text", "smiles", "dna", "image", "words", "vector")
#: other names that people give to roles
ALIASES = {
    "category": "categories", "number": "features", "numbers": "features", "feature": "features", "date": "dates",
    "label": "labels", "texts": "text",
}  # fmt: skip
#: the role of a column (see `lampnet.data.parts`) as `--columns` names it, where that is another word
_GIVEN_AS = {"number": "features", "category": "categories", "date": "dates"}
_LABEL_NAMES = {"labels", "label", "tags", "tag", "categories", "category", "genres", "topics", "classes", "targets"}
_TEXT_NAMES = {"text", "body", "document", "content", "abstract", "comment", "sentence", "review", "description"}
_ID_NAMES = {"id", "ids", "row_id", "mol_id", "doc_id", "uid", "uuid", "index", "key"}
_IMAGE_NAMES = {"image", "images", "file", "filename", "filenames", "path", "picture"}
_IMAGE = re.compile(r".+\.(?:jpe?g|png|gif|bmp|webp|tiff?)", re.IGNORECASE)
#: rows up to which a column of names may be anything, and the words of a label
FEW, LABEL_WORDS = 20, 4


class MissingColumn(DataError):
    """A column that was named for a role and is not there."""

    def __init__(self, role: str, problem: str) -> None:
        super().__init__(problem)
        self.role = role


@dataclass(frozen=True)
class ColumnRoles:
    """What each column is used for; `separator` is empty when labels have a column each.

    `categories` are the inputs that hold words, or numbers that stand for words; `roles` say of each input what it is
    for (see `lampnet.data.parts`).
    """

    kind: str
    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    separator: str
    id: str | None
    unused: tuple[str, ...]
    categories: tuple[str, ...] = ()
    known: str | None = None
    roles: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    encoding: str = ""

    def of_role(self, role: str) -> tuple[str, ...]:
        """The inputs of one role, in the order of the table."""
        return tuple(name for name, own in zip(self.inputs, self.roles, strict=True) if own == role)

    def sentence(self) -> str:
        """The roles in one sentence.

        >>> ColumnRoles("text", ("body",), ("tags",), ";", "id", ()).sentence()
        "text from the column 'body'; labels from the column 'tags', separated by ';'; ids from 'id'"
        """
        parts = [f"{self.kind} from {listed_columns(self.inputs)}"]
        if self.kind == "parts":
            parts = [f"{role} from {listed_columns(self.of_role(role))}" for role in dict.fromkeys(self.roles)]
        if not self.labels:
            parts.append("no labels")
        elif self.separator:
            how = {"none": "one per row", "list": "as lists"}.get(self.separator, f"separated by {self.separator!r}")
            parts.append(f"labels from {listed_columns(self.labels)}, {how}")
        else:
            parts.append(f"one label per column from {listed_columns(self.labels)}")
        if self.id:
            parts.append(f"ids from {self.id!r}")
        if self.known:
            parts.append(f"known labels from {self.known!r}")
        if self.group:
            parts.append(f"rows with the same {self.group!r} stay together")
        if self.time:
            parts.append(f"times from {self.time!r}")
        if self.weight:
            parts.append(f"weights from {self.weight!r}")
        if self.unused:
            parts.append(f"not used: {listed_columns(self.unused)}")
        return "; ".join(parts)

    def as_given(self) -> dict[str, Any]:
        """The roles as the `columns` argument of another file of the same form."""
        given: dict[str, Any] = {**roles_as_given(zip(self.inputs, self.roles, strict=True))}
        if self.kind == "columns":
            given |= {"features": self.inputs, "categories": self.categories}
        given |= {"labels": self.labels, "separator": self.separator, "encoding": self.encoding}
        given["id"] = (self.id,) if self.id else ()
        for name in ("known", "group", "time", "weight"):
            given[name] = (getattr(self, name),) if getattr(self, name) else ()
        return {role: value for role, value in given.items() if value}


def roles_as_given(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Columns and their roles as the `columns` argument of a reader.

    >>> roles_as_given([("title", "text"), ("year", "number"), ("plot", "text")])
    {'text': ('title', 'plot'), 'features': ('year',)}
    """
    given: dict[str, tuple[str, ...]] = {}
    for name, role in pairs:
        given[_GIVEN_AS.get(role, role)] = (*given.get(_GIVEN_AS.get(role, role), ()), name)
    return given


def listed_columns(names: Sequence[str]) -> str:
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

    separator = SIGNS.get(str((given or {}).get("separator", "")), (given or {}).get("separator", ""))
    labels = chosen.get("labels")
    there, unclaimed = frozenset(table.names), frozenset(free)
    if labels is None and label_names is not None and not there.isdisjoint(label_names):
        labels = tuple(name for name in label_names if name in unclaimed)
    if labels is None:
        named = [name for name in free if name.strip().lower() in _LABEL_NAMES and name not in binary]
        labels = (named[0],) if named else None
    free = _without(free, labels or ())

    if labels is None:
        marked = tuple(name for name in free if name in binary and re.match(r"(?i)(label|tag|y)_", name))
        named_inputs = any(role in chosen for role in (*INPUT_ROLES, "features", "dates"))
        labels = marked or tuple(name for name in free if name in binary)
        if not labels and not named_inputs:
            labels = _joined_labels(table, _without(free, words))
        labels = labels or tuple(name for name in _without(free, words) if table.yes_or_no(name) is not None)
        free = _without(free, labels)
    pairs = _given_inputs(table, chosen, words, numbers) or _guessed_inputs(table, free, words, numbers)
    inputs, roles = tuple(name for name, _ in pairs), tuple(role for _, role in pairs)
    free = _without(free, inputs)
    if not inputs:
        raise DataError(
            f"{table.path}: which columns are features and which are labels is not clear (all are 0/1, ids or labels); "
            "state it with --columns labels=NAME,NAME (columns={'labels': [...]} in Python)"
        )
    kind = kind_of_roles(pairs)
    if len(labels) == 1 and labels[0] not in binary and not separator and not _marks_only(table, labels[0]):
        separator = separator_of([table.column(labels[0])])
    if len(labels) != 1:
        separator = ""
    categories = tuple(name for name, role in pairs if role == "category")
    by_row: dict[str, Any] = {role: chosen.get(role, (None,))[0] for role in ("known", "group", "time", "weight")}
    return ColumnRoles(
        kind, inputs, labels, separator, id_column, tuple(free), categories=categories, roles=roles, **by_row
    )


def _without(names: Sequence[str], others: Iterable[str | None]) -> list[str]:
    left_out = frozenset(others)
    return [name for name in names if name not in left_out]


def _given(table: RawTable, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    chosen: dict[str, tuple[str, ...]] = {}
    there = frozenset(table.names)
    for role, value in given.items():
        role = ALIASES.get(role, role)
        if role not in ROLES:
            raise DataError(f"columns: {role!r} is not a role of a column; {did_you_mean(role, ROLES)}")
        if role == "encoding":
            continue
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
        chosen[role] = chosen.get(role, ()) + names
    named: dict[str, str] = {}
    for role, names in chosen.items():
        for name in names:
            other = named.setdefault(name, role)
            if other != role and {other, role} != {"features", "categories"} and "known" not in (other, role):
                raise DataError(f"columns: {name!r} is given as {other} and as {role}; give it one role")
    return chosen


def named_columns(there: Sequence[str], value: Any) -> tuple[str, ...]:
    """The columns that a role was given: a list of names, or a text that is a name or several with commas.

    >>> named_columns(["a,b", "c"], "a,b"), named_columns(["a", "b"], "a, b")
    (('a,b',), ('a', 'b'))
    """
    if not isinstance(value, str):
        return tuple(map(str, value))
    return (value,) if value in there else tuple(part.strip() for part in value.split(","))


Pairs = tuple[tuple[str, str], ...]


def _given_inputs(
    table: RawTable, chosen: Mapping[str, tuple[str, ...]], words: frozenset[str], numbers: Mapping[str, Any]
) -> Pairs:
    """The inputs that the caller named with their roles, in the order of the table; empty where none is named."""
    roles: dict[str, str] = {}
    for role in (*INPUT_ROLES, "dates", "features"):
        for name in chosen.get(role, ()):
            roles[name] = {"dates": "date", "features": "number"}.get(role, role)
            if role == "features" and numbers[name] is None:
                roles[name] = "date" if _role_of(table, name, None) == "date" else "category"
    if not roles:
        return ()
    roles |= dict.fromkeys(words, "category")
    order = chosen["features"] if set(roles) == set(chosen.get("features", ())) else table.names
    return tuple((name, roles[name]) for name in order if name in roles)


def _guessed_inputs(table: RawTable, free: Sequence[str], words: frozenset[str], numbers: Mapping[str, Any]) -> Pairs:
    """What each free column is for; where others are there, those are left out that are empty, count or name rows."""
    pairs = [(name, "category" if name in words else _role_of(table, name, numbers[name])) for name in free]
    telling = [(name, role) for name, role in pairs if name in words or not _tells_nothing(table, name, role)]
    return tuple(telling or pairs)


def _role_of(table: RawTable, name: str, numbers: np.ndarray | None) -> str:
    if numbers is not None:
        return "number"
    column = table.column(name)
    if not isinstance(column, TextColumn):
        cells = [cell for cell in column[:SAMPLE] if cell is not None and len(cell)]
        return role_of_values(name, cells) if cells else "words"
    lower = name.strip().lower()
    sample = [value.strip() for value in column[:SAMPLE] if value.strip()]
    if lower in _TEXT_NAMES:
        return "text"
    pictures = sum(map(bool, map(_IMAGE.fullmatch, sample)))
    if sample and (pictures == len(sample) or (lower in _IMAGE_NAMES and pictures * 2 > len(sample))):
        return "image"
    return role_of_strings(name, sample)


def _marks_only(table: RawTable, name: str) -> bool:
    """Whether a column says yes in some rows and nothing in the others: it is a label, whatever the word for yes."""
    answers = table.yes_or_no(name)
    return answers is not None and blank_means_no(table.texts(name).distinct[0])


def _tells_nothing(table: RawTable, name: str, role: str) -> bool:
    """Whether a column is empty, counts the rows, or names each of many rows by a word of its own."""
    if role == "number":
        numbers = table.numbers(name)
        assert numbers is not None
        if np.isnan(numbers).all():
            return True
        return len(numbers) > FEW and bool((np.diff(numbers) == 1).all())
    if role != "category" or len(table) <= FEW:
        return False
    values = [value for value in table.texts(name)[:SAMPLE] if not isinstance(value, str) or value.strip()]
    return len(values) > FEW and len(set(map(str, values))) > 0.9 * len(values)


def _joined_labels(table: RawTable, free: Sequence[str]) -> tuple[str, ...]:
    """The column whose cells look most like several labels each, whatever it is called; none where none does."""
    repeats: dict[str, float] = {}
    for name in free:
        column = table.column(name)
        if isinstance(column, np.ndarray):
            continue
        if isinstance(column, TextColumn):
            cells = [value for value in column[:SAMPLE] if value.strip()]
            separator = found_separator(cells)
            if separator == "none" or (separator == "," and column.has_decimal_commas):
                continue
            budget = MemoryBudget(table.path)
            sets = [taken_apart(cell, separator, budget.check) or [] for cell in cells]
        else:
            sets = [list(map(str, cell)) for cell in column[:SAMPLE] if cell is not None]
            if any(not isinstance(entry, str) for cell in column[:SAMPLE] if cell is not None for entry in cell):
                continue
        labels = [label for names in sets for label in names]
        if labels and words_per_value(labels) <= LABEL_WORDS and len(set(labels)) * 2 <= len(labels):
            repeats[name] = len(labels) / len(set(labels))
    return (max(repeats, key=lambda name: repeats[name]),) if repeats else ()


def separator_of(columns: Iterable[Any]) -> str:
    """The sign between the labels of a cell, from the chunks of a column.

    It is "none" for one label per cell and "list" for lists.

    >>> parts = [TextColumn(cells) for cells in (["", ""], ["a", "b,c"], ["a|b"])]
    >>> separator_of(parts), separator_of(parts[:1])
    ('|', 'none')
    """
    signs = (*SEPARATORS, "list", "none")
    return signs[min((signs.index(_separator(column)) for column in columns), default=-1)]


def _separator(column: Any) -> str:
    if isinstance(column, np.ndarray):
        return "none"
    return found_separator(column.distinct[0]) if isinstance(column, TextColumn) else "list"
