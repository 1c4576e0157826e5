"""Dataset: what readers make of files, and encoders turn into nodes.

What `rows` holds, by `kind`:

==========  =====================================================================
wordset     scipy CSR (n, F) float32, the active features and their weights
text        sequence of n strings
vector      float array (n, F): one dense vector per row (a single input node)
columns     `Table`: every column is a node; missing values and categories allowed
dna         uint8 array (n, W): A, C, G, T, N as 0..4
molecule    sequence of n SMILES strings
image       sequence of n items, each a uint8 array (H, W) or (H, W, 3) or a file path
parts       `lampnet.data.parts.PartRows`: several of the above in each row
==========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.names import half_a_character, repeated, unwritable
from lampnet.errors import DataError

#: what a data set has one of for each row, where it has it at all
BY_ROW = ("ids", "numbers", "groups", "times", "weights", "row_edges", "known")
KINDS = ("wordset", "text", "vector", "columns", "dna", "molecule", "image", "parts")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A numeric table with names; a categorical column holds codes into its categories."""

    values: np.ndarray  # float64 (n, C), NaN where a value is missing
    names: tuple[str, ...]  # of the C columns
    #: column number -> the names that its codes 0, 1, ... stand for
    categories: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise DataError(
                f"a table of shape {self.values.shape} has {len(self.names)} column names; give one per column"
            )
        if (bad := unwritable(self.names)) is not None:
            raise DataError(half_a_character("the column name", self.names[bad]))
        for column, words in self.categories.items():
            if (bad := unwritable(words)) is not None:
                row = int(np.argmax(self.values[:, column] == bad))
                raise DataError(f"row {row}: " + half_a_character(f"{self.names[column]!r}:", words[bad]))

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __getitem__(self, index: Any) -> Table:
        return replace(self, values=self.values[index])


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Rows of one input kind with their label sets."""

    name: str
    kind: str
    rows: Any
    labels: sparse.csr_matrix | None  # float32 (n, L): 1 = true; a stored NaN = unknown; not stored = false
    label_names: tuple[str, ...]  # the L names, in the order of the columns
    feature_names: tuple[str, ...] | None = None  # wordset and vector: the F names, where known
    ids: tuple[str, ...] | None = None  # a name for each row, where the file has one
    numbers: tuple[int, ...] | None = None  # where each row stood before rows were taken out; None: as they stand
    times: tuple[Any, ...] | None = None  # a time for each row, where rows are to be split by it
    weights: tuple[float, ...] | None = None  # what each row counts when it is learned from; None: all the same
    groups: tuple[str, ...] | None = None  # a split key for each row (DNA: the chromosome), where there is one
    row_edges: Sequence[np.ndarray] | None = None  # a known feature graph: n int arrays (E, 2) of node pairs
    label_descriptions: Mapping[str, str] | None = None  # what labels mean, by name, where their names do not say it
    known: Sequence[Any] | None = None  # labels known before predicting: n dicts {label: bool}, lists of labels or None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"{self.name}: input kind {self.kind!r} is not one of {', '.join(KINDS)}")
        n = len(self)
        if self.labels is not None and self.labels.shape != (n, len(self.label_names)):
            raise DataError(
                f"{self.name}: {n} rows and {len(self.label_names)} label names were given with a label "
                f"matrix of shape {self.labels.shape}; it must have one row per row and one column per label"
            )
        for what in BY_ROW:
            values = getattr(self, what)
            if values is not None and len(values) != n:
                raise DataError(f"{self.name}: {n} rows were given with {len(values)} {what}; give one per row")
        if (twice := repeated(self.label_names)) is not None:
            raise DataError(f"{self.name}: the label name {twice!r} occurs twice; label names must differ")
        self._check_writable()

    def _check_writable(self) -> None:
        """Names go to model folders, predictions and pages; half a character would fail there, after the training."""
        if (bad := unwritable(self.label_names)) is not None:
            rows = [] if self.labels is None else self.labels.getcol(bad).nonzero()[0]
            where = f"{self.name}, row {rows[0]}" if len(rows) else self.name
            raise DataError(f"{where}: " + half_a_character("the label", self.label_names[bad]))
        for what, names in (("id", self.ids), ("group", self.groups)):
            if names is not None and (bad := unwritable(names)) is not None:
                raise DataError(f"{self.name}, row {bad}: " + half_a_character(f"the {what}", names[bad]))
        if self.feature_names is not None and (bad := unwritable(self.feature_names)) is not None:
            raise DataError(f"{self.name}: " + half_a_character("the feature name", self.feature_names[bad]))

    def __len__(self) -> int:
        shape = getattr(self.rows, "shape", None)  # sparse matrices refuse len()
        return int(shape[0]) if shape else len(self.rows)

    @property
    def n_columns(self) -> int | None:
        """How many numbers a row of a table or a matrix has; None for other rows."""
        shape: tuple[int, ...] = getattr(self.rows.values if isinstance(self.rows, Table) else self.rows, "shape", ())
        return int(shape[1]) if len(shape) == 2 else None

    def take(self, index: np.ndarray) -> Dataset:
        """The rows with these numbers, in this order.

        >>> rows = Dataset(name="x", kind="text", rows=list("abcd"), labels=None, label_names=())
        >>> rows.take([1, 2, 3]).take([2, 0]).numbers
        (3, 1)
        """
        index = np.asarray(index)

        def pick(values: Any) -> Any:
            return None if values is None else tuple(values[i] for i in index)

        labels = None if self.labels is None else self.labels[index]
        return replace(
            self,
            rows=rows_taken(self.rows, index),
            labels=labels,
            **{name: pick(getattr(self, name)) for name in BY_ROW}
            | {"numbers": pick(range(len(self)) if self.numbers is None else self.numbers)},
        )

    @classmethod
    def joined(cls, parts: Sequence[Dataset]) -> Dataset:
        """The rows of several, one below the other; all have the first's kind, labels and features.

        >>> rows = Dataset(name="x", kind="text", rows=list("abc"), labels=None, label_names=())
        >>> Dataset.joined([rows.take([2]), rows.take([0, 1])]).rows
        ['c', 'a', 'b']
        """
        first = parts[0]

        def chained(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if any(value is None for value in values) else tuple(chain.from_iterable(values))

        rows = rows_joined([part.rows for part in parts])
        labels = None if first.labels is None else sparse.csr_matrix(sparse.vstack([part.labels for part in parts]))
        by_row = {name: chained(name) for name in BY_ROW}
        return replace(first, rows=rows, labels=labels, **by_row)

    def indicator(self) -> np.ndarray:
        """The labels as a dense float32 (n, L) array, NaN where unknown."""
        if self.labels is None:
            raise DataError(f"{self.name}: the rows carry no labels; give data with labels")
        return np.asarray(self.labels.toarray(), dtype=np.float32)


def rows_taken(rows: Any, index: np.ndarray) -> Any:
    """The rows of one kind with these numbers, in this order."""
    return [rows[i] for i in index] if isinstance(rows, (list, tuple)) else rows[index]


def rows_joined(rows: Sequence[Any]) -> Any:
    """Rows of one kind, one below the other."""
    first = rows[0]
    if hasattr(first, "joined"):
        return first.joined(rows)
    if isinstance(first, Table):
        return replace(first, values=np.concatenate([part.values for part in rows]))
    if sparse.issparse(first):
        return sparse.csr_matrix(sparse.vstack(rows))
    if isinstance(first, np.ndarray):
        return np.concatenate(rows)
    return list(chain.from_iterable(rows))
