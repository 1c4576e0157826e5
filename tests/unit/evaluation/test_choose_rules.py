"""The chosen rules against the metrics they are chosen for."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import sparse

from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation import choose_rules
from lampnet.evaluation.choose_rules import (
    PAPER_THRESHOLDS,
    Decisions,
    choose_best,
    choose_decisions,
    choose_paper_thresholds,
)
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rules import ExpectedF1, PerLabelThreshold, Threshold, TopK


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


def test_tally_agrees_with_the_metrics() -> None:
    """The tally counts per fold; its scores must equal those of `lampnet.evaluation.metrics`, on some folds too."""
    y, proba = sample(50, 7, seed=2)
    y[np.random.default_rng(1).random(y.shape) < 0.2] = np.nan
    y[3] = np.nan
    fold_of_row = np.arange(50) % 5
    tally = choose_rules._Tally(y, proba, fold_of_row)
    rules = [Threshold(0.3), TopK(2), ExpectedF1()]
    for rule in rules:
        tally.add(rule.apply(proba))
    for name, metric in METRICS.items():
        expected = [metric(y, rule.apply(proba)) for rule in rules]
        np.testing.assert_allclose(tally.scores(name, 0, 3), expected, rtol=1e-5)
        kept = fold_of_row != 2
        expected = [metric(y[kept], rule.apply(proba[kept])) for rule in rules]
        np.testing.assert_allclose(tally.scores(name, 0, 3, without=2), expected, rtol=1e-5)


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
    tally = choose_rules._Tally(y, proba, np.arange(200) % 5)
    families = choose_rules._count_families(tally)
    thresholds = choose_rules._LabelThresholds(tally)
    overall = families[0][0][int(tally.scores("micro_f1", 0, len(families[0][0])).argmax())].value
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
