"""How many labels many candidate rules get right, counted per fold: any choice of folds is then scored by sums.

A rule changes few entries against its neighbour in the same family, so a family is counted at once: entries are sorted
into the steps between two thresholds or between two ranks, and sums over the steps give all its rules.

Axes: C candidates, K folds, L labels, n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.weights import Weights
from lampnet.errors import DataError

#: Entries (rows x labels) that are counted together.
_BLOCK = 1 << 20
#: Scores are compared to this many decimals: the order of a sum must not decide between equal candidates.
DECIMALS = 9


@dataclass(frozen=True)
class Counts:
    """Counts of C candidates in K folds; where rows and labels have weights, sums of what they count.

    rows   (C, 5, K) sums over rows: all labels right, wrong labels, example-F1, hits, true + predicted labels
    hits   (C, K, L) rows in which the label is true and predicted
    given  (C, K, L) rows in which the label is predicted and known
    """

    rows: np.ndarray
    hits: np.ndarray
    given: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, candidates: Sequence[int]) -> Counts:
        """Some of the candidates, in this order."""
        some = list(candidates)
        return Counts(self.rows[some], self.hits[some], self.given[some])


class Truth:
    """The known labels of validation rows and the probabilities they are predicted with.

    y            (n, L) labels, dense or sparse, NaN where unknown
    proba        (n, L) probabilities
    fold_of_row  int (n,), 0 to K - 1, no fold empty
    weights      what rows and labels count; all the same by default
    """

    def __init__(self, y: Any, proba: np.ndarray, fold_of_row: np.ndarray, weights: Weights | None = None) -> None:
        y = np.asarray(y.toarray() if sparse.issparse(y) else y)
        self.proba = np.asarray(proba)
        if y.shape != self.proba.shape or y.ndim != 2 or not y.size:
            raise DataError(
                f"labels {y.shape} and probabilities {self.proba.shape} must have the same shape, not empty"
            )
        known = ~np.isnan(y)
        if not known.any():
            raise DataError("no label of the validation rows is known, so no rule can be chosen; give labelled rows")
        self.known = None if known.all() else known
        self.true = y == 1
        self.n, self.n_labels = y.shape
        self.fold_of_row = fold_of_row
        self.folds = int(fold_of_row.max()) + 1
        self._by_fold = np.argsort(fold_of_row, kind="stable")
        self._fold_starts = np.searchsorted(fold_of_row[self._by_fold], np.arange(self.folds))
        row_known = known.any(axis=1)
        self.weights = weights
        self.total = float(self.n) if weights is None else float(weights.row_n.sum())
        self._row_known, self._row_true = row_known, self._of_labels(self.true)
        self.rows = self.sum_folds(row_known.astype(np.float64))  # (K,)
        self.known_entries = self.sum_folds(self._of_labels(known).astype(np.float64))
        self.label_true = self._of_rows(self.true)  # (K, L)
        self.label_known = known.any(axis=0)
        #: a wrong label counts at least this
        self._least = 1.0 if weights is None else float(weights.entry_L.min())

    def _of_labels(self, entries: np.ndarray) -> np.ndarray:
        """What the entries of each row count, (n,)."""
        return np.asarray(entries.sum(axis=1) if self.weights is None else entries @ self.weights.entry_L)

    def _of_rows(self, entries: np.ndarray) -> np.ndarray:
        """What the entries of each label count in each fold, (K, L)."""
        sums = []
        for fold in range(self.folds):
            own = self.fold_of_row == fold
            if self.weights is None:
                sums.append(entries[own].sum(axis=0, dtype=np.float64 if entries.dtype.kind == "f" else None))
            else:
                sums.append(self.weights.row_n[own] @ entries[own])
        return np.stack(sums)

    @property
    def dtype(self) -> Any:
        """Of counts: whole numbers, unless rows and labels have weights."""
        return np.int64 if self.weights is None else np.float64

    def row_weight(self, rows: Any) -> Any:
        """What these rows count, for `np.bincount`; None where all count 1."""
        return None if self.weights is None else self.weights.row_n[rows]

    def label_weight(self, labels: Any) -> Any:
        """What entries of these labels count, for `np.bincount`; None where all count 1."""
        return None if self.weights is None else self.weights.entry_L[labels]

    def sum_folds(self, by_row: np.ndarray) -> np.ndarray:
        """(..., K) sums of (..., n)."""
        if self.weights is not None:
            by_row = by_row * self.weights.row_n
        return np.asarray(np.add.reduceat(by_row[..., self._by_fold], self._fold_starts, axis=-1))

    def counted(self, row_hits: np.ndarray, row_given: np.ndarray, hits: np.ndarray, given: np.ndarray) -> Counts:
        """Counts from those of each row, (C, n), and of each fold and label, (C, K, L)."""
        row_hits, row_given = row_hits.astype(np.float64), row_given.astype(np.float64)
        size = self._row_true + row_given
        exact = (size - 2 * row_hits < self._least / 2) & self._row_known  # nothing is wrong
        f1 = np.divide(2 * row_hits, size, out=np.zeros_like(size), where=size > 0)
        by_row = (exact.astype(np.float64), size - 2 * row_hits, f1, row_hits, size)
        return Counts(np.stack([self.sum_folds(part) for part in by_row], axis=1), hits, given)

    def scores(self, metric: str, counts: Counts, without: int | None = None) -> np.ndarray:
        """The metric of each candidate, (C,), over all rows, or over all but one fold."""
        use = np.arange(self.folds) != (-1 if without is None else without)
        hits = given = np.empty((len(counts), 0))
        if metric == "macro_f1":
            hits, given = (part[:, use].sum(axis=1) for part in (counts.hits, counts.given))
        return self.score(metric, counts.rows[:, :, use].sum(axis=2), hits, given, use)

    def held_out_score(self, metric: str, counts: Counts, winners: Sequence[int]) -> float:
        """The metric where each fold is predicted by the candidate that won without it."""
        folds, everywhere = np.arange(self.folds), np.ones(self.folds, dtype=bool)
        rows = counts.rows[winners, :, folds].sum(axis=0)[None]
        hits, given = (part[winners, folds].sum(axis=0)[None] for part in (counts.hits, counts.given))
        return float(self.score(metric, rows, hits, given, everywhere)[0])

    def score(self, metric: str, rows: np.ndarray, hits: np.ndarray, given: np.ndarray, use: np.ndarray) -> np.ndarray:
        """The metric from (C, 5) row sums and (C, L) label counts; equal to `lampnet.evaluation.metrics`."""
        exact, wrong, f1, all_hits, size = rows.T
        if metric == "subset_accuracy":
            score = exact / _some(self.rows[use].sum())
        elif metric == "hamming_accuracy":
            score = 1 - wrong / _some(self.known_entries[use].sum())
        elif metric == "example_f1":
            score = f1 / _some(self.rows[use].sum())
        elif metric == "micro_f1":
            score = 2 * all_hits / _some(size)
        else:
            label_f1 = 2 * hits / _some(given + self.label_true[use].sum(axis=0))
            own = None if self.weights is None else self.weights.label_L[self.label_known]
            score = np.average(label_f1[:, self.label_known], axis=1, weights=own)
        return np.asarray(np.round(score, DECIMALS))

    def expected_true(self) -> np.ndarray:
        """(K, L) true labels that the probabilities lead to expect, among the known ones."""
        return self._of_rows(self.proba if self.known is None else np.where(self.known, self.proba, 0))

    def is_known(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """bool, of entries."""
        return np.ones(len(rows), dtype=bool) if self.known is None else self.known[rows, labels]

    def blocks(self) -> list[slice]:
        """Rows that are counted together."""
        size = max(1, _BLOCK // self.n_labels)
        return [slice(first, first + size) for first in range(0, self.n, size)]


def _some(total: Any) -> Any:
    """Of sums by which others are divided: where nothing is there, nothing is counted either."""
    return np.where(np.asarray(total) > 0, total, 1.0)


@dataclass(frozen=True)
class ThresholdCounts:
    """Counts of T thresholds in ascending order.

    plain         of the labels that reach the threshold
    at_least_one  of the same, with the most probable label where none reaches it
    expected      (T, K, L) hits that the probabilities lead to expect
    """

    plain: Counts
    at_least_one: Counts
    expected: np.ndarray


def count_thresholds(truth: Truth, thresholds: np.ndarray) -> ThresholdCounts:
    """Counts of ascending thresholds (T,), all at once: an entry is sorted by how many of them it reaches."""
    proba, n_labels, steps = truth.proba, truth.n_labels, len(thresholds) + 1
    thresholds = thresholds.astype(proba.dtype)
    by_label = [np.zeros(truth.folds * n_labels * steps) for _ in range(3)]  # hits, given, expected
    by_row = [np.zeros((truth.n, steps), dtype=truth.dtype) for _ in range(2)]  # hits, given
    first_label, reached_by_first = (np.empty(truth.n, dtype=np.int64) for _ in range(2))
    for block in truth.blocks():
        p = proba[block]
        first_label[block] = p.argmax(axis=1)
        reached_by_first[block] = np.searchsorted(thresholds, p.max(axis=1), side="right")
        chosen = p >= thresholds[0]
        if truth.known is not None:
            chosen &= truth.known[block]
        row, label = np.nonzero(chosen)
        p, true = p[row, label], truth.true[block][row, label]
        reached = np.searchsorted(thresholds, p, side="right")
        key = (truth.fold_of_row[block][row] * n_labels + label) * steps + reached
        row_key = row * steps + reached
        of_row = row + block.start
        for k, some in enumerate((true, np.ones(len(true), dtype=bool))):
            by_label[k] += np.bincount(key[some], truth.row_weight(of_row[some]), by_label[k].size)
            rows = by_row[k][block]
            of_label = truth.label_weight(label[some])
            rows += np.bincount(row_key[some], of_label, rows.size).reshape(rows.shape)
        expected = p if truth.weights is None else p * truth.row_weight(of_row)
        by_label[2] += np.bincount(key, expected, by_label[2].size)
    hits, given, expected = (
        _at_least(counts.reshape(truth.folds, n_labels, steps)).transpose(2, 0, 1) for counts in by_label
    )
    row_hits, row_given = (_at_least(counts).T for counts in by_row)
    plain = truth.counted(row_hits, row_given, hits, given)
    # Where not even the first label reaches the threshold, it is chosen all the same.
    rows = np.arange(truth.n)
    known, true = truth.is_known(rows, first_label), truth.true[rows, first_label]
    missed = reached_by_first <= np.arange(len(thresholds))[:, None]  # (T, n)
    key = (truth.fold_of_row * n_labels + first_label) * steps + reached_by_first
    more_given, more_hits = (
        np.cumsum(np.bincount(key[some], truth.row_weight(some), by_label[0].size).reshape(-1, steps), axis=1)[
            :, :-1
        ].T.reshape(len(thresholds), truth.folds, n_labels)
        for some in (known, true)
    )
    own = 1 if truth.weights is None else truth.label_weight(first_label)
    one = truth.counted(
        row_hits + (missed & true) * own, row_given + (missed & known) * own, hits + more_hits, given + more_given
    )
    return ThresholdCounts(plain, one, expected)


def _at_least(counts: np.ndarray) -> np.ndarray:
    """(..., T) entries that reach each threshold, from (..., T + 1) entries that reach exactly that many of them."""
    return np.asarray(np.cumsum(counts[..., :0:-1], axis=-1)[..., ::-1])


def count_first(truth: Truth, order: np.ndarray, sizes: np.ndarray) -> Counts:
    """Counts of the rules that choose the first sizes[c, i] labels, int (C, n), of row i's order (n, L)."""
    of_labels = (len(sizes), truth.folds, truth.n_labels)
    hits, given = (np.zeros(of_labels, dtype=truth.dtype) for _ in range(2))
    row_hits, row_given = (np.zeros(sizes.shape, dtype=truth.dtype) for _ in range(2))
    for c, size in enumerate(sizes):
        row = np.repeat(np.arange(truth.n), size)
        label = order[row, np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)]
        key = truth.fold_of_row[row] * truth.n_labels + label
        for counts, row_counts, some in (
            (given, row_given, truth.is_known(row, label)),
            (hits, row_hits, truth.true[row, label]),
        ):
            own = np.bincount(key[some], truth.row_weight(row[some]), counts[c].size)
            counts[c] = own.reshape(counts[c].shape)
            row_counts[c] = np.bincount(row[some], truth.label_weight(label[some]), truth.n)
    return truth.counted(row_hits, row_given, hits, given)


