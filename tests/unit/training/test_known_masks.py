"""The masks of training rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.training.known_masks import MOST_REFUSED, PROMISING, draw_known


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_what_is_known_is_true_of_the_row(seed):
    random = np.random.default_rng(seed)
    Y = (random.random((20, 6)) < 0.4).astype(np.float32)
    Y[random.random(Y.shape) < 0.2] = np.nan
    states = draw_known(Y, random.normal(size=Y.shape), random)
    assert (Y[states == 1] == 1).all()
    assert (Y[states == -1] == 0).all()
    assert (states[np.isnan(Y)] == 0).all()


def test_the_three_kinds_of_rows_are_there():
    random = np.random.default_rng(0)
    Y = np.zeros((3000, 60), np.float32)
    Y[:, :5] = 1
    logits = np.broadcast_to(-np.arange(60.0), Y.shape)
    states = draw_known(Y, logits, random)
    false, true = (states == -1).sum(axis=1), (states == 1).sum(axis=1)
    nothing = (false + true) == 0
    assert 0.3 < nothing.mean() < 0.45  # a few of the others draw nothing too
    assert set(true[false == 0]) == {0, 1, 2, 3, 4, 5}
    many = false > MOST_REFUSED
    assert 0.2 < many.mean() < 0.34
    assert 0.3 < (states[many] != 0).mean() < 0.6
    refused = states[(false > 0) & (false <= MOST_REFUSED) & (true > 0)]
    promising = (refused[:, :PROMISING] == -1).sum() / (refused == -1).sum()
    assert promising > 0.9  # the others are rows of which a small share is known


def test_the_same_seed_draws_the_same_masks():
    Y = (np.random.default_rng(0).random((50, 10)) < 0.3).astype(np.float32)
    first, second = (draw_known(Y, Y, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_rows_without_any_label_or_any_row_at_all():
    empty = draw_known(np.zeros((9, 3), np.float32), np.zeros((9, 3)), np.random.default_rng(0))
    assert (empty <= 0).all()
    assert draw_known(np.zeros((0, 3), np.float32), np.zeros((0, 3)), np.random.default_rng(0)).shape == (0, 3)
