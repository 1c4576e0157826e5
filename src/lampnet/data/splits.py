"""How labelled rows are split: validation and test rows, folds.

Rows that follow each other are often alike (news of one day, parts of a recording): in random folds each has near
copies in the other folds, and scores are too high. Such serially correlated rows get blocked folds. Rows sorted by
their labels do not: a block would lack labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from lampnet.data.arrangement import grouped_folds, times_of
from lampnet.data.dataset import Dataset
from lampnet.data.stratify import stratified_folds, stratified_parts
from lampnet.data.weights import row_weights
from lampnet.errors import DataError

#: the share of the labelled rows that is held out for validation where no validation rows were given
VALIDATION_FRACTION = 0.1
#: fewer rows than this are never taken for serially correlated
FEWEST_ROWS = 300
#: neighbours share a label this many standard errors, and this many times, more often than random pairs of rows
ERRORS, TIMES = 6.0, 1.2
#: labels with at least this many rows show whether the rows were sorted: most of a label's rows lie in one third
FREQUENT = 30


def fold_numbers(
    n: int,
    folds: int,
    seed: int,
    serially_correlated: bool = False,
    labels: np.ndarray | sparse.csr_matrix | None = None,
) -> np.ndarray:
    """The fold of each of n rows, int (n,): random, or blocked for serially correlated rows.

    labels  of the rows (n, L): with them, random folds share out the rows of every label evenly

    >>> fold_numbers(7, 3, seed=0, serially_correlated=True).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    >>> sorted(fold_numbers(7, 3, seed=0).tolist())
    [0, 0, 0, 1, 1, 2, 2]
    """
    folds = min(folds, n)
    if serially_correlated:
        return np.arange(n) * folds // n
    if labels is not None:
        return stratified_folds(labels, folds, seed)
    return np.random.default_rng(seed).permutation(n) % folds


def hashed_folds(numbers: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of rows with these numbers, int (n,): it depends on the number and the seed alone (SplitMix64).

    >>> whole = hashed_folds(np.arange(1000), 2, seed=0)
    >>> bool((hashed_folds(np.arange(500, 600), 2, seed=0) == whole[500:600]).all()), bool(450 < whole.sum() < 550)
    (True, True)
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(seed + 1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(folds)).astype(np.int64)


def parts_of(fold_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the numbers of the other rows, and of its own.

    >>> [(rest.tolist(), own.tolist()) for rest, own in parts_of(np.array([0, 1, 0]))]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    return [(np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)) for fold in range(fold_n.max() + 1)]


def held_out(
    n: int,
    held: int,
    seed: int,
    serially_correlated: bool = False,
    labels: np.ndarray | sparse.csr_matrix | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows that are kept and of those held out, sorted: random ones, or the last of the rows.

    labels  of the rows (n, L): with them, both parts get their share of every label's random rows

    >>> [part.tolist() for part in held_out(5, 2, seed=0, serially_correlated=True)]
    [[0, 1, 2], [3, 4]]
    """
    if labels is not None and not serially_correlated:
        part_n = stratified_parts(labels, [n - held, held], seed)
        return np.flatnonzero(part_n == 0), np.flatnonzero(part_n == 1)
    order = np.arange(n)[::-1] if serially_correlated else np.random.default_rng(seed).permutation(n)
    return np.sort(order[held:]), np.sort(order[:held])


