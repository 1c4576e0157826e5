"""The interface of every base learner: fit out-of-fold, predict logits, store plain arrays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.data.weights import Weights

Features = Any  # CSR or dense (n, F)
FOLDS = 8

#: Called at least about once a second with the share that is done, 0 to 1, and what is being done.
#: An exception that it raises ends the fit.
OnProgress = Callable[[float, str], None]


def no_progress(share: float, doing: str) -> None:
    """Ignore the progress of a fit."""


def no_log(sentence: str) -> None:
    """Ignore what a fit decides."""


@dataclass(frozen=True, kw_only=True)
class FitContext:
    """How a fit reports, and how long it may take.

    progress        called while the fit goes on
    budget_seconds  wall time that the fit should end within; None for as long as it takes
    log             called with a sentence for each thing that was reduced to keep the budget
    clock           where seconds are read from
    """

    progress: OnProgress = no_progress
    budget_seconds: float | None = None
    log: Callable[[str], None] = no_log
    clock: Callable[[], float] = time.monotonic


QUIET = FitContext()


class BaseLearner(Protocol):
    """One quick model that predicts all labels at once."""

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        """Fit on all rows; return out-of-fold logits (n, L).

        Rows with the same `fold_n` (n,) do not influence each other's logits. Without `fold_n`, each learner leaves a
        row out in its own way: random folds, leave-one-out, or trees whose bootstrap sample lacks the row.
        `weights` say what rows and labels count.
        """

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        """Learn from new rows beside what was learned before; return their out-of-fold logits (n, L).

        Y may have labels that were not there before; they stand behind the others. Rows with the same `fold_n` do not
        influence each other's logits. The rows before must not be among the new ones.
        """

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        """Fit again, on more rows, with the hyperparameters that `fit` chose."""

    def logits(self, X: Features) -> np.ndarray:
        """Logits of new rows, float32 (n, L)."""

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        """What each feature adds to the logits of some labels, by number, in some of the rows.

        All rows that were predicted together are given: a search among them must find the same again.
        """

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, for the model folder; enough to `refit` too."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `arrays` returned."""


def part_of(progress: OnProgress, first: float, last: float) -> OnProgress:
    """The progress of a part of the work, which reaches from one share of the whole to another.

    >>> whole = lambda share, doing: print(f"{share:.2f} {doing}")
    >>> part_of(whole, 0.5, 1.0)(0.5, "three quarters are done")
    0.75 three quarters are done
    """

    def report(share: float, doing: str) -> None:
        progress(first + (last - first) * share, doing)

    return report
