"""The most probable label set as a whole, instead of label by label.

Labels are not independent given the input: some sets occur much more often than their labels' probabilities would say
when multiplied. For a set S the joint model is

    log P(S | x) = sum_i log p_i(x) [i in S] + log(1 - p_i(x)) [i not in S] + weight * (log P(S) - log Q(S)) + const

with P(S) how often the set occurs among labelled rows, Q(S) how often it would if labels were independent, and P
smoothed towards Q by some pseudo-rows. Candidates are the sets that occur, and the row's most probable set if labels
were independent. Every set counts one row less than it has: so the rows that it was learned from are decided as new
ones are, and a set that occurs once says nothing.

>>> y = np.array([[1, 1, 0]] * 6 + [[0, 0, 1]] * 6)
>>> rule = WholeSet.learned(y, weight=1.0, pseudo_rows=1.0)
>>> rule.apply(np.array([[0.9, 0.4, 0.2], [0.1, 0.3, 0.45]])).astype(int).tolist()
[[1, 1, 0], [0, 0, 1]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logit

from lampnet.data.label_priors import label_priors
from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation.rules import is_number, is_whole

#: the most frequent sets that are kept
MOST_SETS = 2000
#: tried on held-out rows
WEIGHTS, PSEUDO_ROWS = (0.25, 0.5, 0.75, 1.0), (1.0, 10.0, 100.0, 1000.0)
#: held-out rows that weight and pseudo-rows are chosen on, and rows decided at once
CHOICE_ROWS, BLOCK_ROWS = 4000, 512
#: probabilities stay this far from 0 and 1, unless they are exactly that: then a label is known
MARGIN = 1e-4
#: the log-odds of a known label: nothing outweighs it
CERTAIN = np.float32(1e4)


@dataclass(frozen=True)
class WholeSet:
    """The most probable set of each row.

    sets         each the numbers of its labels, rising
    counts       how many rows have each, less one; rows with weights: what they count, less one of them
    priors       how often each label is true
    rows         how many rows there were
    weight       how much the joint frequency of sets counts
    pseudo_rows  towards sets of independent labels
    """

    sets: tuple[tuple[int, ...], ...]
    counts: tuple[float, ...]
    priors: tuple[float, ...]
    rows: int
    weight: float
    pseudo_rows: float

    @classmethod
    def learned(cls, y: np.ndarray, weight: float, pseudo_rows: float, row_n: np.ndarray | None = None) -> WholeSet:
        """Count the sets of complete rows (n, L); `row_n` says what each row counts."""
        bits = np.packbits(np.asarray(y) > 0, axis=1)
        packed, of_row, counts = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
        often = np.argsort(-counts, kind="stable")[:MOST_SETS]
        often = often[counts[often] > 1]
        left: np.ndarray = counts - 1
        if row_n is not None:
            left = np.bincount(of_row.ravel(), row_n) * (1 - 1 / counts)
        members = np.unpackbits(packed[often], axis=1, count=np.shape(y)[1])
        return cls(
            sets=tuple(tuple(np.flatnonzero(one).tolist()) for one in members),
            counts=tuple(left[often].tolist()),
            priors=tuple(label_priors(np.asarray(y, dtype=np.float64), np.float64, row_n).tolist()),
            rows=len(y),
            weight=weight,
            pseudo_rows=pseudo_rows,
        )

    @cached_property
    def members_mL(self) -> np.ndarray:
        """float32 (m, L): 1 where a set has a label."""
        members = np.zeros((len(self.sets), len(self.priors)), dtype=np.float32)
        for number, labels in enumerate(self.sets):
            members[number, list(labels)] = 1.0
        return members

    def bonus_m(self) -> np.ndarray:
        """How far each set's own frequency moves its log-probability, float32 (m,)."""
        priors = np.asarray(self.priors)
        independent = self.members_mL @ logit(priors) + np.log1p(-priors).sum()
        seen = np.logaddexp(np.log(np.asarray(self.counts, dtype=np.float64)), np.log(self.pseudo_rows) + independent)
        return np.asarray(self.weight * (seen - np.log(self.rows + self.pseudo_rows) - independent), dtype=np.float32)

    def bonus_of_others(self) -> float:
        """The same of a set that is not among them."""
        return float(self.weight * np.log(self.pseudo_rows / (self.rows + self.pseudo_rows)))

    def apply(self, proba: np.ndarray) -> np.ndarray:
        """Label sets, bool (n, L), of probabilities (n, L); a label whose probability is exactly 1 or 0 is known."""
        proba = np.asarray(proba)
        if proba.ndim != 2 or proba.shape[1] != len(self.priors):
            raise DataError(
                f"the probabilities have shape {proba.shape}, but the rule knows sets of {len(self.priors)} labels; "
                "use the rule of the same model"
            )
        chosen = np.zeros(proba.shape, dtype=bool)
        bonus, others = self.bonus_m(), self.bonus_of_others()
        for first in range(0, len(proba), BLOCK_ROWS):
            z = log_odds(proba[first : first + BLOCK_ROWS])
            likely = z > 0  # the most probable set of independent labels
            chosen[first : first + BLOCK_ROWS] = likely
            if not self.sets:
                continue
            scores = z @ self.members_mL.T + bonus
            best = scores.argmax(axis=1)
            seen = scores[np.arange(len(z)), best] >= np.where(likely, z, 0.0).sum(axis=1) + others
            chosen[first : first + BLOCK_ROWS][seen] = self.members_mL[best[seen]] > 0
        return chosen

    def to_json(self) -> dict[str, Any]:
        return {"rule": "whole_set"} | {
            name: [list(one) for one in value] if name == "sets" else list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name in self.__dataclass_fields__
        }

    def describe(self) -> str:
        return f"whole set (of {len(self.sets):,} seen, weight {self.weight:g})"

    @classmethod
    def from_json(cls, data: Any, n_labels: int | None = None) -> WholeSet:
        """Read what `to_json` wrote; anything else is refused."""
        if not isinstance(data, Mapping) or set(data) != {"rule", *cls.__dataclass_fields__}:
            raise ModelFolderError("the decision rule 'whole_set' must have its own fields and no others")
        sets, counts, priors = data["sets"], data["counts"], data["priors"]
        numbers = isinstance(priors, list) and all(is_number(p, 1e-12, 1 - 1e-12) for p in priors)
        if not numbers or not priors or (n_labels is not None and len(priors) != n_labels):
            raise ModelFolderError("the decision rule 'whole_set' must have one prior from 0 to 1 for each label")
        if not isinstance(sets, list) or len(sets) > MOST_SETS or not all(_is_set(one, len(priors)) for one in sets):
            raise ModelFolderError("the decision rule 'whole_set' must have sets of rising label numbers")
        listed = isinstance(counts, list) and len(counts) == len(sets)
        if not listed or not all(is_number(count, 1e-9, 1e15) for count in counts):
            raise ModelFolderError("the decision rule 'whole_set' must have a number above 0 for each set")
        amounts = is_number(data["weight"], 0, 100) and is_number(data["pseudo_rows"], 1e-6, 1e9)
        if not amounts or not is_whole(data["rows"], 1):
            raise ModelFolderError("the decision rule 'whole_set' has a weight or number of rows that cannot be")
        own = (float(data["weight"]), float(data["pseudo_rows"]))
        return cls(tuple(map(tuple, sets)), tuple(counts), tuple(map(float, priors)), data["rows"], *own)


