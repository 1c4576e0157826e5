"""A learner on trial stays where the stack is clearly better with it, out-of-fold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.base_learners.earned_place import LEAST_GAIN, on_trial
from lampnet.base_learners.stack import Stack
from lampnet.data.weights import Weights


def logits(seed: int, *strengths: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    Y = np.float32(random.random((500, 3)) < 0.3)
    made = [a * (2 * Y - 1) + random.normal(size=Y.shape) for a in strengths]
    return np.stack(made, axis=-1).astype(np.float32), Y


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), learner=st.integers(0, 1))
def test_noise_is_left_out_and_news_is_kept(seed: int, learner: int) -> None:
    g, Y = logits(seed, *((0.0, 1.0) if learner == 0 else (1.0, 0.0)))
    noise = on_trial(g, learner, Y, 0)
    assert not noise.stays
    assert noise.with_it > noise.without * (1 - LEAST_GAIN)
    g, Y = logits(seed, 1.0, 1.0)
    news = on_trial(g, learner, Y, 0)
    assert news.stays
    assert news.with_it < news.without


def test_a_copy_of_another_learner_is_left_out() -> None:
    g, Y = logits(0, 1.0)
    assert not on_trial(np.concatenate([g, g], axis=-1), 1, Y, 0).stays


def test_rows_that_do_not_count_do_not_keep_it() -> None:
    """The learner is right about the first half of the rows only, and these count nothing."""
    g, Y = logits(1, 1.0, 0.0)
    g[:250, :, 1] += 4 * (2 * Y[:250] - 1)
    halves = np.arange(500) < 250
    for row_n, stays in ((np.where(halves, 0.0, 2.0), False), (np.where(halves, 2.0, 0.0), True)):
        assert on_trial(g, 1, Y, 0, weights=Weights(row_n, np.ones(3), np.ones(3))).stays == stays


def test_unknown_labels_do_not_count() -> None:
    g, Y = logits(2, 1.0, 1.0)
    unknown = Y.copy()
    unknown[::2, 1] = np.nan
    assert on_trial(g, 1, unknown, 0).stays
    changed = g.copy()
    changed[::2, 1] = 50.0
    assert on_trial(changed, 1, unknown, 0).with_it == pytest.approx(on_trial(g, 1, unknown, 0).with_it, rel=1e-4)


def test_a_stack_without_a_learner_is_that_of_the_others() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4)).astype(np.float32)
    Y = np.float32(X[:, :2] > 0)
    both, alone = Stack(["linear", "knn"]), Stack(["knn"])
    expected = alone.fit(X, Y, 0)
    found = np.delete(both.fit(X, Y, 0), 0, axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    fewer = both.without("linear")
    assert fewer.names == ("knn",)
    np.testing.assert_allclose(fewer.logits(X), alone.logits(X), atol=1e-5)
    for name, array in alone.arrays().items():
        np.testing.assert_allclose(fewer.arrays()[name], array, atol=1e-5)
