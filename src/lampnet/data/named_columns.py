"""Named columns (a DataFrame, a dict of columns, an object array) as rows of one kind or of several parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.column_content import SAMPLE, is_doubtful_category, role_of_values, words_per_value
from lampnet.data.dataset import Dataset, Table
from lampnet.data.from_arrays import column_names, column_values, is_frame, is_missing, only_texts, rows_of
from lampnet.data.names import half_a_character, repeated, unwritable
from lampnet.data.parts import COLUMN_KINDS, Part, PartRows, part_of
from lampnet.errors import DataError, did_you_mean

Roles = tuple[tuple[str, str], ...]
#: other names of roles, as files have them
ALIASES = {"categories": "category", "features": "number", "numbers": "number", "dates": "date", "texts": "text"}
_BETWEEN_WORDS = re.compile(r"[;,|]")


def columns_of(X: Any) -> dict[str, Any]:
    """The columns of a DataFrame, a dict of columns of one length, or an object array (n, C), by name."""
    if is_frame(X):
        return {name: X.iloc[:, number] for number, name in enumerate(column_names(X))}
    if not isinstance(X, Mapping):
        return {f"c{number}": X[:, number] for number in range(X.shape[1])}
    names = tuple(map(str, X))
    if (twice := repeated(names)) is not None:
        raise DataError(f"X has two columns called {twice!r}; give every column a name of its own")
    if (bad := unwritable(names)) is not None:
        raise DataError(half_a_character("the column name", names[bad]))
    lone = next((name for name, column in X.items() if isinstance(column, str) or not hasattr(column, "__len__")), None)
    if lone is not None:
        raise DataError(f"the column {lone!r} of X is not a list of values; give one value per row, in a list")
    lengths = {len(column) for column in X.values()}
    if len(lengths) != 1:
        raise DataError(f"the columns of X have {sorted(lengths) or 'no'} values; give every column one per row")
    return dict(zip(names, X.values(), strict=True))


def without_dict(X: Any, kind: str) -> Any:
    """A dict of columns as what rows of one kind are: a `Table`, or the values of its only column; else X as it is.

    >>> without_dict({"text": ["a b", "c"]}, "text"), without_dict({"n": [1, 2], "c": ["x", "y"]}, "columns").names
    (['a b', 'c'], ('n', 'c'))
    """
    if not isinstance(X, Mapping) or kind == "parts":
        return X
    columns = columns_of(X)
    if kind in ("columns", "vector", "wordset"):
        return _table({name: (column, _plain_role(name, column)) for name, column in columns.items()})
    if len(columns) != 1:
        raise DataError(f"rows of kind {kind} have one value each; X is a dict of {len(columns)} columns: give one")
    return list(next(iter(columns.values())))


def _plain_role(name: str, column: Any) -> str:
    """What a column is for that stands in a table of numbers, dates and categories."""
    role = _guessed(name, column)
    return role if COLUMN_KINDS[role] == "columns" else "category"


def roles_of_columns(X: Any, given: Mapping[str, Any] | None = None) -> Roles:
    """What each column is for: as given (role -> column or columns), else guessed (see `column_content`).

    >>> roles_of_columns({"plot": ["A war story", "Two friends meet"], "year": [1979, 2009]})
    (('plot', 'text'), ('year', 'number'))
    >>> roles_of_columns({"plot": ["war", "love"], "year": [1979, 2009]}, {"text": "plot", "category": ["year"]})
    (('plot', 'text'), ('year', 'category'))
    """
    columns = columns_of(X)
    if given is not None and not isinstance(given, Mapping):
        raise DataError(
            f"columns={given!r:.80} is not a dict; give role: column or columns, such as {{'text': 'title'}}"
        )
    chosen: dict[str, str] = {}
    for role, names in (given or {}).items():
        role = ALIASES.get(role, role)
        if role not in COLUMN_KINDS:
            raise DataError(f"columns: {role!r} is not a role of a column; {did_you_mean(str(role), COLUMN_KINDS)}")
        for name in [names] if isinstance(names, str) else names:
            if name not in columns:
                raise DataError(f"columns: X has no column {name!r}; {did_you_mean(str(name), columns)[:300]}")
            if chosen.setdefault(name, role) != role:
                raise DataError(f"columns: {name!r} is given as {chosen[name]} and as {role}; give it one role")
    return tuple((name, chosen.get(name) or _guessed(name, column)) for name, column in columns.items())


def _guessed(name: str, column: Any) -> str:
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "kind", "O") in "biufc":
        return "number"
    if getattr(dtype, "kind", "O") in "mM":
        return "date"
    if hasattr(dtype, "categories"):
        return "category"
    return role_of_values(name, list(islice((value for value in column if not is_missing(value)), SAMPLE)))


def kind_of_roles(roles: Roles) -> str:
    """One kind where all columns are plain ones, or there is only one column; else several parts.

    >>> kind_of_roles((("year", "number"), ("country", "category"))), kind_of_roles((("plot", "text"),))
    ('columns', 'text')
    """
    kinds = {COLUMN_KINDS[role] for _, role in roles}
    return kinds.pop() if kinds == {"columns"} or len(roles) == 1 else "parts"


def roles_as_read(roles: Roles, kind: str) -> dict[str, list[str]]:
    """Role -> its columns, as rows of this kind are read.

    >>> roles_as_read((("plot", "text"), ("year", "number")), "parts")
    {'text': ['plot'], 'number': ['year']}
    >>> roles_as_read((("plot", "text"), ("year", "number")), "columns"), roles_as_read((("plot", "category"),), "text")
    ({'category': ['plot'], 'number': ['year']}, {'text': ['plot']})
    """
    found: dict[str, list[str]] = {}
    for name, role in roles:
        if kind == "columns" and COLUMN_KINDS[role] != kind:
            role = "category"
        elif kind not in ("columns", "parts"):
            role = next((other for other, made in COLUMN_KINDS.items() if made == kind), role)
            role = "number" if kind in ("vector", "wordset") else role
        found.setdefault(role, []).append(name)
    return found


def doubtful_categories(X: Any, names: Sequence[str]) -> str:
    """What to say of categories that may be texts, and were not given as categories; "" where there are none.

    >>> doubtful_categories({"director": [f"Name{i}" for i in range(40)], "country": ["US", "NZ"] * 20}, ["director"])
    "'director' (40 of 40 distinct, 1.0 words on average)"
    """
    columns, found = columns_of(X), []
    for name in names:
        some = islice((value for value in columns[name] if not is_missing(value)), SAMPLE)
        sample = [value.strip() for value in some if isinstance(value, str)]
        if is_doubtful_category(sample):
            distinct = f"{len(set(sample))} of {len(sample)} distinct"
            found.append(f"{name!r} ({distinct}, {words_per_value(sample):.1f} words on average)")
    return ", ".join(found)


def roles_sentence(roles: Roles) -> str:
    """The roles in one sentence.

    >>> roles_sentence((("title", "text"), ("year", "number"), ("plot", "text")))
    "text from 'title', 'plot'; number from 'year'"
    """
    by_role: dict[str, list[str]] = {}
    for name, role in roles:
        by_role.setdefault(role, []).append(name)
    return "; ".join(f"{role} from {_listed(names)}" for role, names in by_role.items())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) if len(names) <= 6 else f"{len(names)} columns ({names[0]!r} to {names[-1]!r})"


def part_rows(X: Any, roles: Roles) -> PartRows:
    """The columns as parts, each as its role says; the columns of X may be in another order."""
    columns = columns_of(X)
    lacking = next((name for name, _ in roles if name not in columns), None)
    if lacking is not None:
        raise DataError(
            f"X has no column {lacking!r}, which the model was fitted with; {did_you_mean(lacking, columns)[:300]}"
        )
    plain = tuple((name, role) for name, role in roles if COLUMN_KINDS[role] == "columns")
    parts: list[Part] = []
    for name, role in roles:
        if (name, role) not in plain:
            parts.append(part_of_values(name, role, list(columns[name])))
        elif not any(part.kind == "columns" for part in parts):
            parts.append(
                Part(name="", kind="columns", rows=_table({name: (columns[name], role) for name, role in plain}))
            )
    return PartRows(tuple(parts), roles)


def part_of_values(name: str, role: str, values: list[Any]) -> Part:
    """The part that the values of one column make; missing ones are no part of their row."""
    try:
        if role == "text":
            return Part(name=name, kind="text", rows=["" if is_missing(value) else str(value) for value in values])
        blank = [is_missing(value) or _is_blank(value, role) for value in values]
        kind = COLUMN_KINDS[role]
        make = {"vector": _vectors, "words": _word_sets}.get(role, lambda kept: rows_of(kept, kind))
        return part_of(name, kind, values, ~np.array(blank, dtype=bool), make)
    except DataError as fault:
        raise DataError(f"the column {name!r}: {fault}") from None


def _is_blank(value: Any, role: str) -> bool:
    """An empty text, and an empty vector; an empty list of words says that there are none."""
    return not value.strip() if isinstance(value, str) else role == "vector" and np.size(value) == 0


def _vectors(values: list[Any]) -> tuple[np.ndarray, None]:
    lengths = [len(value) if hasattr(value, "__len__") else -1 for value in values]
    odd = next((row for row, length in enumerate(lengths) if length != lengths[0] or length < 0), None)
    if odd is not None:
        raise DataError(f"its value {odd} is {str(values[odd])[:60]!r}; give vectors of {lengths[0]} numbers")
    try:
        return np.array(values, dtype=np.float64).reshape(len(values), lengths[0] if lengths else 0), None
    except (TypeError, ValueError):
        raise DataError("its vectors hold something else than numbers; give numbers") from None


def _word_sets(values: list[Any]) -> tuple[sparse.csr_matrix, tuple[str, ...]]:
    """How often each row names each word, CSR float32, and the words; a string is cut at its `;`, `,` or `|`."""
    named = [_counted(_BETWEEN_WORDS.split(value) if isinstance(value, str) else list(value)) for value in values]
    words = tuple(sorted(set(chain.from_iterable(named))))
    if (bad := unwritable(words)) is not None:
        raise DataError(half_a_character("the word", words[bad]))
    column = {word: number for number, word in enumerate(words)}
    indices = [column[word] for row in named for word in row]
    counts = np.array([count for row in named for count in row.values()], dtype=np.float32)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in named])]).astype(np.int64)
    found = sparse.csr_matrix((counts, indices, indptr), (len(values), len(words)))
    found.sort_indices()
    return found, words


def _counted(entries: list[Any]) -> dict[str, int]:
    """How often each word is among the entries of a cell, without blanks around it; each distinct string is cut once.

    >>> _counted(["a", " a", None, "b", 2, ""])
    {'a': 2, 'b': 1, '2': 1}
    """
    texts = entries if only_texts(entries) else [str(entry) for entry in entries if not is_missing(entry)]
    found: dict[str, int] = {}
    for text, count in Counter(texts).items():
        if word := text.strip():
            found[word] = found.get(word, 0) + count
    return found


def _table(columns: Mapping[str, tuple[Any, str]]) -> Table:
    """Numbers, categories and dates as a `Table`."""
    values, categories = [], {}
    for number, (name, (column, role)) in enumerate(columns.items()):
        found, words = column_values(column, as_words=role == "category")
        if words is not None and role == "number":
            found, words = _numbers_in_texts(found, words)
        if words is not None and role != "category":
            what = "numbers" if role == "number" else "dates such as 2024-05-31"
            word = next((word for word in words if not _is_number(word)), words[0])
            raise DataError(
                f"the column {name!r} is read as a {role}, but holds {word[:40]!r}; give {what}, or fit with another "
                f"role, such as columns={{'category': {name!r}}}"
            )
        values.append(found)
        if words is not None:
            categories[number] = words
    return Table(values=np.stack(values, axis=1), names=tuple(columns), categories=categories)


def _numbers_in_texts(codes: np.ndarray, words: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Numbers that are written as texts, float64 (n,); the words again where one is no number."""
    if not all(map(_is_number, words)):
        return codes, words
    numbers = np.array([*map(float, words), np.nan])
    return numbers[np.nan_to_num(codes, nan=len(words)).astype(np.int64)], None


def _is_number(word: str) -> bool:
    try:
        return np.isfinite(float(word)) if "_" not in word else False
    except ValueError:
        return False


def as_dataset(
    X: Any, kind: str, name: str = "X", labels: Any = None, label_names: tuple[str, ...] = (), roles: Roles = ()
) -> Dataset:
    """X and, where given, its labels as a `Dataset`; `roles` say what the columns of rows with several parts are."""
    if kind == "parts":
        rows, names = X if isinstance(X, PartRows) else part_rows(X, roles), None
    else:
        rows, names = rows_of(X, kind)
    return Dataset(name=name, kind=kind, rows=rows, labels=labels, label_names=label_names, feature_names=names)
