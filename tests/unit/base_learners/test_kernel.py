"""Kernel ridge regression against systems that are solved anew, and who may know whose labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.base_learners import kernel as kernel_module
from lampnet.base_learners.kernel import ROUNDED, STEEPNESS, KernelLearner, Solved
from lampnet.base_learners.protocol import FitContext
from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.data.weights import Weights


def data(n: int, n_labels: int = 3, seed: int = 0, unknown: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Labels that no line divides."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)).astype(np.float32)
    Y = ((X[:, [0]] * X[:, [1]] + 0.3 * random.normal(size=(n, n_labels))) > 0.2).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return X, Y


def slow_kernel(learner: KernelLearner, x: np.ndarray, z: np.ndarray) -> float:
    distance = np.sqrt(((x.astype(float) - z.astype(float)) ** 2).sum()) / learner.scale
    return float(np.exp(-np.sqrt(distance**2 + ROUNDED**2)) + 1)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 30),
    n_folds=st.integers(2, 40),
    ridge=st.sampled_from([0.01, 0.3]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_held_out_scores_are_those_of_systems_without_the_fold(
    n: int, n_folds: int, ridge: float, weighted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    points, targets = random.normal(size=(n, 3)), random.normal(size=(n, 2))
    kernel_nn = np.exp(-np.linalg.norm(points[:, None] - points, axis=2))
    row_n = random.uniform(0.3, 4.0, n) if weighted else None
    fold_n = random.integers(0, n_folds, n)
    solved = Solved.of(kernel_nn, ridge, targets, row_n)
    expected = np.zeros_like(targets)
    for fold in np.unique(fold_n):
        own, rest = fold_n == fold, np.flatnonzero(fold_n != fold)
        system = (
            kernel_nn[np.ix_(rest, rest)] + np.diag(np.full(n, ridge) / (1 if row_n is None else row_n))[rest][:, rest]
        )
        dual = np.linalg.solve(system, targets[rest])
        expected[own] = kernel_nn[np.ix_(own, rest)] @ dual
        np.testing.assert_allclose(solved.dual_without(own)[rest], dual, atol=1e-7)
        np.testing.assert_allclose(solved.dual_without(own)[own], 0, atol=1e-7)
    np.testing.assert_allclose(solved.held_out(fold_n), expected, atol=1e-7)


def test_a_row_that_counts_three_is_three_rows() -> None:
    X, Y = data(20)
    learner = KernelLearner()
    learner.fit(X, Y, 0)
    again = np.repeat(np.arange(20), np.where(np.arange(20) < 5, 3, 1))
    targets = learner._targets(Y)
    weighted = Solved.of(learner._kernel(X, X), 0.1, targets, np.where(np.arange(20) < 5, 3.0, 1.0))
    repeated = Solved.of(learner._kernel(X[again], X[again]), 0.1, targets[again])
    new = data(6, seed=1)[0]
    np.testing.assert_allclose(
        learner._kernel(new, X) @ weighted.dual_NL, learner._kernel(new, X[again]) @ repeated.dual_NL, atol=1e-6
    )


@settings(max_examples=10, deadline=None)
@given(n=st.integers(2, 60), seed=st.integers(0, 99), unknown=st.sampled_from([0.0, 0.4]), is_sparse=st.booleans())
def test_scores_are_sums_over_the_stored_rows(n: int, seed: int, unknown: float, is_sparse: bool) -> None:
    X, Y = data(n, seed=seed, unknown=unknown)
    learner = KernelLearner()
    out_of_fold = learner.fit(sparse.csr_matrix(X) if is_sparse else X, Y, seed)
    assert out_of_fold.shape == Y.shape
    assert np.isfinite(out_of_fold).all()
    new = data(3, seed=seed + 1)[0]
    scores = [sum(slow_kernel(learner, x, z) * dual for z, dual in zip(X, learner.dual_NL, strict=True)) for x in new]
    slow = np.arcsinh(STEEPNESS * np.array(scores))
    np.testing.assert_allclose(learner.logits(sparse.csr_matrix(new) if is_sparse else new), slow, atol=1e-4)


@pytest.mark.parametrize("stored", [400, 50])
def test_out_of_fold_logits_do_not_know_the_labels_of_their_fold(stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a sample of the rows is stored, too."""
    monkeypatch.setattr(kernel_module, "FIT_ROWS", stored)
    X, Y = data(200)
    fold_n = np.arange(200) % 4
    own = fold_n == 0
    other = Y.copy()
    other[own] = np.roll(Y[own], 1, axis=0)  # as often true as before, in other rows
    found = [KernelLearner().fit(X, labels, 0, fold_n) for labels in (Y, other)]
    np.testing.assert_allclose(found[0][own], found[1][own], atol=1e-5)
    assert not np.allclose(found[0][~own], found[1][~own], atol=1e-3)


