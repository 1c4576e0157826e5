"""Base learners of rows that are streamed: as good as those in memory, out-of-fold, and from all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners.linear import average_precision
from lampnet.base_learners.newton import Matrix, fit_linear
from lampnet.base_learners.row_stream import HeldFeatures, RowStream
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.streamed_linear import _Problem, _Scale, fit_streamed, product
from lampnet.base_learners.streamed_stack import fit_streamed_stack
from lampnet.data.splits import hashed_folds


def planted(n: int, seed: int = 0, labels: int = 12, words: int = 300) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows of unit length: a label makes its own words likely, the rest is noise."""
    own = np.random.default_rng(99).integers(0, words, size=(labels, 8))
    draw = np.random.default_rng(seed)
    Y = (draw.random((n, labels)) < 1 / np.arange(2, labels + 2)).astype(np.float32)
    X = np.float32(draw.random((n, words)) < 0.05)
    row, label = np.nonzero(Y)
    for _ in range(3):
        X[row, own[label, draw.integers(0, 8, size=len(row))]] = 1
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-6)
    return sparse.csr_matrix(X), Y


def stream(X: Any, Y: np.ndarray, blocked: bool = False) -> RowStream:
    n = len(Y)
    fold_n = np.arange(n) * 2 // n if blocked else hashed_folds(np.arange(n), 2, 0)
    return RowStream(HeldFeatures(X), sparse.csr_matrix(Y), fold_n, blocked)


@pytest.mark.parametrize("dense", [False, True])
def test_streamed_weights_rank_new_rows_nearly_as_well_as_the_solver_in_memory(dense: bool) -> None:
    X, Y = planted(4_000)
    X_new, Y_new = planted(1_000, seed=1)
    given = X.toarray() if dense else X
    [(W, b)] = fit_streamed(stream(given, Y), [-1])
    best = fit_linear(Matrix(X), Y, 1.0, "squared_hinge")
    streamed, exact = (average_precision(X_new @ w[0] + w[1], Y_new) for w in ((W, b), best))
    assert exact > 0.7
    assert streamed > exact - 0.02


def test_rows_far_longer_than_others_and_labels_of_nearly_all_rows_do_not_make_it_diverge() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(3_000, 5)).astype(np.float32) + 3
    X[::100] *= 1e4
    Y = np.stack([X[:, 0] > 3, np.ones(3_000), np.zeros(3_000)], axis=1).astype(np.float32)
    [(W, b)] = fit_streamed(stream(X, Y), [-1])
    assert np.isfinite(W).all()
    assert np.isfinite(b).all()
    logits = X @ W + b
    plain = np.arange(3_000) % 100 != 0
    assert (logits[plain, 1] > 0).mean() > 0.95
    assert (logits[plain, 2] < 0).mean() > 0.95


def test_a_step_is_that_of_the_gradient() -> None:
    """Against plain loops over rows and labels; unknown labels do not count."""
    draw = np.random.default_rng(0)
    X = sparse.random(20, 15, 0.3, format="csr", dtype=np.float32, random_state=0)
    Y = np.where(draw.random((20, 4)) < 0.4, 1, 0).astype(np.float32)
    Y[draw.random((20, 4)) < 0.2] = np.nan
    scale = _Scale(squared_length=0.5, alike=0.3)
    start = (draw.normal(size=(15, 4)).astype(np.float32), draw.normal(size=4).astype(np.float32))
    problem = _Problem(sparse.csr_matrix(Y), 15, scale, start)
    problem.step(X, np.arange(20), 0.8)
    W, b = start[0].astype(float), start[1].astype(float)
    dense = X.toarray().astype(float)
    for label in range(4):
        wrong = {}
        for row in range(20):
            z = dense[row] @ start[0][:, label] + start[1][label]
            if Y[row, label] == 1 and z < 1:
                wrong[row] = z - 1
            elif Y[row, label] == 0 and z > -1:
                wrong[row] = z + 1
        step = 0.8 / (1 + max(len(wrong) - 1, 0) * 0.3)
        for row, slope in wrong.items():
            own = step * slope / max((dense[row] ** 2).sum() + 0.1, 0.5)
            W[:, label] -= own * dense[row]
            b[label] -= own * 0.1
    np.testing.assert_allclose(problem.W.numpy(), W, atol=1e-5)
    np.testing.assert_allclose(problem.b.numpy(), b, atol=1e-5)


