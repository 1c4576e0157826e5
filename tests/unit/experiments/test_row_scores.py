"""Scores by row come back from a result file, and intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lampnet.evaluation.metrics import example_f1, example_f1_by_row
from lampnet.experiments.row_scores import (
    packed,
    paired_difference,
    pooled_difference,
    seeds_difference,
    unpacked,
)


@given(st.lists(st.floats(0, 1), max_size=50))
def test_packed_scores_come_back(scores: list[float]) -> None:
    back = unpacked(packed(np.array(scores)))
    assert back.shape == (len(scores),)
    assert np.abs(back - scores).max(initial=0.0) <= 0.5 / 255 + 1e-12


def test_the_mean_of_the_rows_is_example_f1() -> None:
    rng = np.random.default_rng(0)
    truth, named = (rng.random((40, 6)) < 0.3).astype(float), rng.random((40, 6)) < 0.3
    truth[0], truth[1, 2] = np.nan, np.nan
    rows = example_f1_by_row(truth, named)
    assert np.isnan(rows[0])
    assert np.nanmean(rows) == pytest.approx(example_f1(truth, named))


def test_the_bootstrap_agrees_with_the_normal_interval_on_many_rows() -> None:
    rng = np.random.default_rng(1)
    second = rng.random(3000)
    first = second + rng.normal(0.02, 0.3, 3000)
    found = paired_difference(first, second)
    change = first - second
    reach = 1.96 * change.std() / 3000**0.5
    assert found.mean == pytest.approx(change.mean(), abs=1e-5)
    assert (found.low, found.high) == pytest.approx((change.mean() - reach, change.mean() + reach), abs=reach / 10)


def test_nothing_is_claimed_where_two_systems_are_alike() -> None:
    """Of many pairs that do not differ, about one in twenty may look as if it did."""
    rng = np.random.default_rng(2)
    claimed = [
        paired_difference(rng.normal(0.5, 0.2, 200), rng.normal(0.5, 0.2, 200), resamples=300, seed=i).is_clear
        for i in range(200)
    ]
    assert sum(claimed) < 25


def test_seeds_are_compared_by_students_t() -> None:
    first, second = np.array([0.51, 0.55, 0.52, 0.58]), np.array([0.50, 0.51, 0.52, 0.53])
    found = seeds_difference(first, second)
    assert found is not None
    low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)
    assert seeds_difference(first[:2], second[:2]) is None


def test_a_mean_over_data_sets_is_as_uncertain_as_the_data_sets_differ() -> None:
    """Thousands of rows say nothing about other data sets."""
    rng = np.random.default_rng(3)
    parts = [mean + rng.normal(0, 0.01, 3000) for mean in (-0.03, -0.01, 0.0, 0.02, -0.02)]
    found = pooled_difference(parts)
    assert found.mean == pytest.approx(-0.008, abs=1e-3)
    assert not found.is_clear
    spread = np.std([part.mean() for part in parts]) / 5**0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.1)
    one = pooled_difference(parts[:1])  # of a single data set, that of its rows
    alone = paired_difference(parts[0], np.zeros(3000))
    assert (one.low, one.high) == pytest.approx((alone.low, alone.high), abs=1e-4)
