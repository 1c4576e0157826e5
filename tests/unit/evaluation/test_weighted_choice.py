"""Decisions, calibration and metrics of rows that count more than once, and of labels that count more than others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.data.weights import Weights
from lampnet.evaluation import choose_rules
from lampnet.evaluation.calibration import fit_calibration
from lampnet.evaluation.choose_rules import choose_best, choose_decisions, choose_paper_thresholds
from lampnet.evaluation.intervals import weighted_score
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rule_counts import Truth, count_first, count_label_thresholds, count_thresholds
from lampnet.evaluation.rules import PerLabelThreshold, Threshold, TopK, descending


def sample(seed: int, n: int = 60, L: int = 5, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities, and whole weights of at least 1."""
    random = np.random.default_rng(seed)
    z = random.normal(-0.5, 1.5, size=(n, L))
    y = (random.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    y[random.random(y.shape) < unknown] = np.nan
    return y, 1 / (1 + np.exp(-z - random.normal(0, 1, L))), random.integers(1, 5, n)


def of_rows(times: np.ndarray, L: int = 5) -> Weights:
    return Weights(times.astype(float), np.ones(L), np.ones(L))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), unknown=st.sampled_from([0.0, 0.2]))
def test_rules_are_chosen_as_on_repeated_rows(seed: int, unknown: float) -> None:
    y, proba, times = sample(seed, unknown=unknown)
    twice = np.repeat(y, times, 0), np.repeat(proba, times, 0)
    assert choose_paper_thresholds(y, proba, of_rows(times)) == choose_paper_thresholds(*twice)
    fold_n = np.arange(len(y)) % 5
    counted = choose_best(y, proba, weights=of_rows(times), fold_n=fold_n)
    assert counted == choose_best(*twice, fold_n=np.repeat(fold_n, times))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), unknown=st.sampled_from([0.0, 0.2]))
def test_metrics_are_those_of_repeated_rows(seed: int, unknown: float) -> None:
    y, proba, times = sample(seed, unknown=unknown)
    chosen = proba > 0.4
    for name, metric in METRICS.items():
        repeated = metric(np.repeat(y, times, 0), np.repeat(chosen, times, 0))
        assert weighted_score(name, y, chosen, times.astype(float)) == pytest.approx(repeated)


@pytest.mark.parametrize("pull", [np.inf, 10.0])
def test_calibration_is_that_of_repeated_rows(pull: float) -> None:
    y, proba, times = sample(4, n=300, unknown=0.1)
    logits = np.log(proba / (1 - proba))
    counted = fit_calibration(logits, y, pull, of_rows(times))
    repeated = fit_calibration(np.repeat(logits, times, 0), np.repeat(y, times, 0), pull)
    assert np.allclose(counted.apply(logits), repeated.apply(logits), atol=1e-3)
    assert not np.allclose(counted.apply(logits), fit_calibration(logits, y, pull).apply(logits), atol=1e-3)


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_counts_of_whole_families_are_the_weighted_metrics(unknown: float) -> None:
    """Against the slow way: apply each rule, and score its label sets."""
    y, proba, _ = sample(9, unknown=unknown)
    random = np.random.default_rng(0)
    weights = Weights(random.gamma(1.0, 1.0, len(y)), random.gamma(1.0, 1.0, 5), random.gamma(1.0, 1.0, 5))
    truth = Truth(y, proba, np.arange(len(y)) % 4, weights)
    values = np.array([0.1, 0.4, 0.8])
    by_threshold = count_thresholds(truth, values)
    order, own = descending(proba), random.random((3, 1, 5))
    families = [
        ([Threshold(value) for value in values], by_threshold.plain),
        ([Threshold(value, min_labels=1) for value in values], by_threshold.at_least_one),
        ([TopK(k) for k in (1, 3)], count_first(truth, order, np.repeat([[1], [3]], len(y), axis=1))),
        *(
            (
                [PerLabelThreshold(tuple(value[0]), min_labels=least) for value in own],
                count_label_thresholds(truth, np.repeat(own, 4, axis=1))[least],
            )
            for least in (0, 1)
        ),
    ]
    for rules, counts in families:
        for metric in METRICS:
            slow = [weighted_score(metric, y, rule.apply(proba), weights.row_n, weights) for rule in rules]
            assert truth.scores(metric, counts) == pytest.approx(slow, abs=1e-8), metric


def test_label_weights_in_the_metrics_by_hand() -> None:
    truth = np.array([[1.0, 1.0], [0.0, 1.0]])
    chosen = np.array([[1, 0], [0, 1]], dtype=bool)
    weights = Weights(np.ones(2), np.array([3.0, 1.0]), np.array([3.0, 1.0]))
    found = {m: weighted_score(m, truth, chosen, weights.row_n, weights) for m in METRICS}
    assert found["hamming_accuracy"] == pytest.approx(1 - 1 / 8)
    assert found["micro_f1"] == pytest.approx(2 * 4 / (3 + 1 + 1 + 3 + 1))
    assert found["example_f1"] == pytest.approx((2 * 3 / (4 + 3) + 1) / 2)
    assert found["macro_f1"] == pytest.approx((3 * 1.0 + 1 * 2 / 3) / 4)
    assert found["subset_accuracy"] == 0.5


def test_scaled_weights_choose_the_same() -> None:
    y, proba, times = sample(2)
    names = list("abcde")
    first, second = (
        choose_decisions(y, proba, weights=Weights.of(times * factor, "balanced", names, y)) for factor in (1.0, 8.0)
    )
    assert first == second
    assert first != choose_decisions(y, proba)


def test_a_heavy_label_moves_the_threshold() -> None:
    """Label a needs a low threshold, label b a high one: whichever counts more decides."""
    random = np.random.default_rng(0)
    y = (random.random((400, 2)) < 0.3).astype(float)
    proba = np.where([True, False], np.where(y > 0, 0.25, 0.15), np.where(y > 0, 0.75, 0.65))
    chosen = {}
    for heavy, own in (("a", [100.0, 1.0]), ("b", [1.0, 100.0])):
        weights = Weights(np.ones(400), np.array(own), np.array(own))
        chosen[heavy] = choose_rules.choose_paper_thresholds(y, proba, weights)["micro_f1"].value
    assert 0.15 < chosen["a"] <= 0.25
    assert 0.65 < chosen["b"] <= 0.75