def test_products_are_those_of_scipy() -> None:
    import torch

    X = sparse.random(30, 50, 0.1, format="csr", dtype=np.float32, random_state=1)
    W = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    for rows in (X, X.toarray(), X[:0], sparse.csr_matrix((3, 50), dtype=np.float32)):
        np.testing.assert_allclose(product(rows, W).numpy(), rows @ W.numpy(), atol=1e-5)


@pytest.mark.parametrize("blocked", [False, True])
def test_a_rows_own_labels_and_those_of_its_fold_do_not_reach_its_logits(blocked: bool) -> None:
    X, Y = planted(800)
    rows = stream(X, Y, blocked)
    numbers = np.arange(800)
    stack = Stack(("linear", "knn"))
    before = [of(numbers, X) for of in fit_streamed_stack(stack, rows, 0).out_of_fold]
    changed = Y.copy()
    own = np.flatnonzero(rows.fold_n == 0)
    changed[own] = 1 - changed[own]
    after = fit_streamed_stack(Stack(("linear", "knn")), stream(X, changed, blocked), 0).out_of_fold
    linear, knn = (of(numbers, X) for of in after)
    np.testing.assert_array_equal(linear[own], before[0][own])
    assert not np.allclose(linear[rows.fold_n == 1], before[0][rows.fold_n == 1])
    if blocked:  # neighbours come from the other block; what is left of the fold is its share in the label priors
        assert np.corrcoef(knn[own].ravel(), before[1][own].ravel())[0, 1] > 0.9


def test_a_stored_row_is_not_its_own_neighbour() -> None:
    """Rows without a word in common: whoever finds anything has found itself."""
    n = 600
    X = sparse.identity(n, format="csr", dtype=np.float32)
    Y = np.float32(np.random.default_rng(0).random((n, 3)) < 0.5)
    fitted = fit_streamed_stack(Stack(("knn",)), stream(X, Y), 0)
    logits = fitted.out_of_fold[0](np.arange(n), X)
    assert np.abs(logits - logits[0]).max() < 1e-5
    assert np.abs(fitted.stack.learners[0].logits(X) - logits[0]).max() > 1


def test_every_row_is_learned_from() -> None:
    """A label of one row alone, wherever it is, has words of its own afterwards."""
    X, Y = planted(1_000)
    for alone in (0, 777):
        one = np.column_stack([Y, np.arange(1_000) == alone]).astype(np.float32)
        marked = sparse.hstack([X, np.float32(np.arange(1_000) == alone)[:, None]], format="csr")
        stack = Stack(("linear",))
        fit_streamed_stack(stack, stream(marked, one), 0)
        assert stack.learners[0].arrays()["weights"][-1, -1] > 0.1


class Counting(HeldFeatures):
    """Features that count how often each row is read, and how many are read at once."""

    def block(self, first: int, last: int) -> Any:
        self.read[first:last] += 1
        self.most[0] = max(self.most[0], last - first)
        return super().block(first, last)

    read: np.ndarray
    most: list[int]


@pytest.fixture
def counting() -> type[Counting]:
    Counting.read, Counting.most = np.zeros(100_000), [0]
    return Counting


@pytest.mark.parametrize("n", [20_000, 40_000])
def test_reads_per_row_do_not_grow_with_the_rows(
    n: int, counting: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lampnet.base_learners.streamed_linear.ROW_VISITS", 1)  # as for many rows
    draw = np.random.default_rng(0)
    X = draw.normal(size=(n, 3)).astype(np.float32)
    Y = sparse.csr_matrix(X[:, :1] > 0, dtype=np.float32)
    rows = RowStream(counting(X), Y, hashed_folds(np.arange(n), 2, 0))
    fit_streamed_stack(Stack(("linear",)), rows, 0)
    # Two passes for each fold, one for all rows, one for the stack; how alike rows are is seen on a few.
    assert counting.read[:n].max() <= 8
    assert counting.read[:n].min() >= 6
    assert counting.most[0] <= 8192


def test_fold_numbers_depend_on_the_row_alone() -> None:
    whole = hashed_folds(np.arange(10_000), 3, 5)
    assert np.array_equal(hashed_folds(np.array([17, 9_999, 4]), 3, 5), whole[[17, 9_999, 4]])
    assert np.abs(np.bincount(whole) / 10_000 - 1 / 3).max() < 0.02
    assert (whole != hashed_folds(np.arange(10_000), 3, 6)).mean() > 0.5
