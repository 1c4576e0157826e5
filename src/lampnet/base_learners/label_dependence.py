"""What known labels say about the others, in closed form: three shifts of the log-odds, learned from counts alone.

`cooccurrence` multiplies odds, which is right for a few known labels; `label_covariance` takes account of labels that
repeat each other and of refused labels, which is right for many; `label_sets` knows what several labels say together.
All are learned from labelled rows and their out-of-fold logits, and all are cross-fitted: the shifts of a labelled row
come from the other folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lampnet.base_learners.cooccurrence import (
    Counts,
    cooccurrence_shift,
    cooccurrence_shift_by_others,
    log_odds_shifts,
)
from lampnet.base_learners.label_covariance import covariance_shift, covariance_shift_by_others, residual_products
from lampnet.base_learners.label_sets import LabelSets, label_sets
from lampnet.errors import ModelFolderError

#: of more labels, only the most frequent take part: the tables are square
MOST_LABELS = 2048
#: the shifts, in the order of the last axis
SHIFTS = ("co-occurrence", "covariance", "label sets")


@dataclass(frozen=True)
class LabelDependence:
    """The tables of all shifts.

    labels_m       int64 (m,), the labels that take part, by number
    shifts_mm      float32, see `cooccurrence`
    covariance_mm  float32, see `label_covariance`
    sets           see `label_sets`; without them there are the other two shifts
    """

    labels_m: np.ndarray
    shifts_mm: np.ndarray
    covariance_mm: np.ndarray
    sets: LabelSets | None

    @property
    def n_shifts(self) -> int:
        """How many shifts there are, C: the first of `SHIFTS`."""
        return len(SHIFTS) if self.sets is not None else len(SHIFTS) - 1

    def shifts(self, logits_BL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
        """Shifts of the log-odds, float32 (B, L, C); all zero where nothing is known.

        logits_BL  what the input says
        states_BL  see `data/known_labels.py`
        """
        shifts = np.zeros((*states_BL.shape, self.n_shifts), dtype=np.float32)
        states, logits = states_BL[:, self.labels_m], logits_BL[:, self.labels_m]
        shifts[:, self.labels_m, 0] = cooccurrence_shift(self.shifts_mm, states)
        shifts[:, self.labels_m, 1] = covariance_shift(self.covariance_mm, logits, states)
        if self.sets is not None:
            shifts[:, self.labels_m, 2] = self.sets.shift(states)
        return shifts

    def shifts_by_others(self, logits_BL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
        """Shifts of each label by the row's other known labels, float32 (B, L, C).

        Of a known label this is what `shifts` gives where only its own state is unknown.
        """
        shifts = np.zeros((*states_BL.shape, self.n_shifts), dtype=np.float32)
        states, logits = states_BL[:, self.labels_m], logits_BL[:, self.labels_m]
        shifts[:, self.labels_m, 0] = cooccurrence_shift_by_others(self.shifts_mm, states)
        shifts[:, self.labels_m, 1] = covariance_shift_by_others(self.covariance_mm, logits, states)
        if self.sets is not None:
            shifts[:, self.labels_m, 2] = self.sets.shift(states)  # which leaves a label's own state out
        return shifts

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, for the model folder."""
        sets = {} if self.sets is None else self.sets.arrays()
        tables = {"labels": self.labels_m, "shifts": self.shifts_mm, "covariance": self.covariance_mm}
        return tables | {f"sets.{name}": array for name, array in sets.items()}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int) -> LabelDependence:
        """What `arrays` returned, checked: the folder is untrusted."""
        try:
            labels, shifts, covariance = arrays["labels"], arrays["shifts"], arrays["covariance"]
        except KeyError as missing:
            raise ModelFolderError(f"what this model knows of its labels lacks {missing}; train it again") from None
        rising = labels.ndim == 1 and labels.dtype == np.int64 and bool((np.diff(labels) > 0).all())
        if not rising or (len(labels) and (labels[0] < 0 or labels[-1] >= n_labels)):
            raise ModelFolderError("the table of label dependence names labels that do not exist; train it again")
        for name, table in (("shifts", shifts), ("covariance", covariance)):
            if table.shape != (len(labels), len(labels)) or table.dtype != np.float32:
                raise ModelFolderError(f"the table of label {name} has another size than its labels; train it again")
        sets = {name.removeprefix("sets."): array for name, array in arrays.items() if name.startswith("sets.")}
        return cls(labels, shifts, covariance, LabelSets.restore(sets, len(labels)) if sets else None)


