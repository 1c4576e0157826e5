"""What is revealed of rows, and the scores of the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from lampnet.errors import ConfigError
from lampnet.evaluation.known_regimes import (
    Prediction,
    Regime,
    known_scores,
    mean_row_precision,
    reveal,
    unrevealed,
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["positives:1", "positives:3", "share:25", "share:75"]))
def test_reveals_are_true_and_leave_a_true_label(seed, text):
    random = np.random.default_rng(seed)
    Y = (random.random((12, 7)) < 0.4).astype(float)
    Y[random.random(Y.shape) < 0.1] = np.nan
    regime = Regime.read(text)
    states, rows = reveal(Y, regime, seed)
    assert (Y[states == 1] == 1).all()
    assert (Y[states == -1] == 0).all()
    left = (unrevealed(Y, states) == 1).sum(axis=1)
    assert (left[rows] > 0).all()
    if regime.kind == "positives":
        assert (states[rows].sum(axis=1) == regime.amount).all()
        assert (rows == ((Y == 1).sum(axis=1) > regime.amount)).all()
    again, _ = reveal(Y, regime, seed)
    np.testing.assert_array_equal(states, again)


def test_a_share_is_a_share_of_all_labels():
    states, rows = reveal((np.random.default_rng(0).random((400, 50)) < 0.2).astype(float), Regime("share", 25), 1)
    assert 0.23 < (states != 0).mean() < 0.27
    assert rows.all()
    assert 0.15 < (states == 1).sum() / (states != 0).sum() < 0.25


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_mean_over_rows_is_that_of_scikit_learn(seed):
    random = np.random.default_rng(seed)
    Y = (random.random((6, 8)) < 0.4).astype(float)
    Y[random.random(Y.shape) < 0.2] = np.nan
    scores = random.permutation(Y.size).reshape(Y.shape).astype(float)
    expected = []
    for y, s in zip(Y, scores, strict=True):
        there = ~np.isnan(y)
        if y[there].any():
            expected.append(average_precision_score(y[there], s[there]))
    found = mean_row_precision(Y, scores)
    assert np.isnan(found) if not expected else found == pytest.approx(np.mean(expected))


def test_scores_do_not_see_what_was_revealed():
    Y = np.array([[1.0, 1.0, 0.0, 0.0]])
    states = np.array([[1, 0, 0, -1]], np.int8)
    wrong_about_known = Prediction(np.array([[0.0, 0.9, 0.1, 1.0]]), np.array([[False, True, False, True]]))
    alone = Prediction(np.array([[0.9, 0.1, 0.2, 0.0]]), np.array([[True, False, True, False]]))
    assert known_scores(Regime("positives", 1), Y, states, wrong_about_known, alone) == {
        "regime": "positives:1",
        "rows": 1,
        "map": 1.0,
        "map_without": 0.5,
        "example_f1": 1.0,
        "example_f1_without": 0.0,
    }


@pytest.mark.parametrize(
    "text", ["positives", "positives:0", "share:100", "share:-5", "some:3", "share:x", "share:²", ""]
)
def test_what_is_no_regime_gets_a_sentence(text):
    with pytest.raises(ConfigError, match=r"there is no regime .*; give positives:1, positives:3, share:25"):
        Regime.read(text)
