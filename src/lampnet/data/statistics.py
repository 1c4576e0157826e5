"""The numbers of the paper's two data tables, for any Splits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset, Table
from lampnet.data.splits import Splits
from lampnet.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean, median and largest of some counts."""

    mean: float
    median: float
    max: int

    @classmethod
    def of(cls, counts: np.ndarray) -> Spread:
        """The spread of int counts (n,); all zero for none."""
        if not len(counts):
            return cls(mean=0.0, median=0.0, max=0)
        return cls(mean=float(counts.mean()), median=float(np.median(counts)), max=int(counts.max()))


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the paper's tables say of a data set.

    features           distinct words or columns; None where the files do not fix them (text, pictures)
    labels_per_sample  over the training and validation rows, as in the paper
    samples_per_label  over the same rows
    test_labels_per_sample  over the test rows; None where there are none
    unknown            share of all labels that is not known
    """

    name: str
    kind: str
    train: int
    valid: int
    test: int
    labels: int
    features: int | None
    labels_per_sample: Spread
    samples_per_label: Spread
    test_labels_per_sample: Spread | None
    unknown: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def label_counts(data: Dataset) -> np.ndarray:
    """Rows that have each label, int64 (L,); unknown labels do not count."""
    if data.labels is None:
        raise DataError(f"{data.name}: the rows carry no labels; statistics need labels")
    return np.bincount(data.labels.indices[data.labels.data == 1], minlength=len(data.label_names)).astype(np.int64)


def _per_sample(data: Dataset) -> np.ndarray:
    if data.labels is None:
        raise DataError(f"{data.name}: the rows carry no labels; statistics need labels")
    rows = np.repeat(np.arange(len(data)), np.diff(data.labels.indptr))
    return np.bincount(rows[data.labels.data == 1], minlength=len(data))


def _features(data: Dataset) -> int | None:
    if isinstance(data.rows, Table):
        return len(data.rows.names)
    if data.kind in ("wordset", "vector"):
        return int(data.rows.shape[1])
    return 4 if data.kind == "dna" else None


def statistics(splits: Splits) -> Statistics:
    """Rows, labels, features, labels per sample and samples per label.

    >>> from lampnet.readers.named.digit_scenes import load_digit_scenes
    >>> found = statistics(load_digit_scenes())
    >>> found.train, found.valid, found.test, found.labels
    (2000, 400, 400, 17)
    """
    parts = [part for part in (splits.train, splits.valid, splits.test) if part is not None]
    labelled = [part for part in parts if part.labels is not None]
    learning = [part for part in (splits.train, splits.valid) if part is not None and part.labels is not None]
    if not learning:
        raise DataError(f"{splits.train.name}: the rows carry no labels; statistics need labels")
    cells = sum(len(part) * len(part.label_names) for part in labelled)
    unknown = sum(int(np.isnan(part.labels.data).sum()) for part in labelled if part.labels is not None)
    return Statistics(
        name=splits.train.name,
        kind=splits.train.kind,
        train=len(splits.train),
        valid=0 if splits.valid is None else len(splits.valid),
        test=0 if splits.test is None else len(splits.test),
        labels=len(splits.train.label_names),
        features=_features(splits.train),
        labels_per_sample=Spread.of(np.concatenate([_per_sample(part) for part in learning])),
        samples_per_label=Spread.of(np.sum([label_counts(part) for part in learning], axis=0)),
        test_labels_per_sample=(
            None if splits.test is None or splits.test.labels is None else Spread.of(_per_sample(splits.test))
        ),
        unknown=unknown / cells if cells else 0.0,
    )
