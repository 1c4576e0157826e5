"""Choosing the rules that turn probabilities into label sets: on validation rows, one for each metric.

`choose_paper_thresholds` follows the paper: the best of 27 global thresholds. `choose_best` also tries every family
of `lampnet.evaluation.rules`. A family with many parameters (one threshold per label) always looks best on the rows
it was fitted to, so families are compared by cross-fitting inside the validation rows: fitted on four fifths,
applied to the other fifth, and the held-out label sets of all five folds scored together.

>>> y = np.array([[1, 0], [1, 0], [0, 1], [1, 1]] * 5)
>>> proba = np.where(y == 1, 0.30, 0.05)
>>> choose_paper_thresholds(y, proba)["micro_f1"]
Threshold(value=0.3, min_labels=0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from lampnet.data.splits import fold_numbers
from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rules import (
    ExactExpectedF1,
    ExpectedF1,
    PerLabelThreshold,
    Rule,
    Threshold,
    TopK,
    descending,
    first_of_order,
    rule_from_json,
)

#: The 27 thresholds of the paper: 0.01 to 0.10 by 0.01, 0.15 to 0.95 by 0.05.
PAPER_THRESHOLDS: tuple[float, ...] = tuple(
    [round(0.01 * i, 2) for i in range(1, 11)] + [round(0.05 * i, 2) for i in range(3, 20)]
)
#: `choose_best` tries these and the steps between them.
_FINE_THRESHOLDS = tuple(
    sorted({0.002, 0.005, 0.98, *PAPER_THRESHOLDS, *(round(0.025 * i, 3) for i in range(5, 38)), 0.015, 0.025, 0.035})
)
_POWERS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_EXACT_POWERS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
_MOST_TOP_K = 30
#: Per-label thresholds: the weight of expected counts against observed ones, and the number of positives at which
#: a label's own threshold weighs as much as the global one.
_EXPECTED_WEIGHTS = (0.0, 0.5, 1.0)
_PRIOR_POSITIVES = (0.0, 2.0, 6.0, 20.0, 60.0)
#: A more complex family must win on held-out rows by at least what this many rows can change: with few validation
#: rows the simplest rule is the safest.
_MARGIN_ROWS = 2.0


@dataclass(frozen=True)
class Decisions:
    """The rules stored with a model.

    paper  for each metric the best of the paper's thresholds
    best   for each metric the best rule of all families
    """

    paper: dict[str, Threshold]
    best: dict[str, Rule]

    def to_json(self) -> dict[str, Any]:
        parts: dict[str, Mapping[str, Rule]] = {"paper": self.paper, "best": self.best}
        return {part: {metric: rule.to_json() for metric, rule in rules.items()} for part, rules in parts.items()}

    @classmethod
    def from_json(cls, data: Any, n_labels: int | None = None) -> Decisions:
        """Read what `to_json` wrote; anything else is refused."""
        if not isinstance(data, Mapping) or set(data) != {"paper", "best"}:
            raise ModelFolderError("decisions must be a JSON object with the parts 'paper' and 'best'")
        parts: dict[str, dict[str, Rule]] = {}
        for part, rules in data.items():
            if not isinstance(rules, Mapping) or set(rules) != set(METRICS):
                raise ModelFolderError(f"decisions[{part!r}] must have one rule for each of {', '.join(METRICS)}")
            parts[part] = {metric: rule_from_json(rules[metric], n_labels) for metric in METRICS}
        paper: dict[str, Threshold] = {}
        for metric, rule in parts["paper"].items():
            if not isinstance(rule, Threshold):
                raise ModelFolderError(f"decisions['paper'][{metric!r}] must be a threshold, not {rule.describe()}")
            paper[metric] = rule
        return cls(paper=paper, best=parts["best"])


def choose_decisions(y: Any, proba: np.ndarray, seed: int = 0) -> Decisions:
    """Both choices from validation rows: y (n, L), NaN where unknown, and proba (n, L)."""
    return Decisions(paper=choose_paper_thresholds(y, proba), best=choose_best(y, proba, seed=seed))


def choose_paper_thresholds(y: Any, proba: np.ndarray) -> dict[str, Threshold]:
    """For each metric the best of `PAPER_THRESHOLDS` on these rows; ties go to the one nearest to 0.5."""
    tally = _Tally(y, proba, np.zeros(len(proba), dtype=np.int64))
    rules = [Threshold(value) for value in _from_the_middle(PAPER_THRESHOLDS)]
    for rule in rules:
        tally.add(rule.apply(tally.proba))
    return {metric: rules[int(np.argmax(tally.scores(metric, 0, len(rules))))] for metric in METRICS}


def choose_best(y: Any, proba: np.ndarray, seed: int = 0, folds: int = 5) -> dict[str, Rule]:
    """For each metric the rule of the family that does best on held-out validation rows."""
    n = len(proba)
    folds = max(1, min(folds, n // 2))
    tally = _Tally(y, proba, fold_numbers(n, folds, seed))
    families, per_label = _count_families(tally), _LabelThresholds(tally)
    chosen: dict[str, Rule] = {}
    margin = _MARGIN_ROWS / max(1, n)
    for metric in METRICS:
        best_score, best_rule = -np.inf, None
        for rules, start in families:
            held_out, winner = _cross_fit(tally, metric, start, start + len(rules))
            if held_out > best_score + margin:
                best_score, best_rule = held_out, rules[winner]
        if metric in ("micro_f1", "macro_f1", "example_f1") and folds > 1:
            held_out, rule = per_label.cross_fit(metric)
            if held_out > best_score + margin:
                best_rule = rule
        assert best_rule is not None
        chosen[metric] = best_rule
    return chosen


class _Tally:
    """Counts of candidate label sets, kept per fold, so that any choice of folds is scored by sums.

    Axes: C candidates, K folds, L labels.
    """

    def __init__(self, y: Any, proba: np.ndarray, fold_of_row: np.ndarray) -> None:
        y = np.asarray(y.toarray() if sparse.issparse(y) else y, dtype=np.float32)
        self.proba = np.asarray(proba)
        if y.shape != self.proba.shape or y.ndim != 2 or not y.size:
            raise DataError(
                f"labels {y.shape} and probabilities {self.proba.shape} must have the same shape, not empty"
            )
        self.known = ~np.isnan(y)
        if not self.known.any():
            raise DataError("no label of the validation rows is known, so no rule can be chosen; give labelled rows")
        self.true = y == 1
        self.fold_of_row = fold_of_row
        self.folds = int(fold_of_row.max()) + 1
        self.in_fold = (np.arange(self.folds)[:, None] == fold_of_row).astype(np.float32)  # (K, n)
        self._ones = np.ones(y.shape[1], dtype=np.float32)
        self._row_true = self.true.astype(np.float32) @ self._ones
        self._row_counts = self.known.any(axis=1)
        self.rows = self.in_fold @ self._row_counts.astype(np.float32)  # (K,)
        self.known_entries = self.in_fold @ (self.known.astype(np.float32) @ self._ones)
        self.label_true = self.in_fold @ self.true.astype(np.float32)  # (K, L)
        self.label_known = self.known.any(axis=0)
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._stacked: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._summed: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, chosen: np.ndarray) -> None:
        """Count the label sets `chosen`, bool (n, L)."""
        given = (chosen & self.known).astype(np.float32)
        hits = given * self.true
        row_hits, row_given = hits @ self._ones, given @ self._ones
        size = self._row_true + row_given
        exact = (row_hits == self._row_true) & (row_hits == row_given) & self._row_counts
        f1 = np.divide(2 * row_hits, size, out=np.zeros_like(size), where=size > 0)
        by_row = np.stack([exact.astype(np.float64), size - 2 * row_hits, f1, row_hits, size])  # (5, n)
        self._parts.append((by_row @ self.in_fold.T, self.in_fold @ hits, self.in_fold @ given))

    def sums(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(C, 5, K) row sums, (C, K, L) hits and (C, K, L) predicted of the candidates start..stop."""
        if (start, stop) not in self._stacked:
            rows, hits, given = zip(*self._parts[start:stop], strict=True)
            self._stacked[start, stop] = np.stack(rows), np.stack(hits), np.stack(given)
        return self._stacked[start, stop]

    def scores(self, metric: str, start: int, stop: int, without: int | None = None) -> np.ndarray:
        """The metric of each candidate, (C,), over all rows, or over all but one fold."""
        rows, hits, given = self.sums(start, stop)
        use = np.arange(self.folds) != (-1 if without is None else without)
        row_sums = rows[:, :, use].sum(axis=2)
        if metric != "macro_f1":
            return self.score(metric, row_sums, hits[:, 0], given[:, 0], without)
        if without is None:
            return self.score(metric, row_sums, hits.sum(axis=1), given.sum(axis=1), without)
        whole = self._whole(start, stop)
        return self.score(metric, row_sums, whole[0] - hits[:, without], whole[1] - given[:, without], without)

    def _whole(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(C, L) hits and predicted over all folds."""
        if (start, stop) not in self._summed:
            _, hits, given = self.sums(start, stop)
            self._summed[start, stop] = hits.sum(axis=1), given.sum(axis=1)
        return self._summed[start, stop]

    def score(
        self, metric: str, rows: np.ndarray, hits: np.ndarray, given: np.ndarray, without: int | None = None
    ) -> np.ndarray:
        """The metric from (C, 5) row sums and (C, L) label counts; equal to `lampnet.evaluation.metrics`."""
        use = np.arange(self.folds) != (-1 if without is None else without)
        exact, wrong, f1, all_hits, size = rows.T
        if metric == "subset_accuracy":
            return np.asarray(exact / max(1.0, self.rows[use].sum()))
        if metric == "hamming_accuracy":
            return np.asarray(1 - wrong / max(1.0, self.known_entries[use].sum()))
        if metric == "example_f1":
            return np.asarray(f1 / max(1.0, self.rows[use].sum()))
        if metric == "micro_f1":
            return np.asarray(2 * all_hits / np.maximum(size, 1))
        label_f1 = 2 * hits / np.maximum(given + self.label_true[use].sum(axis=0), 1)
        return np.asarray(label_f1[:, self.label_known].mean(axis=1))


def _count_families(tally: _Tally) -> list[tuple[list[Rule], int]]:
    """Count every rule with at most one parameter; (rules, index of the first candidate) for each family."""
    order = descending(tally.proba)
    ranked = np.take_along_axis(tally.proba, order, axis=1)
    n, n_labels = order.shape

    def count_rule(rule: ExpectedF1 | ExactExpectedF1) -> np.ndarray:
        return first_of_order(order, rule.counts(ranked))

    at_most_one = first_of_order(order, np.ones(n, dtype=np.int64))
    families: list[tuple[list[Rule], int]] = []

    def family(rules: list[Rule], label_sets: Callable[[Any], np.ndarray]) -> None:
        families.append((rules, len(tally)))
        for rule in rules:
            tally.add(label_sets(rule))

    def at_least_one(rule: Threshold) -> np.ndarray:
        chosen: np.ndarray = tally.proba >= rule.value
        chosen |= at_most_one & (chosen.sum(axis=1) == 0)[:, None]
        return chosen

    # The plain thresholds come first: `_LabelThresholds` reads their counts.
    family([Threshold(value) for value in _from_the_middle(_FINE_THRESHOLDS)], lambda rule: tally.proba >= rule.value)
    family([Threshold(value, min_labels=1) for value in _from_the_middle(_FINE_THRESHOLDS)], at_least_one)
    top = range(1, min(_MOST_TOP_K, n_labels) + 1)
    family([TopK(k) for k in top], lambda rule: first_of_order(order, np.full(n, rule.k)))
    family([ExpectedF1(power) for power in _POWERS], count_rule)
    family([ExactExpectedF1(power) for power in _EXACT_POWERS], count_rule)
    return families


def _cross_fit(tally: _Tally, metric: str, start: int, stop: int) -> tuple[float, int]:
    """Held-out score of "take the best of the candidates start..stop", and the best of them on all rows."""
    overall = tally.scores(metric, start, stop)
    if tally.folds == 1:
        return float(overall.max()), int(overall.argmax())
    rows, hits, given = tally.sums(start, stop)
    winners = [int(tally.scores(metric, start, stop, without=fold).argmax()) for fold in range(tally.folds)]
    folds = np.arange(tally.folds)
    held_out = tally.score(
        metric,
        rows[winners, :, folds].sum(axis=0)[None],
        hits[winners, folds].sum(axis=0)[None],
        given[winners, folds].sum(axis=0)[None],
    )
    return float(held_out[0]), int(overall.argmax())


class _LabelThresholds:
    """One threshold per label, shrunk so that rare labels do not follow noise.

    A label's own threshold maximises its F1, computed from a mixture of the observed counts and those expected
    under the model's probabilities. It is then shrunk towards the global threshold (on the log-odds scale), the
    more so the fewer positives the label has.
    """

    def __init__(self, tally: _Tally) -> None:
        self.tally = tally
        self.grid = np.asarray(_from_the_middle(_FINE_THRESHOLDS))
        _, hits, given = tally.sums(0, len(self.grid))  # (T, K, L)
        proba = np.where(tally.known, tally.proba, 0.0).astype(np.float32)
        expected_hits = np.stack([tally.in_fold @ (proba * (tally.proba >= value)) for value in self.grid])
        expected_true = tally.in_fold @ proba  # (K, L)
        per_fold = (hits, expected_hits, given, tally.label_true, expected_true)
        self._counts = [(counts.sum(axis=-2), counts) for counts in per_fold]  # over all rows, and per fold

    def values(
        self, metric: str, expected_weight: float, priors: Iterable[float], without: int | None = None
    ) -> np.ndarray:
        """Thresholds (priors, L) fitted on all rows, or on all but one fold."""
        overall = self.grid[int(self.tally.scores(metric, 0, len(self.grid), without).argmax())]
        hits, expected_hits, given, true, expected_true = (
            whole if without is None else whole - per_fold[..., without, :] for whole, per_fold in self._counts
        )
        positives = (1 - expected_weight) * true + expected_weight * expected_true
        mixed_hits = (1 - expected_weight) * hits + expected_weight * expected_hits
        f1 = 2 * mixed_hits / np.maximum(positives + given, 1e-9)  # (T, L)
        # Among equally good thresholds the one nearest to the global one.
        distance = np.abs(logit(self.grid) - logit(overall))[:, None]
        own = self.grid[np.argmin(np.where(f1 >= f1.max(axis=0) - 1e-6, distance, np.inf), axis=0)]
        prior = np.asarray(list(priors))[:, None]
        weight = positives / np.maximum(positives + prior, 1e-9)
        return np.asarray(expit(weight * logit(own) + (1 - weight) * logit(overall)))

    def cross_fit(self, metric: str) -> tuple[float, PerLabelThreshold]:
        """The best amount of shrinkage by held-out score, that score, and the rule fitted on all rows."""
        tally = self.tally
        start = len(tally)
        for weight in _EXPECTED_WEIGHTS:
            fitted = np.stack([self.values(metric, weight, _PRIOR_POSITIVES, without=k) for k in range(tally.folds)])
            for i in range(len(_PRIOR_POSITIVES)):
                tally.add(tally.proba >= fitted[tally.fold_of_row, i])
        held_out = tally.scores(metric, start, len(tally))
        best_weight, best_prior = divmod(int(held_out.argmax()), len(_PRIOR_POSITIVES))
        values = self.values(metric, _EXPECTED_WEIGHTS[best_weight], _PRIOR_POSITIVES)[best_prior]
        return float(held_out.max()), PerLabelThreshold(tuple(round(float(v), 6) for v in values))


def _from_the_middle(thresholds: Iterable[float]) -> list[float]:
    """Nearest to 0.5 first, so that ties go to the least extreme."""
    return sorted(thresholds, key=lambda value: abs(value - 0.5))
