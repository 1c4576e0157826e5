"""How labelled rows are cut into parts that judge each other.

Rows that came one after the other are often alike: news of one day, regions of one chromosome, parts of a recording.
Cut at random, each part has near copies in the others, and what is chosen on it is too sure of itself for rows that
come later. Such rows are cut in their order. Rows that were sorted by their labels are not: a part would lack labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError

FEWEST_ROWS = 300
#: neighbours share a label this many standard errors, and this many times, more often than rows drawn at random
ERRORS, TIMES = 6.0, 1.2
#: labels with this many rows tell whether the rows were sorted: most of a label's rows would be in one third
FREQUENT = 30


def fold_numbers(n: int, folds: int, seed: int, serially_correlated: bool = False) -> np.ndarray:
    """The part of each of n rows, int (n,): at random, or one stretch of rows a part.

    >>> fold_numbers(7, 3, seed=0, serially_correlated=True).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    >>> sorted(fold_numbers(7, 3, seed=0).tolist())
    [0, 0, 0, 1, 1, 2, 2]
    """
    folds = min(folds, n)
    if serially_correlated:
        return np.arange(n) * folds // n
    return np.random.default_rng(seed).permutation(n) % folds


def parts_of(fold_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each part the numbers of the other rows, and its own.

    >>> [(rest.tolist(), own.tolist()) for rest, own in parts_of(np.array([0, 1, 0]))]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    return [(np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)) for fold in range(fold_n.max() + 1)]


def serially_correlated_rows(Y_nL: np.ndarray | sparse.csr_matrix) -> bool:
    """Whether rows that follow each other are alike though every stretch of rows has its share of the labels.

    Parameters
    ----------
    Y_nL : float (n, L), dense or sparse
        1 where a label is true; 0 or NaN elsewhere.

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


#: the share of the labelled rows that is drawn to choose on, where empty_rows gave validation rows
VALIDATION_FRACTION = 0.1


@dataclass(frozen=True, kw_only=True)
class Splits:
    """The training rows and, where they exist, validation and test rows.

    valid_is_sampled  the validation rows came with the training rows and were drawn from them at random: nothing
                    is lost when they are learned from, and other rows are held back to choose on
    """

    train: Dataset
    valid: Dataset | None = None
    test: Dataset | None = None
    valid_is_sampled: bool = False

    def merged_back(self) -> Splits:
        """The validation rows behind the training rows again, where they were drawn from them; given ones stay."""
        if self.valid is None or not self.valid_is_sampled:
            return self
        return replace(self, train=Dataset.joined([self.train, self.valid]), valid=None, valid_is_sampled=False)

    @cached_property
    def serially_correlated(self) -> bool:
        """Whether the training rows, from which no validation rows were taken, come in order (`folds.py`)."""
        return self.valid is None and self.train.labels is not None and serially_correlated_rows(self.train.labels)

    def with_validation(self, fraction: float, seed: int) -> Splits:
        """Draw a validation part from the training rows where none was given; of rows in order the last."""
        if self.valid is not None:
            return self
        n = len(self.train)
        n_valid = max(1, round(n * fraction))
        if n - n_valid < 1:
            raise DataError(
                f"{self.train.name}: {n} training row(s) are too few to draw a validation part from; "
                "give more rows or a validation file"
            )
        order = np.arange(n)[::-1] if self.serially_correlated else np.random.default_rng(seed).permutation(n)
        return replace(
            self,
            train=self.train.take(np.sort(order[n_valid:])),
            valid=self.train.take(np.sort(order[:n_valid])),
            valid_is_sampled=not self.serially_correlated,
        )
