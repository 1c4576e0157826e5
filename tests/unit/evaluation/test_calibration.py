"""Calibration: it rises, helps on new rows, leaves what is right alone, and ignores what is unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from lampnet.evaluation.calibration import (
    BEND_PULL,
    KNOTS,
    SHIFT_PULL,
    SLOPE_PULL,
    Calibration,
    choose_pull,
    cross_fit_calibration,
    fit_calibration,
)
from lampnet.evaluation.reliability import ABOVE, BINS, reliability


def rows(n: int, n_labels: int, seed: int, sure: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are `sure` times too large, and labels."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 2, size=(n, n_labels))
    return (logits * sure).astype(np.float32), (random.random(logits.shape) < expit(logits)).astype(np.float32)


@given(st.integers(0, 2**31), st.integers(5, 60), st.integers(1, 4), st.sampled_from([np.inf, 30.0, 1.0]))
@settings(max_examples=30, deadline=None)
def test_the_order_of_the_rows_within_a_label_is_kept(seed: int, n: int, n_labels: int, pull: float) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(0, 5, size=(n, n_labels))
    Y = (random.random(logits.shape) < 0.3).astype(float)  # says nothing, or the opposite
    Y[random.random(Y.shape) < 0.2] = np.nan
    if np.isnan(Y).all():
        Y[0, 0] = 1
    grid = np.linspace(-40, 40, 400)[:, None].repeat(n_labels, axis=1)
    assert (np.diff(fit_calibration(logits, Y, pull).apply(grid), axis=0) > 0).all()


@pytest.mark.parametrize("sure", [3.0, 0.3])
def test_wrong_confidence_is_put_right_on_new_rows(sure: float) -> None:
    logits, Y = rows(1500, 6, 0, sure)
    calibration, held_out = cross_fit_calibration(logits, Y, np.arange(len(Y)) % 5)
    new_logits, new = rows(4000, 6, 1, sure)
    assert calibration is not None
    assert reliability(new, expit(new_logits)).ece_above > 0.06
    assert reliability(new, expit(calibration.apply(new_logits))).ece_above < 0.015
    assert reliability(Y, expit(held_out)).ece_above < 0.025
    assert held_out.dtype == np.float32


def test_labels_that_differ_get_slopes_and_shifts_of_their_own() -> None:
    right, Y = rows(3000, 2, 0)
    logits = right * np.float32([1.5, 0.7]) + np.float32([1.0, -1.0])
    assert choose_pull(logits, Y, np.arange(len(Y)) % 5) not in (None, np.inf)
    calibration, _ = cross_fit_calibration(logits, Y, np.arange(len(Y)) % 5)
    assert calibration is not None
    both = (calibration, fit_calibration(logits, Y))
    own, shared = (np.abs(expit(c.apply(logits)) - expit(right)).mean() for c in both)
    assert own < shared / 2


def test_probabilities_that_are_right_are_left_alone() -> None:
    left = 0
    for seed in range(10):
        logits, Y = rows(300, 4, seed)
        calibration, held_out = cross_fit_calibration(logits, Y, np.arange(len(Y)) % 5)
        left += calibration is None
        if calibration is None:
            np.testing.assert_array_equal(held_out, logits)
    assert left >= 6


def test_a_row_is_calibrated_without_its_own_fold() -> None:
    logits, Y = rows(600, 3, 0, sure=3.0)
    fold_n = np.arange(len(Y)) % 5
    _, before = cross_fit_calibration(logits, Y, fold_n)
    pull = choose_pull(logits, Y, fold_n)
    assert pull is not None
    for fold in range(5):
        alone = fit_calibration(logits[fold_n != fold], Y[fold_n != fold], pull)
        np.testing.assert_allclose(before[fold_n == fold], alone.apply(logits[fold_n == fold]), rtol=1e-6)


def test_unknown_labels_count_for_nothing() -> None:
    logits, Y = rows(500, 3, 0, sure=2.0)
    more = np.concatenate([logits, 9 * np.ones((50, 3), np.float32)])
    unknown = np.concatenate([Y, np.full((50, 3), np.nan, np.float32)])
    one, two = fit_calibration(logits, Y, 30.0), fit_calibration(more, unknown, 30.0)
    for name, array in vars(one).items():
        np.testing.assert_allclose(array, getattr(two, name), err_msg=name)
    nothing = np.full_like(Y, np.nan)
    assert cross_fit_calibration(logits, nothing, np.arange(len(Y)) % 5)[0] is None


def test_the_curve_is_the_penalised_logistic_regression_on_every_single_pair() -> None:
    """A slow reference: the curve's value at each knot is a free number, and no cells are formed."""
    logits, Y = rows(300, 2, 0, sure=2.0)
    z, y = logits.ravel().astype(float), Y.ravel()

    def loss(values: np.ndarray) -> float:
        made = Calibration(KNOTS, values, np.ones(2), np.zeros(2))
        slopes = np.diff(values) / np.diff(KNOTS)
        shift = np.interp(0.0, KNOTS, values)
        pulled = BEND_PULL * (np.diff(slopes) ** 2).sum() + SLOPE_PULL * ((slopes - 1) ** 2).sum()
        q = made.curve(z)
        return float((np.logaddexp(0, q) - y * q).sum() + 0.5 * (pulled + SHIFT_PULL * shift**2))

    found = fit_calibration(logits, Y).values_K
    reference = minimize(loss, KNOTS, method="L-BFGS-B", options={"maxfun": 100_000, "maxiter": 5000}).x
    assert loss(found) <= loss(reference) + 0.05
    np.testing.assert_allclose(found[2:-2], reference[2:-2], atol=0.05)


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_reliability_is_what_counting_pair_by_pair_gives(seed: int, n: int, n_labels: int) -> None:
    random = np.random.default_rng(seed)
    proba = random.random((n, n_labels)).astype(np.float32) ** 4
    truth = np.where(random.random(proba.shape) < 0.1, np.nan, random.random(proba.shape) < 0.3)
    truth[0, 0] = 1
    pairs = [(float(p), y) for p, y in zip(proba.ravel(), truth.ravel(), strict=True) if not np.isnan(y)]

    def ece(pairs: list[tuple[float, float]]) -> float:
        error = 0.0
        for i in range(BINS):
            own = [(p, y) for p, y in pairs if i / BINS <= p < (i + 1) / BINS or (p == 1 and i == BINS - 1)]
            error += abs(sum(p - y for p, y in own))
        return error / max(1, len(pairs))

    found = reliability(truth, proba)
    assert found.ece == pytest.approx(ece(pairs), abs=1e-6)
    assert found.ece_above == pytest.approx(ece([(p, y) for p, y in pairs if p > ABOVE]), abs=1e-6)
    assert found.brier == pytest.approx(np.mean([(p - y) ** 2 for p, y in pairs]), abs=1e-6)
    assert sum(count for count, _, _ in found.bins) == sum(p > ABOVE for p, _ in pairs)


def test_the_error_by_chance_is_that_of_exact_probabilities() -> None:
    random = np.random.default_rng(0)
    proba = random.random((300, 5)) ** 3
    errors = [reliability((random.random(proba.shape) < proba).astype(float), proba) for _ in range(200)]
    assert errors[0].by_chance == pytest.approx(np.mean([e.ece_above for e in errors]), rel=0.1)