def log_odds(proba: np.ndarray) -> np.ndarray:
    """float32; a known label's are beyond all others."""
    z = logit(np.clip(np.asarray(proba, dtype=np.float32), MARGIN, 1 - MARGIN))
    return np.asarray(np.where(proba <= 0, -CERTAIN, np.where(proba >= 1, CERTAIN, z)), dtype=np.float32)


def choose_whole_set(
    y: np.ndarray, proba: np.ndarray, fold_n: np.ndarray, row_n: np.ndarray | None = None
) -> tuple[float, WholeSet] | None:
    """The rule whose weight and pseudo-rows are best for subset accuracy, and its score on held-out rows.

    None where no set occurs twice. Rows with an unknown label are left out: their set is unknown too. The score is
    that of the best rule of the other folds in each fold. `row_n` says what each row counts.
    """
    complete = np.flatnonzero(~np.isnan(np.asarray(y, dtype=np.float64)).any(axis=1))
    if len(complete) < 2:
        return None
    first = WholeSet.learned(y[complete], WEIGHTS[0], PSEUDO_ROWS[0], None if row_n is None else row_n[complete])
    if not first.sets:
        return None
    rules = [replace(first, weight=w, pseudo_rows=a) for w in WEIGHTS for a in PSEUDO_ROWS]
    some = complete[np.unique(np.linspace(0, len(complete) - 1, min(len(complete), CHOICE_ROWS)).astype(np.int64))]
    right = np.stack([(rule.apply(proba[some]) == (y[some] > 0)).all(axis=1) for rule in rules])
    held_out = np.zeros(len(some), dtype=bool)
    counts = np.ones(len(some)) if row_n is None else row_n[some]
    for fold in np.unique(fold_n[some]):
        own = fold_n[some] == fold
        rest = ~own if not own.all() else own
        held_out[own] = right[int(np.average(right[:, rest], axis=1, weights=counts[rest]).argmax()), own]
    best = int(np.average(right, axis=1, weights=counts).argmax())
    return float(np.average(held_out, weights=counts)), rules[best]


def _is_set(labels: Any, n_labels: int) -> bool:
    whole = isinstance(labels, list) and all(is_whole(label, 0) for label in labels)
    return whole and all(a < b for a, b in pairwise([*labels, n_labels]))
