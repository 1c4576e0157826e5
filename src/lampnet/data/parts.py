"""Rows of several parts: texts, a molecule, a picture, a vector, a list of words, and a table of plain columns.

Each part is the rows of one input kind (see `lampnet.data.dataset`), kept for those rows only that have it. Numbers,
categories and dates stand together in one part, a `Table`, whose name is empty: its columns have names of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lampnet.data.dataset import Table, rows_joined, rows_taken
from lampnet.errors import DataError

#: what a column may be for, and the input kind that it becomes
COLUMN_KINDS = {
    "text": "text",
    "smiles": "molecule",
    "dna": "dna",
    "image": "image",
    "vector": "vector",
    "words": "wordset",
    "number": "columns",
    "category": "columns",
    "date": "columns",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of n rows.

    name           the column's name; empty for the table of numbers, categories and dates
    kind           an input kind, but not `parts`
    rows           the rows that have this part, as their kind wants them
    where          int (n,): the place of each row among them, -1 for a row without this part; None where all have it
    feature_names  wordset: the words
    """

    name: str
    kind: str
    rows: Any
    where: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        if self.where is not None:
            return len(self.where)
        return int(self.rows.shape[0]) if hasattr(self.rows, "shape") else len(self.rows)

    def present(self) -> np.ndarray:
        """The numbers of the rows that have this part, int (m,)."""
        return np.arange(len(self)) if self.where is None else np.flatnonzero(self.where >= 0)

    def place(self, row: int) -> int:
        """Where a row stands among those that have this part; -1 for a row without it."""
        return row if self.where is None else int(self.where[row])

    def take(self, index: np.ndarray) -> Part:
        """The rows with these numbers, in this order."""
        if self.where is None:
            return replace(self, rows=rows_taken(self.rows, index))
        own = self.where[index]
        there = own >= 0
        where = np.where(there, np.cumsum(there) - 1, -1)
        return replace(self, rows=rows_taken(self.rows, own[there]), where=where)

    def called(self) -> str:
        """The part in a sentence."""
        return f"the part {self.name!r}" if self.name else "the numbers and categories"


@dataclass(frozen=True)
class PartRows:
    """Rows of several parts, each of the same n rows.

    >>> title = Part(name="title", kind="text", rows=["Up", "Jaws", "Alien"])
    >>> poster = Part(name="formula", kind="molecule", rows=["CCO"], where=np.array([-1, 0, -1]))
    >>> rows = PartRows((title, poster))[np.array([1, 2])]
    >>> [part.rows for part in rows.parts], rows.parts[1].where.tolist()
    ([['Jaws', 'Alien'], ['CCO']], [0, -1])
    """

    parts: tuple[Part, ...]
    roles: tuple[tuple[str, str], ...] = ()  # each column and what it is for, in the order of the table

    def __post_init__(self) -> None:
        lengths = {len(part) for part in self.parts}
        if len(lengths) != 1:
            raise DataError(f"the parts of the rows have {sorted(lengths)} rows; give every part the same rows")

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, index: Any) -> PartRows:
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        return replace(self, parts=tuple(part.take(index) for part in self.parts))

    def table(self) -> Table | None:
        """The plain columns, where there are any."""
        return next((part.rows for part in self.parts if part.kind == "columns"), None)

    @classmethod
    def joined(cls, several: Sequence[PartRows]) -> PartRows:
        """The rows of several, one below the other."""
        first = several[0]
        parts = zip(*(rows.parts for rows in several), strict=True)
        return replace(first, parts=tuple(map(_joined, parts)))


def _joined(parts: Sequence[Part]) -> Part:
    """One part of several blocks of rows, one below the other."""
    rows = rows_joined([part.rows for part in parts])
    if all(part.where is None for part in parts):
        return replace(parts[0], rows=rows)
    there = np.concatenate([np.arange(len(part)) >= 0 if part.where is None else part.where >= 0 for part in parts])
    return replace(parts[0], rows=rows, where=np.where(there, np.cumsum(there) - 1, -1))


def part_of(name: str, kind: str, values: Sequence[Any], there: np.ndarray, rows_of: Any) -> Part:
    """A part made of the values of the rows that have it: `rows_of` makes rows of their kind of a list of values.

    there  bool (n,): which rows have it
    """
    kept = [value for value, here in zip(values, there, strict=True) if here]
    rows, names = rows_of(kept)
    where = None if there.all() else np.where(there, np.cumsum(there) - 1, -1)
    return Part(name=name, kind=kind, rows=rows, where=where, feature_names=names)
