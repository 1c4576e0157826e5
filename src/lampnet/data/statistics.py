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
    """The numbers of a data set in the paper's tables."""

    name: str
    kind: str
    train: int
    valid: int
    test: int
    labels: int
    features: int | None  # distinct words or columns; None where the files do not fix them (text, pictures)
    labels_per_sample: Spread  # over the training and validation rows, as in the paper
    samples_per_label: Spread  # over the same rows
    test_labels_per_sample: Spread | None  # None without labelled test rows
    unknown: float  # share of all labels that is not known

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def label_counts(data: Dataset) -> np.ndarray:
    """Rows that have each label, int64 (L,); unknown labels do not count."""
    return _counts(data, axis=0)


def _counts(data: Dataset, axis: int) -> np.ndarray:
    if data.labels is None:
        raise DataError(f"{data.name}: the rows carry no labels; statistics need labels")
    return np.asarray((data.labels == 1).sum(axis=axis), dtype=np.int64).ravel()


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
    learning, tested = (
        [part for part in parts if part is not None and part.labels is not None]
        for parts in ((splits.train, splits.valid), (splits.test,))
    )
    if not learning:
        raise DataError(f"{splits.train.name}: the rows carry no labels; statistics need labels")
    cells = sum(len(part) * len(part.label_names) for part in learning + tested)
    unknown = sum(int(np.isnan(part.labels.data).sum()) for part in learning + tested if part.labels is not None)
    return Statistics(
        name=splits.train.name,
        kind=splits.train.kind,
        train=len(splits.train),
        valid=0 if splits.valid is None else len(splits.valid),
        test=0 if splits.test is None else len(splits.test),
        labels=len(splits.train.label_names),
        features=_features(splits.train),
        labels_per_sample=Spread.of(np.concatenate([_counts(part, axis=1) for part in learning])),
        samples_per_label=Spread.of(np.sum([label_counts(part) for part in learning], axis=0)),
        test_labels_per_sample=Spread.of(_counts(tested[0], axis=1)) if tested else None,
        unknown=unknown / cells if cells else 0.0,
    )