def test_what_no_line_divides_is_learned() -> None:
    X, Y = data(400)
    new, truth = data(300, seed=1)
    learner = KernelLearner()
    out_of_fold = learner.fit(X, Y, 0)
    for logits, labels in ((out_of_fold, Y), (learner.logits(new), truth)):
        right = (logits[:, 0] > np.median(logits[:, 0])) == (labels[:, 0] > 0)
        assert right.mean() > 0.7


def test_rows_that_are_all_alike_say_nothing() -> None:
    X, Y = np.ones((30, 4), dtype=np.float32), data(30)[1]
    learner = KernelLearner()
    learner.fit(X, Y, 0)
    assert np.abs(learner.logits(X)).max() < 0.1


def test_a_time_budget_stores_fewer_rows_and_says_so() -> None:
    ticks = itertools.count()
    logged: list[str] = []
    X, Y = data(600)
    learner = KernelLearner()
    clock = FitContext(budget_seconds=20.0, log=logged.append, clock=lambda: float(next(ticks)))
    assert learner.fit(X, Y, 0, None, clock).shape == Y.shape
    # 200 rows take one tick, so 20 ticks are worth 200 * 20^(1/3) rows.
    assert learner.X.shape == (542, 4)
    assert logged == ["kernel: 542 rows are stored instead of 600, to keep the time budget"]


def test_no_more_rows_are_stored_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "STORED_ROWS", 130)
    learner = KernelLearner()
    learner.fit(*data(100), 0)
    for seed in (1, 2, 3):
        X, Y = data(50, seed=seed)
        assert learner.learn_more(X, Y, 0, np.arange(50) % 5).shape == Y.shape
    assert learner.X.shape == (130, 4)


def test_new_rows_that_say_nothing_leave_the_scores_alone() -> None:
    X, Y = data(300)
    learner = KernelLearner()
    learner.fit(X, Y, 0)
    learner.dual_NL[:] = 0.0
    new, labels = data(150, 4, seed=1)
    labels[:, :3] = np.random.default_rng(0).permutation(labels[:, :3])
    learner.learn_more(new, labels, 0, np.arange(150) % 5)
    assert np.abs(learner.logits(X)[:, :3]).max() == 0
    assert np.abs(learner.logits(X)[:, 3]).max() > 0.5  # a new label that rows do speak of


def test_rare_labels_and_weights_of_rows() -> None:
    X, Y = data(200)
    Y[:, 1], Y[:, 2] = 0, 0
    Y[3, 2] = 1
    weights = Weights(np.random.default_rng(0).uniform(0.2, 3.0, 200), np.ones(3), np.ones(3))
    logits = KernelLearner().fit(X, Y, 0, None, FitContext(), weights)
    assert np.isfinite(logits).all()
    # The only row with a label is not recognised by its own label.
    assert np.abs(logits[3, 2]) < np.abs(logits[:, 2]).max()


def test_a_sparse_kernel_is_restored_exactly() -> None:
    X = sparse.random(60, 12, 0.3, format="csr", random_state=0, dtype=np.float32)
    stack = Stack(["kernel"])
    stack.fit(X, data(60)[1], seed=0)
    np.testing.assert_array_equal(restore_stack(["kernel"], stack.arrays(), 3).logits(X), stack.logits(X))