def serially_correlated_rows(Y_nL: np.ndarray | sparse.csr_matrix) -> bool:
    """Whether rows that follow each other are alike though every third of the rows has its share of the labels.

    Y_nL  float (n, L), dense or sparse: 1 where a label is true; 0 or NaN elsewhere

    >>> days = np.repeat(np.random.default_rng(0).integers(4, size=200), 5)
    >>> serially_correlated_rows(np.eye(4)[days]), serially_correlated_rows(np.eye(4)[np.sort(days)])
    (True, False)
    """
    n = Y_nL.shape[0]
    if n < FEWEST_ROWS:
        return False
    Y = sparse.csr_matrix(Y_nL > 0, dtype=np.float32)
    near = _sharing(Y[1:], Y[:-1])
    far = _sharing(Y, Y[np.random.default_rng(0).permutation(n)])
    both = (near + far) / 2
    if near < TIMES * far or near - far < ERRORS * np.sqrt(2 * both * (1 - both) / n):
        return False
    fold_n = fold_numbers(n, 3, 0, serially_correlated=True)
    thirds = np.stack([np.asarray(Y[fold_n == third].sum(axis=0)).ravel() for third in range(3)])
    frequent = thirds.sum(axis=0) >= FREQUENT
    return bool(frequent.any()) and float(np.median(thirds.max(axis=0)[frequent] / thirds.sum(axis=0)[frequent])) < 0.5


def _sharing(Y: sparse.csr_matrix, other: sparse.csr_matrix) -> float:
    """The share of the rows that have a label in common with their counterpart."""
    return float((np.asarray(Y.multiply(other).sum(axis=1)) > 0).mean())


def _that_count(rows: Dataset) -> Dataset:
    if rows.weights is None:
        return rows
    weight = row_weights(rows.weights, len(rows))
    return rows if (weight > 0).all() else rows.take(np.flatnonzero(weight))


