"""What the user calls "the data": a data set's name, a folder or a file; none means digit scenes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.splits import VALIDATION_FRACTION, Splits, arranged_rows
from lampnet.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from lampnet.readers.trained_columns import KnownColumns

DEFAULT = "digits"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where rows come from and how to read them.

    data        a name of the registry, a folder or a file
    root        the folder of the named data sets; None: the environment's LAMPNET_DATA, else ./data
    labels      a file with label names
    columns     tables: role -> column name(s)
    on_bad_row  "error" or "skip"
    known       tables: what a model knows of the columns, which comes after `columns`
    """

    data: str = DEFAULT
    root: str | None = None
    labels: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    on_bad_row: str = "error"
    known: KnownColumns | None = None

    @property
    def named(self) -> bool:
        """Whether the registry knows the data by name."""
        from lampnet.readers.named.registry import NAMES

        return self.data in NAMES

    def to_json(self) -> dict[str, Any]:
        """Plain data for the metadata of a model; paths made absolute, so that they hold elsewhere."""
        data = self.data if self.named else str(Path(self.data).resolve())
        labels = None if self.labels is None else str(Path(self.labels).resolve())
        return {"data": data, "labels": labels, "columns": dict(self.columns), "on_bad_row": self.on_bad_row}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Source:
        """What `to_json` wrote, with or without the root; a `TypeError` where it is something else."""
        names = {"data": data["data"]} | {key: data[key] for key in ("root", "labels") if data.get(key) is not None}
        columns, on_bad_row = data.get("columns", {}), data.get("on_bad_row", "error")
        for name, value in names.items():
            if not isinstance(value, str) or "\0" in value:
                raise TypeError(f"the source's {name} is neither a path nor a name")
        if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
            raise TypeError("the source's columns are not names")
        if on_bad_row not in ("error", "skip"):
            raise TypeError("the source's on_bad_row is neither 'error' nor 'skip'")
        return cls(columns=columns, on_bad_row=on_bad_row, **names)

    def open(self, seed: int = 0, notice: Callable[[str], None] | None = None) -> Splits | Dataset:
        """A name or a folder as `Splits`, a file as `Dataset`; `seed` draws splits where none are given."""
        return self.open_and_columns(seed, notice)[0]

    def open_and_columns(
        self, seed: int = 0, notice: Callable[[str], None] | None = None
    ) -> tuple[Splits | Dataset, dict[str, Any]]:
        """As `open`, and what the columns of a table were taken for, as plain data."""
        from lampnet.readers.any_format import read_and_columns, readable_molecules
        from lampnet.readers.named.registry import NAMES, load
        from lampnet.readers.options import ReadOptions

        if self.named:
            splits = load(self.data, self.root, seed)
            if self.on_bad_row != "skip":
                return splits, {}
            parts = {name: getattr(splits, name) for name in SPLITS}
            readable: dict[str, Any] = {n: part and readable_molecules(part, notice) for n, part in parts.items()}
            return replace(splits, **readable), {}
        if not Path(self.data).exists():
            raise DataError(
                f"there is no data set, folder or file called {self.data!r}; {did_you_mean(self.data, NAMES)}"
            )
        how: dict[str, Any] = {"labels": self.labels, "columns": self.columns or None, "on_bad_row": self.on_bad_row}
        opened, roles = read_and_columns(Path(self.data), ReadOptions(**how, notice=notice, known=self.known))
        return opened, plain_columns(roles or self.columns)

    def splits(self, seed: int = 0, notice: Callable[[str], None] | None = None) -> Splits:
        """Rows to train on."""
        return arranged(self.open(seed, notice), self)

    def part(self, split: str, seed: int = 0, notice: Callable[[str], None] | None = None) -> Dataset:
        """The rows to score: a file's all, else the part called `split`."""
        if split not in SPLITS:
            raise DataError(f"there is no split {split!r}; {did_you_mean(split, SPLITS)}")
        opened = self.open(seed, notice)
        if isinstance(opened, Dataset):
            return opened
        if split == "valid":
            opened = opened.with_validation(VALIDATION_FRACTION, seed)
        found: Dataset | None = getattr(opened, split)
        if found is None:
            raise DataError(f"{self.data} has no {split} part; give a file with rows to score, or --split train")
        return found


def as_splits(opened: Splits | Dataset) -> Splits:
    """A single file's rows are all training rows."""
    return opened if isinstance(opened, Splits) else Splits(train=opened)


def arranged(opened: Splits | Dataset, source: Source) -> Splits:
    """Rows to train on, split by the groups or times of a table's column where the source names one."""
    splits = as_splits(opened)
    if "weight" in source.columns and splits.train.weights is None:
        raise DataError(f"{source.data}: only tables (CSV, TSV, Parquet, Arrow) and JSON lines have weights")
    asked = [role for role in ("group", "time") if role in source.columns]
    if not asked:
        return splits
    train = splits.train
    groups, times = (
        value if role in asked else None for role, value in (("group", train.groups), ("time", train.times))
    )
    if (groups if "group" in asked else times) is None:
        raise DataError(f"{source.data}: only tables (CSV, TSV, Parquet, Arrow) and JSON lines have groups or times")
    made = arranged_rows(train, groups, times)
    return replace(splits, train=made.train, arranged=made.arranged)


def plain_columns(roles: Mapping[str, Any]) -> dict[str, Any]:
    """Roles of columns for a JSON file; a single name without a comma is a text, as a user writes it.

    >>> plain_columns({"text": ("plot",), "labels": ("a", "b"), "separator": ";"})
    {'text': 'plot', 'labels': ['a', 'b'], 'separator': ';'}
    """
    plain: dict[str, Any] = {}
    for role, value in roles.items():
        alone = not isinstance(value, str) and len(value) == 1 and "," not in value[0]
        plain[role] = value[0] if alone else value if isinstance(value, str) else list(value)
    return plain


def prior_graph(graph: str, source: Source, label_names: tuple[str, ...]) -> tuple[str, np.ndarray | None]:
    """The label graph's kind and its edges, from what the user gave for --label-graph; see `label_graph_edges`."""
    from lampnet.readers.label_edges import label_graph_edges
    from lampnet.readers.named.registry import describe, load_edges

    if not source.named:
        return label_graph_edges(graph, label_names)
    edges = partial(load_edges, source.data, label_names, source.root)
    return label_graph_edges(graph, label_names, (describe(source.data).graph, edges))


def load_data(
    data: str = DEFAULT,
    *,
    data_root: str | Path | None = None,
    labels: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    on_bad_row: str = "error",
    seed: int = 0,
) -> Splits:
    """Read a data set by name, a folder or a file.

    >>> len(load_data("digits").train)
    2000
    """
    return Source(
        data=str(data),
        root=None if data_root is None else str(data_root),
        labels=None if labels is None else str(labels),
        columns=columns or {},
        on_bad_row=on_bad_row,
    ).splits(seed)
