"""How well unknown labels are predicted where some labels are known: regimes, reveals and their scores.

A regime says what is revealed of each row: `positives:3` three of its true labels, `share:50` half of all labels,
each with its truth. Scores count the labels that were not revealed, on rows that keep at least one true label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.known_labels import TRUE, UNKNOWN, States, nothing_known, states_of_truth
from lampnet.errors import ConfigError
from lampnet.evaluation.metrics import example_f1

EXAMPLES = "positives:1, positives:3, share:25, share:50 or share:75"


@dataclass(frozen=True)
class Regime:
    """What is revealed of each row.

    kind    "positives": a number of true labels; "share": a percentage of all labels
    amount  how many

    >>> Regime.read("positives:3")
    Regime(kind='positives', amount=3)
    >>> str(Regime.read("share:25"))
    'share:25'
    """

    kind: str
    amount: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.amount}"

    @classmethod
    def read(cls, text: str) -> Regime:
        kind, _, amount = text.partition(":")
        number = int(amount) if amount.isascii() and amount.isdigit() and len(amount) < 7 else 0
        if kind not in ("positives", "share") or number < 1 or (kind == "share" and number > 99):
            raise ConfigError(f"there is no regime {text!r}; give {EXAMPLES}")
        return cls(kind, number)


def reveal(Y_nL: np.ndarray, regime: Regime, seed: int) -> tuple[States, np.ndarray]:
    """States in which the regime's labels are known, and which rows count, bool (n,).

    A row counts where a true label is left unknown and, of `positives`, there are enough to reveal.

    >>> Y = np.array([[1, 1, 0], [1, 0, 0]])
    >>> states, counts = reveal(Y, Regime("positives", 1), seed=0)
    >>> states.sum(axis=1).tolist(), counts.tolist()
    ([1, 0], [True, False])
    """
    random = np.random.default_rng(seed)
    truth = states_of_truth(Y_nL)
    lots = random.random(truth.shape)
    true = truth == TRUE
    if regime.kind == "share":
        states = np.where(lots < regime.amount / 100, truth, UNKNOWN).astype(np.int8)
        return states, (true & (states == UNKNOWN)).any(axis=1)
    counts = true.sum(axis=1) > regime.amount
    states = nothing_known(*truth.shape)
    if counts.any():
        order = np.argsort(np.where(true[counts], lots[counts], np.inf), axis=1)[:, : regime.amount]
        revealed = np.zeros_like(states[counts])
        np.put_along_axis(revealed, order, TRUE, axis=1)
        states[counts] = revealed
    return states, counts


def unrevealed(Y_nL: np.ndarray, states_nL: States) -> np.ndarray:
    """The labels that were not revealed; the others are NaN."""
    return np.where(states_nL != UNKNOWN, np.nan, Y_nL)


def row_precision(Y_nL: np.ndarray, scores_nL: np.ndarray) -> np.ndarray:
    """The average precision of each row's labels (n,); NaN in Y is left out, and a row without true labels has NaN.

    >>> row_precision(np.array([[1, 0, np.nan], [0, 0, np.nan]]), np.array([[0.2, 0.8, 0.9]] * 2)).tolist()
    [0.5, nan]
    """
    true = Y_nL == 1
    ranked = np.where(np.isnan(Y_nL), -np.inf, scores_nL)
    hits = np.take_along_axis(true, np.argsort(-ranked, axis=1, kind="stable"), axis=1)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    count = hits.sum(axis=1)
    return np.asarray(np.where(count, (precision * hits).sum(axis=1) / np.maximum(count, 1), np.nan))


def mean_row_precision(Y_nL: np.ndarray, scores_nL: np.ndarray) -> float:
    """The mean over rows of the average precision of their labels; NaN in Y is left out, as are rows without labels.

    >>> mean_row_precision(np.array([[1, 0, np.nan]]), np.array([[0.2, 0.8, 0.9]]))
    0.5
    """
    rows = (Y_nL == 1).any(axis=1)
    return float(row_precision(Y_nL[rows], scores_nL[rows]).mean()) if rows.any() else float("nan")


@dataclass(frozen=True)
class Prediction:
    """Probabilities (n, L) and label sets, bool (n, L)."""

    proba: np.ndarray
    chosen: np.ndarray


def known_scores(
    regime: Regime, Y_nL: np.ndarray, states_nL: States, informed: Prediction, uninformed: Prediction
) -> dict[str, Any]:
    """The scores of the labels that were not revealed, with and without knowledge of the others."""
    truth = unrevealed(Y_nL, states_nL)
    return {
        "regime": str(regime),
        "rows": len(truth),
        "map": mean_row_precision(truth, informed.proba),
        "map_without": mean_row_precision(truth, uninformed.proba),
        "example_f1": example_f1(truth, informed.chosen),
        "example_f1_without": example_f1(truth, uninformed.chosen),
    }
