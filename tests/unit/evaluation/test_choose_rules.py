"""The chosen rules against the metrics they are chosen for."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit

from lampnet.data.splits import fold_numbers
from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation import choose_rules, rule_counts
from lampnet.evaluation.choose_rules import (
    PAPER_THRESHOLDS,
    Decisions,
    choose_best,
    choose_decisions,
    choose_paper_thresholds,
)
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rules import (
    ExactExpectedF1,
    ExpectedF1,
    PerLabelThreshold,
    Rule,
    Threshold,
    TopK,
    descending,
)


def test_the_27_thresholds() -> None:
    expected = [i / 100 for i in range(1, 11)] + [i / 100 for i in range(15, 100, 5)]
    assert len(PAPER_THRESHOLDS) == 27
    assert list(PAPER_THRESHOLDS) == expected


def sample(n: int, n_labels: int, seed: int, miscalibrated: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities whose zero point is off by an amount of each label's own."""
    rng = np.random.default_rng(seed)
    bias = np.random.default_rng(77).normal(-1.5, 1.0, n_labels)
    off = np.random.default_rng(78).normal(0, 1.5, n_labels) if miscalibrated else 0.0
    z = rng.normal(0, 2, size=(n, n_labels)) + bias
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    return y, 1 / (1 + np.exp(-(z + off)))


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_paper_thresholds_are_the_best_of_the_27(unknown: float) -> None:
    y, proba = sample(60, 9, seed=1)
    y[np.random.default_rng(0).random(y.shape) < unknown] = np.nan
    chosen = choose_paper_thresholds(y, proba)
    assert list(chosen) == list(METRICS)
    for name, metric in METRICS.items():
        scores = {value: metric(y, proba >= value) for value in PAPER_THRESHOLDS}
        assert chosen[name].value in PAPER_THRESHOLDS
        assert scores[chosen[name].value] == pytest.approx(max(scores.values()))
    if not unknown:
        assert choose_paper_thresholds(sparse.csr_matrix(y), proba) == chosen


