"""Methods without messages that take known labels, against slow versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.baselines.chain import KnownLabelChain
from lampnet.baselines.label_states import LinearStates, PerceptronStates


def labelled(seed: int, n: int = 60, L: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    first = random.random((n, 1)) < 0.5
    Y = ((random.random((n, L)) < 0.2) ^ first).astype(np.float32)
    return Y, random.normal(size=(n, L)).astype(np.float32)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_a_chain_clamps_known_labels_as_a_slow_one_does(seed: int) -> None:
    Y, logits = labelled(seed)
    chain = KnownLabelChain().fit(logits, Y)
    states = np.random.default_rng(seed).integers(-1, 2, (10, 4)).astype(np.int8)
    said = chain.logits(logits[:10], states)
    for row in range(10):
        earlier: list[float] = []
        for label in chain.order_:
            score = chain.intercepts_[label] + chain.slopes_[label] * logits[row, label]
            score += sum(chain.weights_[index, label] * value for index, value in enumerate(earlier))
            assert said[row, label] == pytest.approx(score, abs=1e-9)
            known = states[row, label]
            earlier.append(float(score >= 0) if known == 0 else float(known == 1))


def test_later_labels_of_a_chain_say_nothing_about_earlier_ones() -> None:
    Y, logits = labelled(0)
    chain = KnownLabelChain().fit(logits, Y)
    last, first = chain.order_[-1], chain.order_[0]
    states = np.zeros((5, 4), np.int8)
    states[:, last] = 1
    assert np.array_equal(chain.logits(logits[:5], states)[:, first], chain.logits(logits[:5], 0 * states)[:, first])
    states[:, last], states[:, first] = 0, 1
    assert not np.allclose(chain.logits(logits[:5], states)[:, last], chain.logits(logits[:5], -states)[:, last])


@pytest.mark.parametrize("method", [LinearStates, PerceptronStates])
def test_states_move_related_labels_and_an_unknown_label_is_not_a_false_one(
    method: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lampnet.baselines.label_states.EPOCHS", (40, 40))
    random = np.random.default_rng(0)
    first = random.random((400, 1)) < 0.5
    Y = np.hstack([first, first, random.random((400, 1)) < 0.5]).astype(np.float32)
    Y[:, 1] = np.where(random.random(400) < 0.3, np.nan, Y[:, 1])
    X, logits = np.zeros((400, 1)), np.zeros(Y.shape, np.float32)
    model = method(seed=1).fit(X, logits, Y)
    states = np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 0]], np.int8)
    true, false, unknown = model.logits(X[:3], logits[:3], states)[:, 1]
    assert true > unknown + 0.5 > unknown - 0.5 > false
    again = method(seed=1).fit(X, logits, Y).logits(X[:3], logits[:3], states)
    assert np.array_equal(again, model.logits(X[:3], logits[:3], states))