def count_label_thresholds(truth: Truth, values: np.ndarray) -> tuple[Counts, Counts]:
    """Counts of C rules with one threshold per label, float (C, K, L): those of fold k apply to its rows.

    The second are of the same rules with the most probable label where none reaches its threshold.
    """
    lowest, highest = values.min(axis=0), values.max(axis=0)  # (K, L)
    shape = (len(values), truth.folds * truth.n_labels)
    hits, given = (np.zeros(shape, dtype=truth.dtype) for _ in range(2))
    row_hits, row_given = (np.zeros((len(values), truth.n), dtype=truth.dtype) for _ in range(2))
    for block in truth.blocks():
        fold = truth.fold_of_row[block]
        chosen = truth.proba[block] >= lowest[fold]
        if truth.known is not None:
            chosen &= truth.known[block]
        row, label = np.nonzero(chosen)
        p, true, fold_E = truth.proba[block][row, label], truth.true[block][row, label], fold[row]
        key, row = fold_E * truth.n_labels + label, row + block.start
        # Only entries between the lowest and the highest threshold of their label tell the rules apart.
        sure = p >= highest[fold_E, label]
        for counts, row_counts, some in ((given, row_given, sure), (hits, row_hits, sure & true)):
            counts += np.bincount(key[some], truth.row_weight(row[some]), shape[1])
            row_counts += np.bincount(row[some], truth.label_weight(label[some]), truth.n)
        row, label, key, p, true = (part[~sure] for part in (row, label, key, p, true))
        for c, own in enumerate(values.reshape(shape)):
            some = p >= own[key]
            given[c] += np.bincount(key[some], truth.row_weight(row[some]), shape[1])
            row_given[c] += np.bincount(row[some], truth.label_weight(label[some]), truth.n)
            some &= true
            hits[c] += np.bincount(key[some], truth.row_weight(row[some]), shape[1])
            row_hits[c] += np.bincount(row[some], truth.label_weight(label[some]), truth.n)
    of_labels = (len(values), truth.folds, truth.n_labels)
    plain = truth.counted(row_hits, row_given, hits.reshape(of_labels).copy(), given.reshape(of_labels).copy())
    first_label = truth.proba.argmax(axis=1)
    rows = np.arange(truth.n)
    known, true = truth.is_known(rows, first_label), truth.true[rows, first_label]
    key, own = truth.fold_of_row * truth.n_labels + first_label, truth.label_weight(first_label)
    for c, thresholds in enumerate(values):
        missed = np.concatenate(
            [(truth.proba[block] < thresholds[truth.fold_of_row[block]]).all(axis=1) for block in truth.blocks()]
        )
        for counts, row_counts, some in ((given, row_given, missed & known), (hits, row_hits, missed & true)):
            counts[c] += np.bincount(key[some], truth.row_weight(some), shape[1]).astype(truth.dtype)
            row_counts[c] += some if own is None else some * own
    return plain, truth.counted(row_hits, row_given, hits.reshape(of_labels), given.reshape(of_labels))
