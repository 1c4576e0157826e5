"""The Newton solver reaches the objective of scikit-learn's solvers for the same problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear

CONVERGED = Stopping(newton_steps=100, gradient_steps=100, tolerance=1e-6)
LOSSES: tuple[Loss, ...] = ("logistic", "squared_hinge")
N_LABELS = 3


def problem(form: str, positives: float, unknown: float, seed: int) -> tuple[Any, np.ndarray]:
    """Features (200, 30), dense or in sparse unit rows, and labels (200, 3) with a share of positives and of NaN."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(200, 30)).astype(np.float32)
    if form == "sparse":
        X *= random.random(X.shape) < 0.1
        X = sparse.csr_matrix(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-6))
    scores = X @ random.normal(size=(30, N_LABELS)) + random.normal(size=(200, N_LABELS))
    Y = (scores > np.quantile(scores, 1 - positives, axis=0)).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return X, Y


class Objective:
    """The documented objective of one label in float64, written without the solver's code."""

    def __init__(self, X: Any, y: np.ndarray, C: float, loss: Loss) -> None:
        known = ~np.isnan(y)
        self.X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)[known]
        self.y, self.C, self.loss = y[known].astype(np.float64), C, loss

    def value(self, w: np.ndarray, b: float) -> float:
        return self.value_and_gradient(np.append(w, b))[0]

    def value_and_gradient(self, wb: np.ndarray) -> tuple[float, np.ndarray]:
        w, logits = wb[:-1].astype(np.float64), self.X @ wb[:-1] + wb[-1]
        if self.loss == "logistic":
            losses, slope = np.logaddexp(0, logits) - self.y * logits, expit(logits) - self.y
        else:
            sign = 2 * self.y - 1
            margin = np.maximum(0, 1 - sign * logits)
            losses, slope = margin**2, -2 * sign * margin
        gradient = np.append(self.X.T @ slope + w / self.C, slope.sum())
        return float(losses.sum() + w @ w / (2 * self.C)), gradient

    def of_scikit_learn(self) -> float:
        if self.loss == "logistic":
            model = LogisticRegression(C=self.C, tol=1e-8, max_iter=10_000)
        else:
            # liblinear penalises the intercept; divided by the square of the scaling, that no longer counts.
            model = LinearSVC(C=self.C, dual=False, tol=1e-9, max_iter=100_000, intercept_scaling=100.0)
        model.fit(self.X, self.y)
        return self.value(model.coef_[0], model.intercept_[0])

    def minimum(self) -> float:
        start = np.zeros(self.X.shape[1] + 1)
        options = {"maxiter": 10_000, "maxfun": 10**6, "ftol": 1e-14, "gtol": 1e-9}
        return float(
            optimize.minimize(self.value_and_gradient, start, jac=True, options=options, method="L-BFGS-B").fun
        )


def gaps(X: Any, Y: np.ndarray, C: float, loss: Loss, stopping: Stopping = CONVERGED) -> list[float]:
    """How far above the references the solver ends, relative, for every label."""
    W, b = fit_linear(Matrix(X), Y, C, loss, stopping=stopping)
    found = []
    for label in range(Y.shape[1]):
        objective = Objective(X, Y[:, label], C, loss)
        reached = objective.value(W[:, label], b[label])
        for reference in (objective.of_scikit_learn(), objective.minimum()):
            found.append(reached / reference - 1)
    return found


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(("form", "positives"), [("dense", 0.5), ("dense", 0.04), ("sparse", 0.5), ("sparse", 0.04)])
def test_the_objective_is_that_of_scikit_learn(form: str, positives: float, C: float, loss: Loss) -> None:
    X, Y = problem(form, positives, unknown=0.1, seed=0)
    assert np.abs(gaps(X, Y, C, loss)).max() < 1e-4


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["dense", "sparse"]),
    st.sampled_from([0.5, 0.2, 0.05]),
    st.sampled_from([0.0, 0.3]),
    st.floats(0.03, 1.0),
    st.sampled_from(LOSSES),
    st.integers(0, 10_000),
)
def test_the_objective_is_that_of_scikit_learn_on_any_data(
    form: str, positives: float, unknown: float, C: float, loss: Loss, seed: int
) -> None:
    X, Y = problem(form, positives, unknown, seed)
    assert np.abs(gaps(X, Y, C, loss)).max() < 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_the_default_stopping_is_near_the_minimum_on_sparse_unit_rows(loss: Loss) -> None:
    """The defaults stop early, which is enough to rank labels; more steps close the gap."""
    X, Y = problem("sparse", 0.2, unknown=0.1, seed=1)
    assert max(gaps(X, Y, 1.0, loss, Stopping())) < 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_with_unknown_labels_are_left_out(loss: Loss) -> None:
    X, Y = problem("dense", 0.5, unknown=0.0, seed=2)
    Y[150:] = np.nan
    W, b = fit_linear(Matrix(X), Y, 1.0, loss, stopping=CONVERGED)
    W_known, b_known = fit_linear(Matrix(X[:150]), Y[:150], 1.0, loss, stopping=CONVERGED)
    np.testing.assert_allclose(W, W_known, atol=1e-4)
    np.testing.assert_allclose(b, b_known, atol=1e-4)


def test_a_warm_start_ends_at_the_same_solution() -> None:
    X, Y = problem("dense", 0.3, unknown=0.1, seed=3)
    cold = fit_linear(Matrix(X), Y, 1.0, stopping=CONVERGED)
    warm = fit_linear(Matrix(X), Y, 1.0, start=fit_linear(Matrix(X), Y, 0.1), stopping=CONVERGED)
    for a, b in zip(cold, warm, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
