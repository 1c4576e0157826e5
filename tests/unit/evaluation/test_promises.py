"""Promises: equal to a slow reference, kept in at least the stated share of simulated cases, refused where too bold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lampnet.errors import ConfigError
from lampnet.evaluation.promises import CONFIDENCE, GRID, STARTS, Promise, Promises, hoeffding_bentkus


def sample(n: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities that are not calibrated."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 2, size=(n, 4))
    return (random.random(logits.shape) < expit(logits)).astype(float), expit(2 * logits + noise)


def row_losses(truth: np.ndarray, proba: np.ndarray, measure: str, value: float) -> list[float | None]:
    """Each row's loss, None for a row that has none."""
    losses: list[float | None] = []
    for y, p in zip(truth, proba, strict=True):
        true = {j for j in range(len(y)) if y[j] == 1}
        given_labels = {j for j in range(len(y)) if p[j] >= value and not math.isnan(y[j])}
        whole = true if measure == "recall" else given_labels
        losses.append(1 - len(true & given_labels) / len(whole) if whole else None)
    return losses


def slow_p(losses: list[float | None], alpha: float) -> float:
    n = len(losses)
    mean = sum(alpha if loss is None else loss for loss in losses) / n
    if mean >= alpha:
        hoeffding = 1.0
    else:
        h = (mean * math.log(mean / alpha) if mean else 0.0) + (1 - mean) * math.log((1 - mean) / (1 - alpha))
        hoeffding = math.exp(-n * h)
    most = math.ceil(n * mean - 1e-9)
    binomial = sum(math.comb(n, k) * alpha**k * (1 - alpha) ** (n - k) for k in range(most + 1))
    return min(1.0, hoeffding, math.e * binomial)


def slow_threshold(truth: np.ndarray, proba: np.ndarray, promise: Promise) -> float | None:
    alpha, error = 1 - promise.least, 1 - CONFIDENCE

    def passes(number: int, error: float) -> bool:
        return slow_p(row_losses(truth, proba, promise.measure, GRID[number]), alpha) <= error

    if promise.measure == "recall":
        kept = None
        for number in range(len(GRID)):
            if not passes(number, error):
                break
            kept = GRID[number]
        return kept
    found = []
    for start in STARTS:
        number = max(i for i in range(len(GRID)) if GRID[i] <= start)
        while number >= 0 and passes(number, error / len(STARTS)):
            found.append(GRID[number])
            number -= 1
    return min(found, default=None)


@given(st.integers(0, 2**31), st.sampled_from(["recall>=0.8", "recall>=0.5", "precision>=0.5", "precision>=0.7"]))
@settings(max_examples=12, deadline=None)
def test_thresholds_are_those_of_a_slow_reference(seed: int, text: str) -> None:
    truth, proba = sample(120, seed)
    truth[np.random.default_rng(seed).random(truth.shape) < 0.1] = np.nan
    promise = Promise.read(text)
    expected = slow_threshold(truth, proba, promise)
    promises = Promises.of(truth, proba)
    if expected is None:
        with pytest.raises(ConfigError, match="cannot be promised"):
            promises.threshold(promise)
    else:
        assert promises.threshold(promise).value == pytest.approx(expected)


@pytest.mark.parametrize("text", ["recall>=0.9", "precision>=0.7"])
@pytest.mark.parametrize("n", [100, 600])
def test_a_promise_is_kept_in_at_least_the_stated_share_of_200_samples(text: str, n: int) -> None:
    promise = Promise.read(text)
    truth, proba = sample(40_000, 12345)
    population = Promises.of(truth, proba)
    loss, counted = (
        (population.missed, population.labelled)
        if promise.measure == "recall"
        else (population.wrong, np.maximum(population.answered, 1))
    )
    reached = dict(zip(GRID.tolist(), (1 - loss / counted).tolist(), strict=True))
    kept = 0
    for seed in range(200):
        value = Promises.of(*sample(n, seed)).least_or_most(promise)
        kept += value is None or reached[value] >= promise.least  # what is not promised is not broken
    assert kept / 200 >= CONFIDENCE


def test_more_rows_cut_off_closer_to_what_was_asked_for() -> None:
    promise = Promise.read("recall>=0.9")
    few, many = (Promises.of(*sample(n, 0)).threshold(promise).value for n in (150, 20_000))
    truth, proba = sample(50_000, 9)
    recall = 1 - (Promises.of(truth, proba).missed / Promises.of(truth, proba).labelled)
    assert few < many
    assert 0.9 <= recall[np.searchsorted(GRID, many)] < 0.93


def test_what_cannot_be_promised_says_what_can() -> None:
    with pytest.raises(ConfigError, match=r"recall>=0.99 cannot be promised .* from 60 held-out rows; at most recall"):
        Promises.of(*sample(60, 0)).threshold(Promise.read("recall>=0.99"))
    random = np.random.default_rng(0)
    noise = Promises.of((random.random((300, 3)) < 0.05).astype(float), random.random((300, 3)))
    with pytest.raises(ConfigError, match=r"precision>=0.9 cannot be promised"):
        noise.threshold(Promise.read("precision>=0.9"))
    empty = Promises.of(np.full((5, 2), np.nan), np.zeros((5, 2)))
    with pytest.raises(ConfigError, match="nor can any other"):
        empty.threshold(Promise.read("recall>=0.5"))


@pytest.mark.parametrize("text", ["recall", "recall>0.9", "f1>=0.9", "recall>=1", "recall>=0", "precision>=1.5", None])
def test_what_is_no_promise_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a promise; write recall>=P"):
        Promise.read(text)


def test_p_values_are_valid() -> None:
    """Of losses whose mean is just alpha, at most a share delta has a p-value below delta."""
    random = np.random.default_rng(0)
    means = random.binomial(1, 0.1, size=(5000, 80)).mean(axis=1)
    p = hoeffding_bentkus(means, 80, 0.1)
    for delta in (0.02, 0.1, 0.3):
        assert (p <= delta).mean() <= delta


def test_unlabelled_rows_and_labels_count_for_nothing() -> None:
    truth, proba = sample(50, 0)
    more = np.concatenate([truth, np.full((7, 4), np.nan)])
    one, two = Promises.of(truth, proba), Promises.of(more, np.concatenate([proba, np.ones((7, 4))]))
    for name, value in vars(one).items():
        np.testing.assert_array_equal(value, getattr(two, name), err_msg=name)
