"""Closed-form shifts against slow references, and what cross-fitting promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from lampnet.base_learners.cooccurrence import PSEUDO_COUNTS, Counts, cooccurrence_shift, log_odds_shifts
from lampnet.base_learners.label_covariance import LEAST_VARIANCE, MARGIN, RIDGE, covariance_shift, residual_products
from lampnet.base_learners.label_dependence import LabelDependence, cross_fit_dependence
from lampnet.errors import ModelFolderError


def labelled_rows(seed, n=40, L=5, unknown=0.0):
    random = np.random.default_rng(seed)
    common = random.random((n, 1)) < 0.4
    Y = (random.random((n, L)) < np.where(common, 0.6, 0.15)).astype(np.float32)
    Y[random.random((n, L)) < unknown] = np.nan
    logits = random.normal(-1, 1, (n, L)).astype(np.float32)
    states = np.where(random.random((n, L)) < 0.5, 0, np.where(np.nan_to_num(Y) > 0, 1, -1)).astype(np.int8)
    return Y, logits, states


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3]))
def test_shifts_are_the_log_odds_of_counted_pairs(seed, unknown):
    Y, _, states = labelled_rows(seed, unknown=unknown)
    shifts, (n, L) = log_odds_shifts(Counts(Y)), Y.shape
    for j in range(L):
        for i in range(L):
            known_i = [Y[r, i] for r in range(n) if not np.isnan(Y[r, i])]
            prior = (sum(known_i) + 0.5) / (len(known_i) + 1)
            among = [Y[r, i] for r in range(n) if Y[r, j] == 1 and not np.isnan(Y[r, i])]
            share = (sum(among) + PSEUDO_COUNTS * prior) / (len(among) + PSEUDO_COUNTS)
            assert shifts[j, i] == pytest.approx(0 if i == j else logit(share) - logit(prior), abs=1e-4)
    for row, moved in zip(states[:5], cooccurrence_shift(shifts, states[:5]), strict=True):
        true = np.flatnonzero(row == 1)
        assert moved == pytest.approx(shifts[true].sum(axis=0) / max(1, len(true)) ** 0.5, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_the_covariance_shift_solves_each_rows_own_system(seed):
    Y, logits, states = labelled_rows(seed)
    states[0] = 0
    S = residual_products(Y, logits) / len(Y)
    moved = covariance_shift(S, logits, states)
    p = expit(logits.astype(np.float64))
    for row in range(8):
        K = np.flatnonzero(states[row])
        r = (states[row, K] == 1) - p[row, K]
        ridge = np.diag(RIDGE * np.diag(S)[K] + LEAST_VARIANCE)
        guess = p[row] + S[:, K] @ np.linalg.solve(S[np.ix_(K, K)] + ridge, r)
        expected = logit(np.clip(guess, MARGIN, 1 - MARGIN)) - logit(np.clip(p[row], MARGIN, 1 - MARGIN))
        # Float32 residuals; logits of probabilities near 0 and 1 are steep.
        assert expit(logit(np.clip(p[row], MARGIN, 1 - MARGIN)) + moved[row]) == pytest.approx(
            expit(logit(np.clip(p[row], MARGIN, 1 - MARGIN)) + expected), abs=2e-3
        )
    assert not moved[0].any()


def test_a_repeated_label_counts_once():
    """Two labels that are always true together say no more than one of them: covariance knows, co-occurrence not."""
    random = np.random.default_rng(0)
    first = random.random((4000, 1)) < 0.3
    third = first ^ (random.random((4000, 1)) < 0.1)
    Y = np.hstack([first, first, third]).astype(np.float32)
    logits = np.full(Y.shape, logit(0.3), dtype=np.float32)
    shifts = cross_fit_dependence(Y, logits, np.arange(4000) % 2).whole.shifts
    one, both = shifts(logits[:2], np.array([[1, 0, 0], [1, 1, 0]], np.int8))[:, 2]
    assert both[0] > 1.3 * one[0]
    assert both[1] == pytest.approx(one[1], rel=0.1)


def test_an_expected_label_says_less_than_a_surprising_one():
    Y, logits, _ = labelled_rows(0, n=2000)
    dependence = cross_fit_dependence(Y, logits, np.arange(2000) % 2).whole
    given = np.full((2, 5), -1.0, dtype=np.float32)
    given[0, 0], given[1, 0] = 6.0, -3.0
    expected, surprising = dependence.shifts(given, np.array([[1, 0, 0, 0, 0]] * 2, np.int8))[:, 1, 1]
    assert surprising > 5 * abs(expected)


@given(st.integers(0, 50))
@settings(max_examples=10, deadline=None)
def test_a_row_does_not_influence_its_own_shifts(seed):
    Y, logits, states = labelled_rows(seed)
    fold_n = np.arange(len(Y)) % 4
    before = cross_fit_dependence(Y, logits, fold_n)
    changed = Y.copy()
    changed[fold_n == 1] = 1 - changed[fold_n == 1]
    after = cross_fit_dependence(changed, logits, fold_n)
    own = fold_n == 1
    np.testing.assert_allclose(
        before.shifts(logits[own], states[own], fold_n[own]),
        after.shifts(logits[own], states[own], fold_n[own]),
        atol=2e-3,
    )
    assert not np.allclose(before.whole.shifts_mm, after.whole.shifts_mm)


def test_the_tables_of_a_fold_are_those_of_the_other_rows():
    Y, logits, _ = labelled_rows(3, unknown=0.2)
    fold_n = np.arange(len(Y)) % 4
    fitted = cross_fit_dependence(Y, logits, fold_n)
    alone = cross_fit_dependence(Y[fold_n != 2], logits[fold_n != 2], np.zeros(int((fold_n != 2).sum()), int)).whole
    np.testing.assert_allclose(fitted.folds[2].shifts_mm, alone.shifts_mm, atol=1e-4)
    np.testing.assert_allclose(fitted.folds[2].covariance_mm, alone.covariance_mm, atol=1e-6)


def test_of_too_many_labels_the_most_frequent_take_part(monkeypatch):
    monkeypatch.setattr("lampnet.base_learners.label_dependence.MOST_LABELS", 2)
    Y = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0]], np.float32)
    dependence = cross_fit_dependence(Y, np.zeros(Y.shape), np.arange(3) % 2).whole
    assert dependence.labels_m.tolist() == [0, 2]
    moved = dependence.shifts(np.zeros((1, 4)), np.array([[1, 1, 0, 0]], np.int8))
    assert moved[0, 2].any()
    assert not moved[0, [1, 3]].any()


def test_stored_tables_come_back_and_forged_ones_are_refused():
    Y, logits, states = labelled_rows(0)
    whole = cross_fit_dependence(Y, logits, np.arange(len(Y)) % 3).whole
    again = LabelDependence.restore(whole.arrays(), 5)
    np.testing.assert_array_equal(again.shifts(logits, states), whole.shifts(logits, states))
    good = whole.arrays()
    forged = [
        {**good, "labels": good["labels"] + 1},
        {**good, "labels": good["labels"][::-1].copy()},
        {**good, "labels": good["labels"].astype(np.float32)},
        {**good, "shifts": good["shifts"][:2]},
        {**good, "covariance": good["covariance"].astype(np.float64)},
        {name: table for name, table in good.items() if name != "shifts"},
    ]
    for arrays in forged:
        with pytest.raises(ModelFolderError):
            LabelDependence.restore(arrays, 5)
