"""Promises: a threshold for which recall or precision on new rows is at least what was asked for.

A promise holds with the stated confidence over the choice of the held-out rows, whatever the model and however many
rows, as long as new rows come from where these came from (Learn then Test, Angelopoulos et al. 2021). The recall of a
row is the share of its true labels that are predicted, the precision the share of its predicted labels that are true;
both are means over the rows that have any.

For every threshold of a fixed grid, "the promise is broken here" is tested: a row without a true (or predicted) label
counts as exactly what was promised, so that the loss of a row lies in [0, 1] and its mean is below alpha just where the
promise is kept; the p-value is Hoeffding's and Bentkus's. Thresholds are tested in a fixed order, the safest first,
until a test fails: recall from 0 upwards; precision downwards from several starts, among which the error is shared.

What a promise needs of the held-out rows is a few sums per threshold, so any promise can be asked of a stored model.

>>> random = np.random.default_rng(0)
>>> proba = random.random((2000, 5))
>>> promises = Promises.of((random.random(proba.shape) < proba).astype(float), proba)
>>> promises.threshold(Promise.read("recall>=0.9")).describe()
'threshold 0.26...'
>>> promises.threshold(Promise.read("precision>=0.8")).describe()
'threshold 0.6...'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, rel_entr

from lampnet.errors import ConfigError
from lampnet.evaluation.rules import Threshold

#: with this confidence a promise is kept
CONFIDENCE = 0.9
#: thresholds that are tested, ascending; fixed before any row is seen
GRID = np.concatenate([[0.0], expit(np.linspace(-7, 5, 121))])
#: where the tests of precision begin, among them the error is shared
STARTS = (0.98, 0.9, 0.8, 0.65, 0.5)
_FORM = re.compile(r"\s*(recall|precision)\s*>=\s*(0?\.\d+|0|1|1\.0*)\s*")


@dataclass(frozen=True)
class Promise:
    """At least `least` of the mean recall or precision of new rows."""

    measure: str
    least: float

    @classmethod
    def read(cls, text: str) -> Promise:
        """From text such as "recall>=0.9"."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None or not 0 < float(found[2]) < 1:
            raise ConfigError(
                f"decision={text!r:.80} is not a promise; write recall>=P or precision>=P with P between 0 and 1, "
                "such as "
                "recall>=0.9"
            )
        return cls(found[1], float(found[2]))

    def __str__(self) -> str:
        return f"{self.measure}>={self.least:g}"


@dataclass(frozen=True)
class Promises:
    """What the held-out rows lose at each threshold of the grid, float64 (T,): enough for any promise.

    rows            how many rows there are
    grid            the thresholds
    missed          sum over rows with a true label of the share of their true labels that are not predicted
    labelled        how many rows have a true label
    wrong           sum over rows with a predicted label of the share of their predicted labels that are not true
    answered        how many rows have a predicted label
    """

    rows: int
    labelled: int
    grid: np.ndarray
    missed: np.ndarray
    wrong: np.ndarray
    answered: np.ndarray

    @classmethod
    def of(cls, truth_nL: np.ndarray, proba_nL: np.ndarray) -> Promises:
        """Of held-out rows; entries whose truth is unknown (NaN) count for nothing."""
        known = ~np.isnan(truth_nL)
        true = known & (truth_nL == 1)
        size, some = true.sum(axis=1), known.any(axis=1)
        missed, wrong, answered = (np.zeros(len(GRID)) for _ in range(3))
        for number, value in enumerate(GRID):
            given = known & (proba_nL >= value)
            hits, count = (given & true).sum(axis=1), given.sum(axis=1)
            missed[number] = (1 - hits[size > 0] / size[size > 0]).sum()
            wrong[number] = (1 - hits[count > 0] / count[count > 0]).sum()
            answered[number] = (count > 0).sum()
        return cls(int(some.sum()), int((size > 0).sum()), GRID, missed, wrong, answered)

    def threshold(self, promise: Promise) -> Threshold:
        """The threshold that keeps the promise and gives most of the other measure.

        Raises
        ------
        ConfigError
            where the held-out rows are too few, or the model not good enough, to promise so much
        """
        found = self.least_or_most(promise)
        if found is None:
            most = max(
                (p for p in np.arange(0.01, 1.0, 0.01) if self.least_or_most(Promise(promise.measure, p))), default=0.0
            )
            best = f"at most {promise.measure}>={most:.2f} can" if most else "nor can any other"
            raise ConfigError(
                f"{promise} cannot be promised with {CONFIDENCE:.0%} confidence from {self.rows} held-out rows; {best}"
            )
        return Threshold(float(found))

    def reached(self, measure: str, threshold: float) -> float:
        """The mean recall or precision of these rows at a threshold of the grid; NaN where no row has any."""
        at = int(np.searchsorted(self.grid, threshold))
        count = self.labelled if measure == "recall" else self.answered[at]
        return 1 - float((self.missed if measure == "recall" else self.wrong)[at] / count) if count else float("nan")

    def least_or_most(self, promise: Promise) -> float | None:
        """The highest threshold that keeps a recall, the lowest that keeps a precision; None where none does."""
        alpha, error = 1 - promise.least, 1 - CONFIDENCE
        if promise.measure == "recall":
            p = self._p_values(self.missed, np.full(len(self.grid), self.labelled), alpha)
            failed = np.flatnonzero(p > error)
            kept = len(p) if not len(failed) else int(failed[0])
            return float(self.grid[kept - 1]) if kept else None
        p = self._p_values(self.wrong, self.answered, alpha)
        passed: list[int] = []
        for start in STARTS:
            first = int(np.searchsorted(self.grid, start, side="right")) - 1
            for number in range(first, -1, -1):
                if p[number] > error / len(STARTS):
                    break
                passed.append(number)
        return float(self.grid[min(passed)]) if passed else None

    def _p_values(self, loss: np.ndarray, counted: np.ndarray, alpha: float) -> np.ndarray:
        """(T,): how likely losses as low as these would be, were the promise broken."""
        if not self.rows:
            return np.ones(len(self.grid))
        return hoeffding_bentkus((loss + alpha * (self.rows - counted)) / self.rows, self.rows, alpha)


def hoeffding_bentkus(mean: np.ndarray, n: int, alpha: float) -> np.ndarray:
    """p-values of "the expected loss exceeds alpha" for means of n losses in [0, 1].

    >>> np.round(hoeffding_bentkus(np.array([0.05, 0.1, 0.2]), 200, 0.1), 3).tolist()
    [0.022, 1.0, 1.0]
    """
    mean = np.asarray(mean, dtype=np.float64)
    low = np.minimum(mean, alpha)
    hoeffding = np.exp(-n * (rel_entr(low, alpha) + rel_entr(1 - low, 1 - alpha)))
    from scipy.stats import binom  # slow to import, and prediction needs none of it

    bentkus = np.e * binom.cdf(np.ceil(n * mean - 1e-9), n, alpha)
    return np.asarray(np.minimum(1.0, np.minimum(hoeffding, bentkus)))
