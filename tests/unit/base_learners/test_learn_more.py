"""Base learners that learn from new rows beside what they learned before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize

from lampnet.base_learners import boosted, kernel, linear
from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import BaseLearner
from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack

CONVERGED = Stopping(60, 60, 1e-5)
LEARNERS: list[Callable[[], BaseLearner]] = [LinearLearner, KNNLearner, ForestLearner, BoostedLearner, KernelLearner]


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "ROUNDS", 40)


def rows(n: int, seed: int, n_labels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)).astype(np.float32)
    return X, np.float32(X[:, :n_labels] + 0.3 * random.normal(size=(n, n_labels)) > 0.2)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_pull_towards_given_weights_is_minimised(loss: Loss, C: float) -> None:
    X, Y = rows(50, 0, 1)
    random = np.random.default_rng(1)
    W0, b0 = random.normal(size=(6, 1)).astype(np.float32), random.normal(size=1).astype(np.float32)
    y, sign = Y[:, 0].astype(float), 2 * Y[:, 0].astype(float) - 1

    def objective(theta: np.ndarray) -> float:
        z = X @ theta[:6] + theta[6]
        own = np.logaddexp(0, z) - y * z if loss == "logistic" else np.maximum(0, 1 - sign * z) ** 2
        return float(own.sum() + ((theta - np.append(W0, b0)) ** 2).sum() / (2 * C))

    begin = np.append(W0, b0).astype(np.float64)  # in single precision it finds no slope
    slow = optimize.minimize(objective, begin, method="BFGS", options={"gtol": 1e-7}).x
    W, b = fit_linear(Matrix(X), Y, C, loss, (W0, b0), CONVERGED, centre=(W0, b0))
    assert np.allclose(np.append(W, b), slow, atol=2e-3)


@pytest.mark.parametrize("make", LEARNERS)
def test_out_of_fold_logits_of_new_rows_do_not_know_their_labels(
    make: Callable[[], BaseLearner], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The choice among several is made on all new rows.
    monkeypatch.setattr(linear, "MOVES", (0.1,))
    monkeypatch.setattr(boosted, "_best_rounds", lambda boosts: 20)
    monkeypatch.setattr(kernel, "_helps", lambda correction, left: True)
    X, Y = rows(300, 0)
    new, labels = rows(60, 1)
    fold_n = np.arange(60) % 4
    own = fold_n == 0
    other = labels.copy()
    other[own] = np.roll(labels[own], 1, axis=0)  # as often true as before, in other rows
    found = []
    for given in (labels, other):
        learner = make()
        learner.fit(X, Y, 0)
        found.append(learner.learn_more(new, given, 0, fold_n))
    assert np.allclose(found[0][own], found[1][own], atol=1e-5)
    assert not np.allclose(found[0][~own], found[1][~own], atol=1e-3)


@pytest.mark.parametrize("make", LEARNERS)
def test_both_old_and_new_rows_are_known_afterwards(make: Callable[[], BaseLearner]) -> None:
    """Old rows lie on one side of the space, new rows on the other, where the label follows another feature."""
    random = np.random.default_rng(0)

    def side(sign: float, feature: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = random.normal(size=(n, 4)).astype(np.float32)
        X[:, 0] = 3 * sign
        return X, np.float32(X[:, [feature]] > 0)

    def right(sign: float, feature: int) -> float:
        X, Y = side(sign, feature, 400)
        return float(((learner.logits(X) > 0) == (Y > 0)).mean())

    learner = make()
    learner.fit(*side(1.0, 1, 300), 0)
    before = right(-1.0, 2)
    learner.learn_more(*side(-1.0, 2, 300), 0, np.arange(300) % 5)
    assert right(-1.0, 2) > before + 0.1
    if make not in (LinearLearner, BoostedLearner):  # these correct what they said, on both sides alike
        assert right(1.0, 1) > 0.6


@pytest.mark.parametrize("make", LEARNERS)
def test_a_new_label_is_learned_from_the_new_rows(make: Callable[[], BaseLearner]) -> None:
    X, Y = rows(200, 0, 2)
    new, labels = rows(120, 1, 3)
    learner = make()
    learner.fit(X, Y, 0)
    out_of_fold = learner.learn_more(new, labels, 0, np.arange(120) % 5)
    assert out_of_fold.shape == (120, 3)
    test, truth = rows(200, 2, 3)
    logits = learner.logits(test)
    true = truth[:, 2] > 0
    assert logits[true, 2].mean() > logits[~true, 2].mean() + (0.1 if make is ForestLearner else 0.5)


def test_what_was_learned_can_be_stored_and_weights_of_the_stack_stay() -> None:
    names = ["linear", "knn", "forest", "boosted", "kernel"]
    X, Y = rows(150, 0, 2)
    new, labels = rows(80, 1, 3)
    stack = Stack(names)
    stack.fit(X, Y, 0)
    centre, spread = stack.centre, stack.spread
    logits = stack.learn_more(new, labels, 0, np.arange(80) % 5)
    assert logits.shape == (80, 3, 5)
    assert np.array_equal(stack.centre[:2], centre)
    assert np.array_equal(stack.spread, spread)
    again = restore_stack(names, stack.arrays(), 3)
    assert np.allclose(again.logits(new), stack.logits(new), atol=1e-6)


def test_new_rows_that_say_nothing_leave_boosted_trees_alone() -> None:
    X, Y = rows(400, 0)
    learner = BoostedLearner()
    learner.fit(X, Y, 0)
    before = learner.logits(X)
    random = np.random.default_rng(0)
    new, labels = rows(200, 1)
    noisy = np.float32(random.random(labels.shape) < 1 / (1 + np.exp(-learner.logits(new))))
    learner.learn_more(new, noisy, 0, np.arange(200) % 5)
    assert np.abs(learner.logits(X) - before).mean() < 0.3 * np.abs(before).mean()


def test_new_rows_that_say_nothing_leave_the_linear_weights_alone() -> None:
    X, Y = rows(400, 0)
    learner = LinearLearner()
    learner.fit(X, Y, 0)
    before = learner.weights.copy()
    new, labels = rows(200, 1)
    learner.learn_more(new, np.random.default_rng(0).permutation(labels), 0, np.arange(200) % 5)
    moved = np.abs(learner.weights - before).max()
    assert moved < 0.5 * np.abs(before).max()