def with_unknown(y: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    y = y.copy()
    y[np.random.default_rng(seed).random(y.shape) < share] = np.nan
    if share:
        y[3] = np.nan
    return y


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_counts_agree_with_the_metrics(unknown: float) -> None:
    """Families are counted at once and per fold; their scores must equal those of `lampnet.evaluation.metrics`."""
    y, proba = sample(50, 7, seed=2)
    y = with_unknown(y, unknown)
    fold_of_row = np.arange(50) % 5
    truth = rule_counts.Truth(y, proba, fold_of_row)
    thresholds = np.array([0.05, 0.3, 0.6, 0.97])
    by_threshold = rule_counts.count_thresholds(truth, thresholds)
    own = np.random.default_rng(0).uniform(0.1, 0.7, size=(3, 1, 7))
    order = descending(proba)
    sizes = np.stack([np.full(50, 2), ExpectedF1().counts(np.take_along_axis(proba, order, axis=1))])
    families: list[tuple[list[Rule], rule_counts.Counts]] = [
        ([Threshold(value) for value in thresholds.tolist()], by_threshold.plain),
        ([Threshold(value, min_labels=1) for value in thresholds.tolist()], by_threshold.at_least_one),
        ([TopK(2), ExpectedF1()], rule_counts.count_first(truth, order, sizes)),
        *(
            (
                [PerLabelThreshold(tuple(values[0].tolist()), min_labels=least) for values in own],
                rule_counts.count_label_thresholds(truth, np.repeat(own, 5, axis=1))[least],
            )
            for least in (0, 1)
        ),
    ]
    kept = fold_of_row != 2
    for rules, counts in families:
        for name, metric in METRICS.items():
            expected = [metric(y, rule.apply(proba)) for rule in rules]
            np.testing.assert_allclose(truth.scores(name, counts), expected, rtol=1e-5)
            expected = [metric(y[kept], rule.apply(proba[kept])) for rule in rules]
            np.testing.assert_allclose(truth.scores(name, counts, without=2), expected, rtol=1e-5)


def slow_choice(y: np.ndarray, proba: np.ndarray, seed: int) -> dict[str, Rule]:
    """`choose_best` in the order of its definition: every rule applied to all rows, every score by the metrics."""
    n, folds = len(y), max(1, min(5, len(y) // 2))
    fold_n = fold_numbers(n, folds, seed)
    parts = [np.flatnonzero(fold_n == k) for k in range(folds)]
    fine = sorted(choose_rules._FINE_THRESHOLDS, key=lambda value: abs(value - 0.5))
    families: list[list[Rule]] = [
        [Threshold(value) for value in fine],
        [Threshold(value, min_labels=1) for value in fine],
        [TopK(k) for k in range(1, min(choose_rules._MOST_TOP_K, y.shape[1]) + 1)],
        [ExpectedF1(power) for power in choose_rules._POWERS],
        [ExactExpectedF1(power) for power in choose_rules._EXACT_POWERS],
    ]

    def best_of(rules: list[Rule], metric: str, rows: np.ndarray) -> int:
        scores = [round(METRICS[metric](y[rows], rule.apply(proba[rows])), rule_counts.DECIMALS) for rule in rules]
        return int(np.argmax(scores))

    def label_values(weight: float, prior: float, rows: np.ndarray, overall: float) -> np.ndarray:
        values = []
        for label in range(y.shape[1]):
            known = rows[~np.isnan(y[rows, label])]
            true, p = y[known, label] == 1, proba[known, label].astype(np.float64)
            positives = (1 - weight) * true.sum() + weight * p.sum()
            f1 = []
            for value in fine:
                reached = proba[known, label] >= value
                hits = (1 - weight) * (true & reached).sum() + weight * p[reached].sum()
                f1.append(2 * hits / max(positives + reached.sum(), 1e-9))
            good = [value for value, score in zip(fine, f1, strict=True) if score >= max(f1) - 1e-6]
            own = min(good, key=lambda value: abs(logit(value) - logit(overall)))
            share = positives / max(positives + prior, 1e-9)
            values.append(expit(share * logit(own) + (1 - share) * logit(overall)))
        return np.array(values)

    chosen: dict[str, Rule] = {}
    everything = np.arange(n)
    for metric in METRICS:
        best_score = -np.inf
        for rules in families:
            winner = best_of(rules, metric, everything)
            sets = rules[winner].apply(proba)
            for own in parts if folds > 1 else []:
                rest = np.setdiff1d(everything, own)
                sets[own] = rules[best_of(rules, metric, rest)].apply(proba[own])
            held_out = round(METRICS[metric](y, sets), rule_counts.DECIMALS)
            if held_out > best_score + choose_rules._MARGIN_ROWS / n:
                best_score, chosen[metric] = held_out, rules[winner]
        if metric in ("micro_f1", "macro_f1", "example_f1") and folds > 1:
            rests = [np.setdiff1d(everything, own) for own in parts]
            overall = [fine[best_of(families[0], metric, rows)] for rows in (*rests, everything)]
            found = []
            for weight in choose_rules._EXPECTED_WEIGHTS:
                for prior in choose_rules._PRIOR_POSITIVES:
                    sets = np.zeros(y.shape, dtype=bool)
                    for own, rest, value in zip(parts, rests, overall[:-1], strict=True):
                        sets[own] = proba[own] >= label_values(weight, prior, rest, value)
                    filled = sets.copy()
                    for row in np.flatnonzero(~sets.any(axis=1)):
                        filled[row, proba[row].argmax()] = True
                    scores = [round(METRICS[metric](y, one), rule_counts.DECIMALS) for one in (sets, filled)]
                    found.append((*scores, weight, prior))
            plain, filled_best = (max(found, key=lambda entry: entry[least]) for least in (0, 1))
            least = int(filled_best[1] > plain[0] + choose_rules._MARGIN_ROWS / n)
            held_out, weight, prior = ((plain, filled_best)[least][i] for i in (least, 2, 3))
            if held_out > best_score + choose_rules._MARGIN_ROWS / n:
                values = label_values(weight, prior, everything, overall[-1])
                chosen[metric] = PerLabelThreshold(tuple(round(float(value), 6) for value in values), least)
    return chosen


@pytest.mark.parametrize(
    ("n", "n_labels", "unknown", "dtype"),
    [(60, 4, 0.0, np.float64), (40, 3, 0.2, np.float32), (7, 3, 0.0, np.float32), (3, 2, 0.0, np.float64)],
)
def test_the_choice_is_that_of_plain_loops(n: int, n_labels: int, unknown: float, dtype: type) -> None:
    y, proba = sample(n, n_labels, seed=n)
    y, proba = with_unknown(y, unknown), proba.astype(dtype)
    fast, slow = choose_best(y, proba, seed=1), slow_choice(y, proba, seed=1)
    for metric in METRICS:
        if isinstance(slow[metric], PerLabelThreshold):
            assert fast[metric].to_json()["min_labels"] == slow[metric].min_labels
            np.testing.assert_allclose(fast[metric].to_json()["values"], slow[metric].to_json()["values"], atol=2e-6)
        else:
            assert fast[metric] == slow[metric]


def test_best_rules_beat_the_paper_thresholds_on_new_rows() -> None:
    y, proba = sample(600, 12, seed=3)
    new_y, new_proba = sample(2000, 12, seed=4)
    paper, best = choose_paper_thresholds(y, proba), choose_best(y, proba)
    gain = {
        name: metric(new_y, best[name].apply(new_proba)) - metric(new_y, paper[name].apply(new_proba))
        for name, metric in METRICS.items()
    }
    assert min(gain.values()) > -0.01
    assert isinstance(best["macro_f1"], PerLabelThreshold)
    assert gain["macro_f1"] > 0.02


def test_per_label_thresholds_are_not_taken_for_noise() -> None:
    """With calibrated, uninformative rows no label deserves its own threshold, and none hurts on new rows."""
    y, proba = sample(40, 30, seed=5, miscalibrated=False)
    new_y, new_proba = sample(3000, 30, seed=6, miscalibrated=False)
    best = choose_best(y, proba)
    paper = choose_paper_thresholds(y, proba)
    for name, metric in METRICS.items():
        assert metric(new_y, best[name].apply(new_proba)) > metric(new_y, paper[name].apply(new_proba)) - 0.015


def test_rare_labels_stay_near_the_global_threshold() -> None:
    """Two labels whose own best threshold is 0.9, one of them seen once: the rare one is shrunk further."""
    y, proba = sample(200, 4, seed=12)
    y = np.hstack([y, np.zeros((200, 2))])
    y[:50, 4], y[0, 5] = 1, 1
    proba = np.hstack([proba, np.where(y[:, 4:] == 1, 0.93, 0.85)])
    truth = rule_counts.Truth(y, proba, np.arange(200) % 5)
    by_threshold = rule_counts.count_thresholds(truth, np.asarray(choose_rules._FINE_THRESHOLDS))
    thresholds = choose_rules.LabelThresholds(truth, by_threshold)
    overall = thresholds.overall("micro_f1", None)
    none, some, complete = thresholds.values("micro_f1", 0.0, [0.0, 5.0, 1e12])
    assert none[4] == none[5] > 0.85
    np.testing.assert_allclose(complete, overall, atol=1e-6)
    assert overall < some[5] < some[4] < none[4]


def test_the_choice_is_repeatable_and_works_with_few_rows() -> None:
    y, proba = sample(30, 5, seed=8)
    assert choose_best(y, proba, seed=3) == choose_best(y, proba, seed=3)
    for n in (1, 2, 3):
        assert set(choose_best(y[:n], proba[:n])) == set(METRICS)
    y[:, 0] = np.nan
    y[0] = np.nan
    assert set(choose_best(y, proba)) == set(METRICS)
    all_negative = choose_best(np.zeros((10, 3)), np.full((10, 3), 0.1))
    assert not all_negative["hamming_accuracy"].apply(np.full((2, 3), 0.1)).any()


def test_float32_probabilities_of_exactly_zero_and_one() -> None:
    y, proba = sample(40, 6, seed=9)
    hard = (proba > 0.5).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules = choose_best(y, hard)
    assert METRICS["micro_f1"](y, rules["micro_f1"].apply(hard)) > 0.3


def test_decisions_there_and_back() -> None:
    decisions = choose_decisions(*sample(40, 6, seed=10))
    assert Decisions.from_json(json.loads(json.dumps(decisions.to_json())), n_labels=6) == decisions


def test_damaged_decisions_are_named() -> None:
    good = choose_decisions(*sample(20, 3, seed=11)).to_json()
    for damage in (
        [],
        {"paper": good["paper"]},
        good | {"best": {}},
        good | {"paper": good["paper"] | {"micro_f1": TopK(1).to_json()}},
        good | {"best": good["best"] | {"micro_f1": None}},
    ):
        with pytest.raises(ModelFolderError):
            Decisions.from_json(damage)


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="same"):
        choose_best(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(DataError, match="no label"):
        choose_best(np.full((2, 3), np.nan), np.zeros((2, 3)))
