"""Stacking weights against scikit-learn's logistic regression and by their promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lampnet.base_learners.stacking_weights import (
    BIAS_PULL,
    PULLS,
    SHARED_PULL,
    StackingWeights,
    choose_pull,
    cross_fit_weights,
    fit_shared,
    fit_weights,
)


def planted(n: int, L: int, weights_LK: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    g = random.normal(size=(n, L, weights_LK.shape[1])).astype(np.float32)
    p = expit((g * weights_LK).sum(-1) - 1.0)
    return g, (random.random((n, L)) < p).astype(np.float32)


def test_shared_weights_are_those_of_logistic_regression_with_one_intercept_per_label() -> None:
    g, Y = planted(3000, 3, np.array([[1.0, 0.5]] * 3), seed=0)
    fitted = fit_shared(g, Y)
    rows = np.concatenate([np.hstack([g[:, i], np.eye(3)[[i] * len(g)]]) for i in range(3)])
    model = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-8, max_iter=1000).fit(rows, Y.T.ravel())
    np.testing.assert_allclose(fitted.weights_LK[0], model.coef_[0, :2], atol=0.01)
    np.testing.assert_allclose(fitted.bias_L, model.coef_[0, 2:], atol=0.01)


def test_weights_per_label_are_found_where_labels_differ() -> None:
    apart = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    fold_n = np.arange(2000) % 5
    g, Y = planted(2000, 3, apart, seed=1)
    assert choose_pull(g, Y, fold_n) < np.inf
    np.testing.assert_allclose(fit_weights(g, Y, min(PULLS)).weights_LK, apart, atol=0.35)


def test_labels_that_are_alike_and_have_few_rows_keep_to_the_shared_weights() -> None:
    pulls = [choose_pull(*planted(40, 8, np.ones((8, 2)), seed), np.arange(40) % 5) for seed in range(6)]
    assert np.median(pulls) > min(PULLS)


def test_unknown_labels_count_for_nothing() -> None:
    g, Y = planted(400, 2, np.ones((2, 2)), seed=2)
    holes = Y.copy()
    holes[::2, 1] = np.nan
    odd = fit_weights(g[1::2], Y[1::2], 10.0)
    with_holes = fit_weights(g, holes, 10.0)
    # The second label has the odd rows only, in both; the weights shared with the first one differ a little.
    np.testing.assert_allclose(with_holes.weights_LK[1], odd.weights_LK[1], atol=0.15)


def test_every_fold_has_weights_that_never_saw_it() -> None:
    g, Y = planted(300, 2, np.ones((2, 2)), seed=3)
    fold_n = np.arange(300) % 3
    before = cross_fit_weights(g, Y, fold_n)
    changed = Y.copy()
    changed[fold_n == 1] = 1 - changed[fold_n == 1]
    pull = before.pull
    again = fit_weights(g[fold_n != 1], changed[fold_n != 1], pull)
    np.testing.assert_allclose(before.folds[1].weights_LK, again.weights_LK, atol=5e-3)


def test_a_learner_that_ranks_the_wrong_way_round_gets_no_weight() -> None:
    g, Y = planted(500, 2, np.array([[1.5, 0.0]] * 2), seed=4)
    g[..., 1] = -(2 * Y - 1)
    weights = fit_shared(g, Y).weights_LK
    assert (weights[:, 1] == 0).all()
    assert (weights[:, 0] > 1).all()


@pytest.mark.parametrize("n", [2, 5])
def test_tiny_and_one_sided_data_give_finite_weights(n: int) -> None:
    g = np.zeros((n, 2, 2), np.float32)
    for Y in (np.zeros((n, 2), np.float32), np.full((n, 2), np.nan, np.float32), np.ones((n, 2), np.float32)):
        fitted = cross_fit_weights(g, Y, np.arange(n) % 2).weights
        assert np.isfinite(fitted.weights_LK).all()
        assert np.isfinite(fitted.bias_L).all()


def test_the_minimum_is_one() -> None:
    """No step along any axis lowers the penalised loss."""
    g, Y = planted(200, 2, np.array([[1.0, 0.3]] * 2), seed=5)
    fitted = fit_shared(g, Y)

    def objective(a: np.ndarray, b: np.ndarray) -> float:
        z = (g.astype(np.float64) * a).sum(-1) + b
        prior = np.log((Y.sum(0) + 0.5) / (len(Y) + 0.5 - Y.sum(0)))
        pulled = SHARED_PULL * ((a - 0.5) ** 2).sum() + BIAS_PULL * ((b - prior) ** 2).sum()
        return float((np.logaddexp(0, z) - Y * z).sum() + 0.5 * pulled)

    a, b = fitted.weights_LK[0].astype(np.float64), fitted.bias_L.astype(np.float64)
    least = objective(a, b)
    for step in (0.05, -0.05):
        for i in range(2):
            moved_a, moved_b = a.copy(), b.copy()
            moved_a[i] += step
            moved_b[i] += step
            assert objective(moved_a, b) > least
            assert objective(a, moved_b) > least


def test_stacked_logits_are_the_weighted_sum() -> None:
    random = np.random.default_rng(0)
    weights = StackingWeights(random.normal(size=(3, 2)).astype(np.float32), random.normal(size=3).astype(np.float32))
    g = random.normal(size=(4, 3, 2)).astype(np.float32)
    expected = np.einsum("nlk,lk->nl", g, weights.weights_LK) + weights.bias_L
    np.testing.assert_allclose(weights.stacked(g), expected, atol=1e-6)
