"""The linear base learner: out-of-fold logits that never saw their rows' labels, and a time budget that is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners import linear, newton
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.protocol import FitContext
from lampnet.runtime.torch_state import threads


def rows(n: int = 240, labels: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 12)).astype(np.float32)
    Y = X[:, :labels] + random.normal(size=(n, labels)) > np.linspace(0.2, 2.5, labels)
    return X, Y.astype(np.float32)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 7), st.sampled_from(linear.CHOICES), st.integers(0, 1000), st.booleans())
def test_a_fold_s_own_labels_leave_its_logits_as_they_are(
    fold: int, choice: tuple[newton.Loss, float], seed: int, is_sparse: bool
) -> None:
    X, Y = rows(seed=seed)
    features = sparse.csr_matrix(X * (np.abs(X) > 1.2)) if is_sparse else X
    fold_n = np.random.default_rng(seed).permutation(len(Y)) % 8
    turned = np.where((fold_n == fold)[:, None], 1 - Y, Y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "CHOICES", (choice,))  # which setting is chosen depends on all labels
        before, after = (LinearLearner().fit(features, labels, 0, fold_n) for labels in (Y, turned))
    np.testing.assert_array_equal(before[fold_n == fold], after[fold_n == fold])
    assert (before != after).any()


@pytest.mark.parametrize("choice", linear.CHOICES)
def test_the_only_positive_of_a_label_does_not_stand_out_of_its_fold(
    choice: tuple[newton.Loss, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = rows()
    fold_n = np.arange(len(Y)) % 8
    Y[:, 0] = 0  # no fold has a positive to learn from
    Y[:, 1] = np.arange(len(Y)) == 3  # all folds but that of row 3 have one
    Y[:, 2] = 1  # no fold has a negative
    monkeypatch.setattr(linear, "CHOICES", (choice,))
    learner = LinearLearner()
    logits = learner.fit(X, Y, 0, fold_n)
    own = fold_n == fold_n[3]
    np.testing.assert_allclose(logits[own, 1], logits[~own, 1].mean(), rtol=1e-5)
    for label in (0, 2):  # no jump between rows that were learned from and new ones
        assert np.ptp(logits[:, label]) == 0
        np.testing.assert_allclose(logits[0, label], learner.logits(X)[:, label].mean(), atol=1e-3)


def test_the_logits_do_not_depend_on_the_number_of_threads() -> None:
    X, Y = rows(labels=9)
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(LinearLearner().fit(X, Y, 0))
    np.testing.assert_array_equal(*found)


class Clock:
    """A second passes with every look at it."""

    def __init__(self) -> None:
        self.looks = itertools.count()

    def __call__(self) -> float:
        return float(next(self.looks))


def newton_steps(monkeypatch: pytest.MonkeyPatch, budget: float | None) -> tuple[int, list[str], np.ndarray]:
    """How many Newton steps a fit makes, what it says about the budget, and its logits."""
    steps, sentences = itertools.count(), list[str]()
    original = newton._Problem.newton_step

    def counted(*args: object) -> object:
        next(steps)
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(newton._Problem, "newton_step", counted)
        context = FitContext(budget_seconds=budget, log=sentences.append, clock=Clock())
        with threads(1):
            logits = LinearLearner().fit(*rows(), 0, None, context)
    return next(steps), sentences, logits


def test_a_small_time_budget_costs_settings_folds_and_steps_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    free, silent, _ = newton_steps(monkeypatch, None)
    wide, also_silent, _ = newton_steps(monkeypatch, 1e6)
    tight, sentences, logits = newton_steps(monkeypatch, 1.0)
    assert silent == also_silent == []
    assert wide == free
    # One step for each loss, both halves and all rows: the least that gives out-of-fold logits.
    assert tight == 5
    assert sentences == [
        "linear: 2 of 6 settings tried, to keep the time budget",
        "linear: 2 folds instead of 8, to keep the time budget",
    ]
    assert np.isfinite(logits).all()


def test_more_rows_than_many_are_predicted_by_fewer_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MANY_ROWS", 100)
    doing: list[str] = []
    LinearLearner().fit(*rows(), 0, None, FitContext(progress=lambda share, what: doing.append(what)))
    assert f"{linear.FOLDS_FOR_MANY_ROWS} folds" in doing
