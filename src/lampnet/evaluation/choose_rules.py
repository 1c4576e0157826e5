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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.splits import fold_numbers
from lampnet.data.weights import Weights, rows_of
from lampnet.errors import ModelFolderError
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rule_counts import (
    Counts,
    ThresholdCounts,
    Truth,
    count_first,
    count_label_thresholds,
    count_thresholds,
)
from lampnet.evaluation.rules import (
    ExactExpectedF1,
    ExpectedF1,
    PerLabelThreshold,
    Rule,
    Threshold,
    TopK,
    descending,
    rule_from_json,
)
from lampnet.evaluation.under_hierarchy import UnderHierarchy, plain_rule
from lampnet.evaluation.whole_set import WholeSet, choose_whole_set

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
#: labels that a row gets at least under per-label thresholds
_LEAST_LABELS = (0, 1)
#: parts of the validation rows, each scored by what was chosen on the others
FOLDS = 5
#: what stands in a model's JSON for the rule `whole_set`, which is stored once
SHARED = {"rule": "whole_set"}
#: A more complex family must win on held-out rows by at least what this many rows can change: with few validation
#: rows the simplest rule is the safest.
_MARGIN_ROWS = 2.0


@dataclass(frozen=True)
class Decisions:
    """The rules stored with a model.

    paper      for each metric the best of the paper's thresholds
    best       for each metric the best rule of all families
    whole_set  the most probable set as a whole; None where no label set occurs twice
    """

    paper: dict[str, Threshold]
    best: dict[str, Rule]
    whole_set: WholeSet | None = None

    def to_json(self) -> dict[str, Any]:
        parts: dict[str, Mapping[str, Rule]] = {"paper": self.paper, "best": self.best}
        written: dict[str, Any] = {
            part: {m: SHARED if plain_rule(rule) is self.whole_set else rule.to_json() for m, rule in rules.items()}
            for part, rules in parts.items()
        }
        return written if self.whole_set is None else written | {"whole_set": self.whole_set.to_json()}

    @classmethod
    def from_json(cls, data: Any, n_labels: int | None = None) -> Decisions:
        """Read what `to_json` wrote; anything else is refused."""
        if not isinstance(data, Mapping) or set(data) - {"whole_set"} != {"paper", "best"}:
            raise ModelFolderError("decisions must be a JSON object with the parts 'paper' and 'best'")
        whole = WholeSet.from_json(data["whole_set"], n_labels) if "whole_set" in data else None
        parts: dict[str, dict[str, Rule]] = {}
        for part, rules in data.items():
            if part == "whole_set":
                continue
            if not isinstance(rules, Mapping) or set(rules) != set(METRICS):
                raise ModelFolderError(f"decisions[{part!r}] must have one rule for each of {', '.join(METRICS)}")
            parts[part] = {
                m: whole if whole is not None and rules[m] == SHARED else rule_from_json(rules[m], n_labels)
                for m in METRICS
            }
        paper: dict[str, Threshold] = {}
        for metric, rule in parts["paper"].items():
            if not isinstance(rule, Threshold):
                raise ModelFolderError(f"decisions['paper'][{metric!r}] must be a threshold, not {rule.describe()}")
            paper[metric] = rule
        return cls(paper=paper, best=parts["best"], whole_set=whole)

    def under(self, hierarchy: LabelHierarchy | None) -> Decisions:
        """The same rules, with the parents of the labels that they choose; without a hierarchy, the rules alone.

        Thresholds for all labels give no child alone where no child is more probable than its parents.
        """
        plain = {metric: plain_rule(rule) for metric, rule in self.best.items()}
        if hierarchy is None:
            return replace(self, best=plain)
        return replace(self, best={metric: UnderHierarchy(rule, hierarchy) for metric, rule in plain.items()})