@dataclass(frozen=True)
class CrossFittedDependence:
    """Tables for new rows, and tables by which the rows of each fold are scored, because they never saw them."""

    whole: LabelDependence
    folds: list[LabelDependence]

    def shifts(self, logits_BL: np.ndarray, states_BL: np.ndarray, fold_B: np.ndarray) -> np.ndarray:
        """As `LabelDependence.shifts`, for labelled rows of these folds."""
        shifts = np.zeros((*states_BL.shape, self.whole.n_shifts), dtype=np.float32)
        for fold in np.unique(fold_B):
            own = fold_B == fold
            shifts[own] = self.folds[fold].shifts(logits_BL[own], states_BL[own])
        return shifts

    def shifts_by_others(self, logits_BL: np.ndarray, states_BL: np.ndarray, fold_B: np.ndarray) -> np.ndarray:
        """As `LabelDependence.shifts_by_others`, for labelled rows of these folds."""
        shifts = np.zeros((*states_BL.shape, self.whole.n_shifts), dtype=np.float32)
        for fold in np.unique(fold_B):
            own = fold_B == fold
            shifts[own] = self.folds[fold].shifts_by_others(logits_BL[own], states_BL[own])
        return shifts


def cross_fit_dependence(
    Y_nL: np.ndarray, logits_nL: np.ndarray, fold_n: np.ndarray, with_sets: bool = True
) -> CrossFittedDependence:
    """Learn all tables on all rows, and on all rows but those of each fold.

    Parameters
    ----------
    Y_nL : labels; NaN is unknown
    logits_nL : what the input says about each row, out-of-fold
    fold_n : the fold of each row
    with_sets : also learn the shift by label sets

    >>> random = np.random.default_rng(0)
    >>> first = random.random((300, 1)) < 0.3
    >>> Y = np.hstack([first, first ^ (random.random((300, 1)) < 0.1)]).astype(np.float32)
    >>> fitted = cross_fit_dependence(Y, np.full((300, 2), -1.0), np.arange(300) % 3)
    >>> shifts = fitted.whole.shifts(np.full((1, 2), -1.0), np.array([[1, 0]], dtype=np.int8))
    >>> bool((shifts[0, 1] > 1).all()), len(fitted.folds)
    (True, 3)
    """
    frequency = np.nan_to_num(Y_nL).sum(axis=0)
    labels = np.sort(np.argsort(-frequency, kind="stable")[:MOST_LABELS])
    Y, logits = Y_nL[:, labels], logits_nL[:, labels]
    rows_of = [fold_n == fold for fold in range(int(fold_n.max()) + 1)]
    counts = [Counts(Y[own]) for own in rows_of]
    products = [residual_products(Y[own], logits[own]) for own in rows_of]
    all_counts, all_products = Counts(Y), sum(products[1:], products[0])

    def tables(counts: Counts, products: np.ndarray, rows: np.ndarray) -> LabelDependence:
        covariance = (products / max(1, len(rows))).astype(np.float32)
        return LabelDependence(labels, log_odds_shifts(counts), covariance, label_sets(rows) if with_sets else None)

    return CrossFittedDependence(
        whole=tables(all_counts, all_products, Y),
        folds=[
            tables(all_counts.without(c), all_products - p, Y[~own])
            for c, p, own in zip(counts, products, rows_of, strict=True)
        ],
    )