@dataclass(frozen=True, kw_only=True)
class Splits:
    """The training rows and, where they exist, validation and test rows."""

    train: Dataset
    valid: Dataset | None = None
    test: Dataset | None = None
    #: the validation rows are a random sample of the labelled rows, so that they can be merged back
    valid_is_sampled: bool = False
    #: what a caller says of the rows: "groups" stay together, "times" are in order; "" for nothing
    arranged: Literal["", "groups", "times"] = ""

    @classmethod
    def of_groups(cls, train: Dataset, groups: Sequence[Any]) -> Splits:
        """Rows of one group stay together wherever they are split."""
        rows = replace(train, groups=tuple(str(group) for group in groups))
        if len(set(rows.groups or ())) < 2:
            raise DataError(
                f"{train.name}: all rows are of one group, so none can be held out; give at least two groups"
            )
        return cls(train=rows, arranged="groups")

    @classmethod
    def in_time(cls, train: Dataset, times: Any) -> Splits:
        """Rows in the order of their times: whatever is held out is later than the rest."""
        numbers = times_of(times)
        if len(numbers) != len(train):
            raise DataError(f"{train.name}: {len(train)} rows were given with {len(numbers)} times; give one per row")
        return cls(train=train.take(np.argsort(numbers, kind="stable")), arranged="times")

    def folds_of(self, rows: Dataset, folds: int, seed: int, blocked: bool) -> np.ndarray:
        """The fold of each of these training rows, int (n,)."""
        if self.arranged == "groups":
            assert rows.groups is not None
            assert rows.labels is not None
            return grouped_folds(rows.labels, rows.groups, folds, seed)
        return fold_numbers(len(rows), folds, seed, blocked, rows.labels)

    def _held_out(self, held: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the training rows that are kept, and of about `held` ones that are held out."""
        n = len(self.train)
        if self.arranged == "groups":
            first = self.folds_of(self.train, max(2, round(n / held)), seed, blocked=False) == 0
            return np.flatnonzero(~first), np.flatnonzero(first)
        correlated = replace(self, valid=None).serially_correlated
        return held_out(n, held, seed, correlated, self.train.labels)

    def that_count(self) -> Splits:
        """Without the training and validation rows of weight 0, which count for nothing."""
        valid = None if self.valid is None else _that_count(self.valid)
        return replace(self, train=_that_count(self.train), valid=valid)

    def merged_back(self) -> Splits:
        """Sampled validation rows behind the training rows again; given ones stay."""
        if self.valid is None or not self.valid_is_sampled:
            return self
        return replace(self, train=Dataset.joined([self.train, self.valid]), valid=None, valid_is_sampled=False)

    @cached_property
    def serially_correlated(self) -> bool:
        """Whether the training rows, from which no validation rows were taken, are serially correlated."""
        if self.valid is not None or self.train.labels is None or self.arranged == "groups":
            return False
        return self.arranged == "times" or serially_correlated_rows(self.train.labels)

    def with_validation(self, fraction: float, seed: int) -> Splits:
        """Hold out validation rows where none were given."""
        if self.valid is not None:
            return self
        n = len(self.train)
        n_valid = max(1, round(n * fraction))
        if n - n_valid < 1:
            raise DataError(
                f"{self.train.name}: {n} training row(s) are too few to draw a validation part from; "
                "give more rows or a validation file"
            )
        kept, held = self._held_out(n_valid, seed)
        train, valid = self.train.take(kept), self.train.take(held)
        return replace(self, train=train, valid=valid, valid_is_sampled=not self.serially_correlated)

    def with_test(self, fraction: float, seed: int) -> Splits:
        """Hold out test rows of the training rows where none were given."""
        if self.test is not None:
            return self
        n = len(self.train)
        n_test = round(fraction * n)
        if n_test < 1:
            raise DataError(
                f"{self.train.name}: {n} rows are too few to draw test rows from; give more rows or a test file"
            )
        kept, held = self._held_out(n_test, seed)
        return replace(self, train=self.train.take(kept), test=self.train.take(held))


def arranged_rows(train: Dataset, groups: Any = None, times: Any = None) -> Splits:
    """Training rows, with what a caller says of them."""
    if groups is not None and times is not None:
        raise DataError("both groups and times were given; give one of them: rows are split by groups or by time")
    if groups is not None:
        return Splits.of_groups(train, groups)
    return Splits(train=train) if times is None else Splits.in_time(train, times)


def random_split(data: Dataset, valid: float | int, test: float | int, seed: int) -> Splits:
    """Seeded random parts; `valid` and `test` are counts, or shares of the rows when below 1.

    >>> rows = Dataset(name="x", kind="text", rows=list("abcdefghij"), labels=None, label_names=())
    >>> parts = random_split(rows, valid=0.1, test=2, seed=0)
    >>> len(parts.train), len(parts.valid), len(parts.test)
    (7, 1, 2)
    """
    n = len(data)
    n_valid = round(valid * n) if valid < 1 else int(valid)
    n_test = round(test * n) if test < 1 else int(test)
    if n - n_valid - n_test < 1:
        raise DataError(f"{data.name}: {n} rows are too few for {n_valid} validation and {n_test} test rows")
    order = np.random.default_rng(seed).permutation(n)
    return Splits(
        train=data.take(np.sort(order[n_valid + n_test :])),
        valid=data.take(np.sort(order[:n_valid])),
        test=data.take(np.sort(order[n_valid : n_valid + n_test])),
        # Merged back, sampled rows stand behind the others: serially correlated rows would lose their order.
        valid_is_sampled=not Splits(train=data).serially_correlated,
    )


def split_by_group(data: Dataset, valid: Sequence[str], test: Sequence[str]) -> Splits:
    """Hold out whole groups (chromosomes), so that no test window lies beside a training window."""
    if data.groups is None:
        raise DataError(f"{data.name}: the rows have no groups to split by")
    groups = np.array(data.groups)
    held = {"valid": np.isin(groups, valid), "test": np.isin(groups, test)}
    parts = {part: data.take(np.flatnonzero(mask)) for part, mask in held.items() if mask.any()}
    train = np.flatnonzero(~(held["valid"] | held["test"]))
    if not len(train):
        raise DataError(f"{data.name}: every group is held out ({', '.join(sorted(set(groups)))}); keep some to train")
    return Splits(train=data.take(train), valid=parts.get("valid"), test=parts.get("test"))
