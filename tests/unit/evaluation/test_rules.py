"""Decision rules against brute force, and their JSON form."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lampnet.errors import ConfigError, DataError, ModelFolderError
from lampnet.evaluation.rules import (
    ExactExpectedF1,
    ExpectedF1,
    PerLabelThreshold,
    Rule,
    Threshold,
    TopK,
    expected_f1_of_top_k,
    rule_from_json,
)

PROBABILITIES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 6)),
    elements=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])),
)


def expected_f1(p: np.ndarray, chosen: np.ndarray) -> float:
    """E[F1] of one label set under independence, over all truths."""
    total = 0.0
    for truth in itertools.product((0, 1), repeat=len(p)):
        t = np.asarray(truth)
        size = t.sum() + chosen.sum()
        if size:
            total += np.prod(np.where(t, p, 1 - p)) * 2 * (t * chosen).sum() / size
    return float(total)


@given(PROBABILITIES)
@settings(deadline=None, max_examples=40)
def test_exact_rule_finds_the_best_of_all_sets(proba: np.ndarray) -> None:
    for p, chosen in zip(proba, ExactExpectedF1().apply(proba), strict=True):
        best = max(expected_f1(p, np.asarray(s)) for s in itertools.product((0, 1), repeat=len(p)))
        assert expected_f1(p, chosen.astype(int)) == pytest.approx(best, abs=1e-9)


def slow_expected_f1_of_top_k(p: np.ndarray) -> np.ndarray:
    """The quadratic recursion of Ye et al. (2012); p is in descending order."""
    n = len(p)
    chance = np.zeros((n + 1, n + 1))  # of k1 true ones among the first k
    chance[0, 0] = 1
    for k in range(1, n + 1):
        chance[k] = chance[k - 1] * (1 - p[k - 1])
        chance[k, 1:] += chance[k - 1, :-1] * p[k - 1]
    inverse = np.concatenate([[0.0], 1 / np.arange(1, 2 * n + 2)])
    result = np.zeros(n)
    for k in range(n, 0, -1):
        k1 = np.arange(k + 1)
        result[k - 1] = (2 * k1 * chance[k, : k + 1] * inverse[k + k1]).sum()
        stop = 2 * (k - 1) + 1
        inverse[1:stop] = (1 - p[k - 1]) * inverse[1:stop] + p[k - 1] * inverse[2 : stop + 1]
    return result


@pytest.mark.parametrize(("n_labels", "shape"), [(40, 0.3), (300, 0.05), (300, 0.5)])
def test_integral_equals_the_recursion(n_labels: int, shape: float) -> None:
    q = np.sort(np.random.default_rng(0).beta(shape, 1, size=(3, n_labels)))[:, ::-1]
    head = max(30, int((q > 0.02).sum(axis=1).max()))
    fast = expected_f1_of_top_k(q, head, head)
    slow = np.stack([slow_expected_f1_of_top_k(row) for row in q])
    np.testing.assert_allclose(fast, slow[:, :head], atol=1e-8)
    counts = ExactExpectedF1().counts(q)
    np.testing.assert_array_equal(counts, slow.argmax(axis=1) + 1)


@given(PROBABILITIES, st.sampled_from([0.5, 1.0, 2.0]))
def test_plug_in_rule_against_a_loop(proba: np.ndarray, power: float) -> None:
    for p, chosen in zip(proba, ExpectedF1(power).apply(proba), strict=True):
        q = np.sort(p**power)[::-1]
        values = [2 * q[:k].sum() / (k + q.sum()) for k in range(1, len(q) + 1)]
        k = int(chosen.sum())
        if q.sum() == 0:
            assert k == 0
        else:
            assert values[k - 1] == pytest.approx(max(values))
            assert p[chosen].min() >= (p[~chosen].max() if k < len(p) else 0)


@given(PROBABILITIES, st.integers(1, 8))
def test_top_k_and_min_labels(proba: np.ndarray, k: int) -> None:
    top = TopK(k).apply(proba)
    assert (top.sum(axis=1) == min(k, proba.shape[1])).all()
    for p, chosen in zip(proba, top, strict=True):
        assert chosen.all() or p[chosen].min() >= p[~chosen].max()
    plain = Threshold(0.6).apply(proba)
    at_least = Threshold(0.6, min_labels=k).apply(proba)
    np.testing.assert_array_equal(plain, proba >= 0.6)
    np.testing.assert_array_equal(at_least, np.where((plain.sum(axis=1) < k)[:, None], plain | top, plain))


def test_ties_take_the_first_labels() -> None:
    proba = np.random.default_rng(0).choice([0.2, 0.5], size=(1, 300))
    expected = np.flatnonzero(proba[0] == 0.5)[:20].tolist()
    assert TopK(20).apply(proba).nonzero()[1].tolist() == expected


RULES = [
    Threshold(0.25),
    Threshold(0.0, min_labels=2),
    PerLabelThreshold((0.1, 0.9)),
    PerLabelThreshold((0.1, 0.9), min_labels=1),
    TopK(3),
    ExpectedF1(1.5),
    ExactExpectedF1(0.5),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_json_there_and_back(rule: Rule) -> None:
    again = rule_from_json(json.loads(json.dumps(rule.to_json())))
    assert again == rule
    assert rule.describe()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.sampled_from(RULES), st.data())
def test_arbitrary_json_is_refused_or_works(rule: Rule, data: st.DataObject) -> None:
    stored = rule.to_json()
    stored[data.draw(st.sampled_from([*stored, "extra"]))] = data.draw(JSON)
    try:
        again = rule_from_json(stored, n_labels=2)
    except ModelFolderError:
        return
    assert again.apply(np.array([[0.2, 0.7]])).shape == (1, 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "JSON object"),
        ({"rule": "thresold", "value": 0.1}, "did you mean 'threshold'"),
        ({"rule": "threshold"}, "lacks its field 'value'"),
        ({"rule": "threshold", "value": 0.1, "x": 1}, "no field"),
        ({"rule": "threshold", "value": float("nan")}, "from 0 to 1"),
        ({"rule": "threshold", "value": True}, "from 0 to 1"),
        ({"rule": "top_k", "k": 0}, "whole number"),
        ({"rule": "top_k", "k": 2.0}, "whole number"),
        ({"rule": "per_label_threshold", "values": [0.1, 0.2, 0.3]}, "3 thresholds, but the model has 2"),
        ({"rule": "per_label_threshold", "values": "ab"}, "tuple"),
        ({"rule": "expected_f1", "power": 0}, "from 0.01"),
    ],
)
def test_damaged_rules_are_named(data: object, words: str) -> None:
    with pytest.raises(ModelFolderError, match=words):
        rule_from_json(data, n_labels=2)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Threshold(1.5)
    with pytest.raises(DataError, match=r"3 labels.*2 thresholds"):
        PerLabelThreshold((0.1, 0.2)).apply(np.zeros((1, 3)))
    with pytest.raises(DataError, match="shape"):
        Threshold(0.5).apply(np.zeros(3))
    with pytest.raises(DataError, match="NaN"):
        Threshold(0.5).apply(np.array([[np.nan]]))