def choose_decisions(
    y: Any,
    proba: np.ndarray,
    seed: int = 0,
    weights: Weights | None = None,
    hierarchy: LabelHierarchy | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> Decisions:
    """Both choices from validation rows: y (n, L), NaN where unknown, and proba (n, L).

    weights    what rows and labels count in the metrics
    hierarchy  no label is chosen without its parents; no probability is above that of a parent
    report     called now and then with the share that is done
    """
    y = np.asarray(y)
    whole = choose_whole_set(y, proba, fold_numbers(len(proba), FOLDS, seed), rows_of(weights))
    best = choose_best(y, proba, seed=seed, whole_set=whole, weights=weights, report=report)
    if hierarchy is not None:
        best = {metric: raised_where_better(rule, metric, y, proba, hierarchy) for metric, rule in best.items()}
    made = Decisions(choose_paper_thresholds(y, proba, weights), best, None if whole is None else whole[1])
    return made if hierarchy is None else made.under(hierarchy)


def raised_where_better(rule: Rule, metric: str, y: np.ndarray, proba: np.ndarray, hierarchy: LabelHierarchy) -> Rule:
    """Thresholds per label, those of children raised to their parents' where that is better than adding parents."""
    if not isinstance(rule, PerLabelThreshold):
        return rule
    tried = (rule, replace(rule, values=hierarchy.raised(rule.values)))
    return max(tried, key=lambda one: float(METRICS[metric](y, UnderHierarchy(one, hierarchy).apply(proba))))


def choose_paper_thresholds(y: Any, proba: np.ndarray, weights: Weights | None = None) -> dict[str, Threshold]:
    """For each metric the best of `PAPER_THRESHOLDS` on these rows; ties go to the one nearest to 0.5."""
    truth = Truth(y, proba, np.zeros(len(proba), dtype=np.int64), weights)
    rules, counts = _from_the_middle(PAPER_THRESHOLDS, count_thresholds(truth, np.asarray(PAPER_THRESHOLDS)).plain)
    return {metric: Threshold(rules[int(truth.scores(metric, counts).argmax())]) for metric in METRICS}


def choose_best(
    y: Any,
    proba: np.ndarray,
    seed: int = 0,
    folds: int = FOLDS,
    whole_set: tuple[float, WholeSet] | None = None,
    weights: Weights | None = None,
    fold_n: np.ndarray | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> dict[str, Rule]:
    """For each metric the rule of the family that does best on held-out validation rows.

    whole_set  what `choose_whole_set` found; it competes for subset accuracy
    weights    what rows and labels count
    fold_n     the fold of each row; drawn by default
    report     called with the share that is done
    """
    n = len(proba)
    if fold_n is None:
        fold_n = fold_numbers(n, max(1, min(folds, n // 2)), seed)
    truth = Truth(y, proba, fold_n, weights)
    by_threshold = count_thresholds(truth, np.asarray(_FINE_THRESHOLDS))
    report(0.2)
    families, per_label = _families(truth, by_threshold), LabelThresholds(truth, by_threshold)
    chosen: dict[str, Rule] = {}
    for number, metric in enumerate(METRICS):
        report(0.5 + 0.5 * number / len(METRICS))
        best_score, best_rule = -np.inf, None
        for rules, counts in families:
            held_out, winner = _cross_fit(truth, metric, counts)
            if held_out > best_score + per_label.margin:
                best_score, best_rule = held_out, rules[winner]
        if metric in ("micro_f1", "macro_f1", "example_f1") and truth.folds > 1:
            held_out, rule = per_label.cross_fit(metric)
            if held_out > best_score + per_label.margin:
                best_rule = rule
        if metric == "subset_accuracy" and whole_set is not None and whole_set[0] > best_score + per_label.margin:
            best_rule = whole_set[1]
        assert best_rule is not None
        chosen[metric] = best_rule
    return chosen


def _families(truth: Truth, by_threshold: ThresholdCounts) -> list[tuple[list[Rule], Counts]]:
    """The rules with at most one parameter, family by family, and their counts."""
    order = descending(truth.proba)
    ranked = np.take_along_axis(truth.proba, order, axis=1)
    values, plain = _from_the_middle(_FINE_THRESHOLDS, by_threshold.plain)
    _, at_least_one = _from_the_middle(_FINE_THRESHOLDS, by_threshold.at_least_one)
    top = np.arange(1, min(_MOST_TOP_K, truth.n_labels) + 1)
    plug_in, exact = [ExpectedF1(power) for power in _POWERS], [ExactExpectedF1(power) for power in _EXACT_POWERS]
    sizes = [np.stack([rule.counts(ranked) for rule in rules]) for rules in (plug_in, exact)]
    return [
        ([Threshold(value) for value in values], plain),
        ([Threshold(value, min_labels=1) for value in values], at_least_one),
        ([TopK(int(k)) for k in top], count_first(truth, order, np.repeat(top[:, None], truth.n, axis=1))),
        ([*plug_in], count_first(truth, order, sizes[0])),
        ([*exact], count_first(truth, order, sizes[1])),
    ]


def _cross_fit(truth: Truth, metric: str, counts: Counts) -> tuple[float, int]:
    """Held-out score of "take the best of the candidates", and the best of them on all rows."""
    overall = truth.scores(metric, counts)
    if truth.folds == 1:
        return float(overall.max()), int(overall.argmax())
    winners = [int(truth.scores(metric, counts, without=fold).argmax()) for fold in range(truth.folds)]
    return truth.held_out_score(metric, counts, winners), int(overall.argmax())


class LabelThresholds:
    """One threshold per label, shrunk so that rare labels do not follow noise.

    A label's own threshold maximises its F1, computed from a mixture of the observed counts and those expected
    under the model's probabilities. It is then shrunk towards the global threshold (on the log-odds scale), the
    more so the fewer positives the label has.
    """

    def __init__(self, truth: Truth, by_threshold: ThresholdCounts) -> None:
        """`by_threshold` counts `_FINE_THRESHOLDS`."""
        self.truth = truth
        self.grid, self.counts = _from_the_middle(_FINE_THRESHOLDS, by_threshold.plain)
        _, expected_hits = _from_the_middle(_FINE_THRESHOLDS, by_threshold.expected)
        per_fold = (self.counts.hits, expected_hits, self.counts.given, truth.label_true, truth.expected_true())
        self._counts = [(counts.sum(axis=-2), counts) for counts in per_fold]  # over all rows, and per fold
        self._overall: dict[tuple[str, int | None], float] = {}
        self.margin = _MARGIN_ROWS / max(1.0, truth.total)

    def overall(self, metric: str, without: int | None) -> float:
        """The best threshold for all labels together."""
        if (metric, without) not in self._overall:
            best = int(self.truth.scores(metric, self.counts, without).argmax())
            self._overall[metric, without] = self.grid[best]
        return self._overall[metric, without]

    def values(
        self, metric: str, expected_weight: float, priors: Iterable[float], without: int | None = None
    ) -> np.ndarray:
        """Thresholds (priors, L) fitted on all rows, or on all but one fold."""
        grid, overall = np.asarray(self.grid), self.overall(metric, without)
        hits, expected_hits, given, true, expected_true = (
            whole if without is None else whole - per_fold[..., without, :] for whole, per_fold in self._counts
        )
        positives = (1 - expected_weight) * true + expected_weight * expected_true
        mixed_hits = (1 - expected_weight) * hits + expected_weight * expected_hits
        f1 = 2 * mixed_hits / np.maximum(positives + given, 1e-9)  # (T, L)
        # Among equally good thresholds the one nearest to the global one.
        distance = np.abs(logit(grid) - logit(overall))[:, None]
        own = grid[np.argmin(np.where(f1 >= f1.max(axis=0) - 1e-6, distance, np.inf), axis=0)]
        prior = np.asarray(list(priors))[:, None]
        weight = positives / np.maximum(positives + prior, 1e-9)
        return np.asarray(expit(weight * logit(own) + (1 - weight) * logit(overall)))

    def cross_fit(self, metric: str) -> tuple[float, PerLabelThreshold]:
        """The best amount of shrinkage by held-out score, that score, and the rule fitted on all rows.

        The rule gives every row a label where that has the better score.
        """
        truth = self.truth
        fitted = [
            [self.values(metric, weight, _PRIOR_POSITIVES, without=fold) for fold in range(truth.folds)]
            for weight in _EXPECTED_WEIGHTS
        ]
        values = np.asarray(fitted).swapaxes(1, 2).reshape(-1, truth.folds, truth.n_labels)
        held_out = np.stack([truth.scores(metric, counts) for counts in count_label_thresholds(truth, values)])
        # With at least one label only where that is better by as much as between families.
        least = max(n for n in _LEAST_LABELS if n == 0 or held_out[n].max() > held_out[0].max() + self.margin)
        best_weight, best_prior = divmod(int(held_out[least].argmax()), len(_PRIOR_POSITIVES))
        best = self.values(metric, _EXPECTED_WEIGHTS[best_weight], _PRIOR_POSITIVES)[best_prior]
        rule = PerLabelThreshold(tuple(round(float(v), 6) for v in best), min_labels=least)
        return float(held_out[least].max()), rule


def _from_the_middle(thresholds: Sequence[float], counts: Any) -> tuple[list[float], Any]:
    """Thresholds and their counts, nearest to 0.5 first, so that ties go to the least extreme."""
    order = sorted(range(len(thresholds)), key=lambda i: abs(thresholds[i] - 0.5))
    return [thresholds[i] for i in order], counts.take(order) if isinstance(counts, Counts) else counts[order]
