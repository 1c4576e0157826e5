"""Intervals and scores by label: equal to plain loops and to scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from lampnet.evaluation.by_label import by_label, confused_pairs
from lampnet.evaluation.intervals import draws, resampled, score_interval, weighted_score
from lampnet.evaluation.metrics import METRICS


def rows(n: int, n_labels: int, seed: int, unknown: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = (random.random((n, n_labels)) < 0.3).astype(float)
    truth[random.random(truth.shape) < unknown] = np.nan
    truth[0, 0] = 1
    return truth, np.round(random.random(truth.shape), 1)


@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(1, 4), st.sampled_from(sorted(METRICS)))
@settings(max_examples=60, deadline=None)
def test_a_sample_scores_as_its_rows_do(seed: int, n: int, n_labels: int, metric: str) -> None:
    truth, proba = rows(n, n_labels, seed)
    chosen, known = proba > 0.5, ~np.isnan(truth)
    some = known.any(axis=1)
    truth, chosen, known = truth[some], chosen[some], known[some]
    counts = draws(len(truth), 5, seed)
    true = (truth == 1) & known
    found = resampled(metric, true, chosen & known, counts, known)
    for sample, score in zip(counts.astype(int), found, strict=True):
        drawn = np.repeat(np.arange(len(truth)), sample)
        if metric == "macro_f1" and not known[drawn].any(axis=0)[known.any(axis=0)].all():
            continue  # a label that the sample knows nothing of counts as 0 there, and not at all alone
        assert score == pytest.approx(METRICS[metric](truth[drawn], chosen[drawn]))


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_the_interval_holds_the_score_and_narrows_with_more_rows(metric: str) -> None:
    widths = []
    for n in (60, 2000):
        truth, proba = rows(n, 5, 0)
        low, high = score_interval(metric, truth, proba > 0.4)
        assert low <= METRICS[metric](truth, proba > 0.4) <= high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    truth, proba = rows(20_000, 3, 1)
    expected = METRICS["micro_f1"](truth, proba > 0.4)
    held = 0
    for seed in range(60):
        some = np.random.default_rng(seed).integers(len(truth), size=150)
        low, high = score_interval("micro_f1", truth[some], proba[some] > 0.4, seed)
        held += low <= expected <= high
    assert held >= 52  # 57 of 60 are expected


@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_labels_score_as_scikit_learn_has_it(seed: int, n: int, n_labels: int) -> None:
    truth, proba = rows(n, n_labels, seed)
    names = tuple(f"l{j}" for j in range(n_labels))
    for j, one in enumerate(by_label(names, truth, proba, proba > 0.5)):
        known = ~np.isnan(truth[:, j])
        y, p = truth[known, j], proba[known, j]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = precision_recall_fscore_support(y, p > 0.5, pos_label=1, average="binary", zero_division=np.nan)
        for name, expected in zip(("precision", "recall", "f1"), scores[:3], strict=True):
            if one[name] is None:
                assert np.isnan(expected) or name == "f1"
            else:
                assert one[name] == pytest.approx(expected, abs=1e-5)
        assert one["support"] == int((y == 1).sum())
        assert one["few"] == (one["support"] < 10)
        if 0 < y.sum() < len(y):
            assert one["auc"] == pytest.approx(roc_auc_score(y, p), abs=1e-5)
        else:
            assert one["auc"] is None


@given(st.integers(0, 2**31), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_pairs_are_those_of_a_plain_loop(seed: int, n: int) -> None:
    truth, proba = rows(n, 4, seed)
    chosen, names = proba > 0.5, ("a", "b", "c", "d")
    count: dict[tuple[str, str], int] = {}
    missed = dict.fromkeys(names, 0)
    for y, given_row in zip(truth, chosen, strict=True):
        for i, name in enumerate(names):
            if y[i] == 1 and not given_row[i]:
                missed[name] += 1
                for j, other in enumerate(names):
                    if y[j] == 0 and given_row[j]:
                        count[name, other] = count.get((name, other), 0) + 1
    found = confused_pairs(names, truth, chosen)
    assert {(one["missed"], one["given"]): one["rows"] for one in found} == count
    assert [one["rows"] for one in found] == sorted(count.values(), reverse=True)
    for one in found:
        assert one["share_of_missed"] == pytest.approx(one["rows"] / missed[one["missed"]], abs=1e-4)


@given(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from(sorted(METRICS)), st.sampled_from([1.0, 0.001, 50.0]))
@settings(max_examples=60, deadline=None)
def test_a_weight_is_so_many_copies_of_a_row(seed: int, n: int, metric: str, scale: float) -> None:
    truth, proba = rows(n, 3, seed, unknown=0.0)
    weight = np.random.default_rng(seed).integers(1, 4, size=n)
    copies = np.repeat(np.arange(n), weight)
    expected = METRICS[metric](truth[copies], proba[copies] > 0.5)
    assert weighted_score(metric, truth, proba > 0.5, scale * weight) == pytest.approx(expected)
