"""The most probable label set as a whole: against every set of a small joint model, and from untrusted JSON."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from lampnet import LaMPClassifier
from lampnet.errors import ConfigError, LampnetError, ModelFolderError
from lampnet.evaluation.choose_rules import Decisions, choose_decisions
from lampnet.evaluation.whole_set import WholeSet, choose_whole_set, log_odds


def some_labels(seed, n=40, L=4):
    random = np.random.default_rng(seed)
    kinds = random.random((5, L)) < 0.5
    return kinds[random.integers(5, size=n)].astype(np.float32)


def slow(rule, p):
    """The best of all 2^L sets by the formula."""
    counts, priors = dict(zip(rule.sets, rule.counts, strict=True)), np.asarray(rule.priors)

    def score(labels):
        member = np.isin(np.arange(len(p)), labels)
        independent = np.where(member, priors, 1 - priors).prod()
        joint = (counts.get(labels, 0) + rule.pseudo_rows * independent) / (rule.rows + rule.pseudo_rows)
        return log_odds(p)[member].sum() + rule.weight * (np.log(joint) - np.log(independent))

    every = itertools.chain.from_iterable(itertools.combinations(range(len(p)), k) for k in range(len(p) + 1))
    return max(map(score, every)), score


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), weight=st.sampled_from([0.25, 1.0]), pseudo=st.sampled_from([1.0, 100.0]))
def test_no_set_is_more_probable_than_the_chosen_one(seed, weight, pseudo):
    rule = WholeSet.learned(some_labels(seed), weight, pseudo)
    proba = np.random.default_rng(seed).random((5, 4)).astype(np.float32)
    for p, chosen in zip(proba, rule.apply(proba), strict=True):
        best, score = slow(rule, p)
        assert score(tuple(np.flatnonzero(chosen).tolist())) == pytest.approx(best, abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_known_labels_are_never_contradicted(seed):
    random = np.random.default_rng(seed)
    rule = WholeSet.learned(some_labels(seed), 1.0, 1.0)
    proba = random.random((20, 4)).astype(np.float32)
    known = random.random((20, 4)) < 0.4
    proba[known] = np.round(proba[known])
    chosen = rule.apply(proba)
    np.testing.assert_array_equal(chosen[known], proba[known] == 1)


def test_a_row_is_decided_as_if_its_own_set_had_not_been_counted():
    y = np.array([[1, 1, 0]] * 5 + [[0, 0, 1]] * 5 + [[1, 0, 1]], dtype=np.float32)
    rule = WholeSet.learned(y, 1.0, 1.0)
    assert (0, 2) not in rule.sets  # it occurs once, in the row that would profit
    assert dict(zip(rule.sets, rule.counts, strict=True)) == {(0, 1): 4, (2,): 4}


def test_it_is_chosen_for_subset_accuracy_where_sets_say_more_than_labels():
    random = np.random.default_rng(0)
    kinds = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], dtype=np.float32)
    y = kinds[random.integers(3, size=400)]
    noisy = 1 / (1 + np.exp(-(2 * y - 1 + random.normal(0, 1.5, y.shape))))
    decisions = choose_decisions(y, noisy.astype(np.float32))
    assert decisions.best["subset_accuracy"] is decisions.whole_set
    assert decisions.best["example_f1"] is not decisions.whole_set
    # A row of labels that do not depend on each other gains nothing from their sets.
    y = (random.random((400, 6)) < 0.5).astype(np.float32)
    clear = np.where(y > 0, 0.9, 0.1).astype(np.float32)
    assert not isinstance(choose_decisions(y, clear).best["subset_accuracy"], WholeSet)
    read = Decisions.from_json(json.loads(json.dumps(decisions.to_json())), 6)
    assert read == decisions
    assert read.best["subset_accuracy"] is read.whole_set


def test_rows_with_an_unknown_label_are_left_out():
    y = np.array([[1, 1], [1, 1], [np.nan, 1], [0, np.nan]], dtype=np.float32)
    proba = np.full((4, 2), 0.5, dtype=np.float32)
    found = choose_whole_set(y, proba, np.arange(4) % 2)
    assert found is not None
    assert found[1].sets == ((0, 1),)
    assert found[1].rows == 2
    assert choose_whole_set(np.full((4, 2), np.nan), proba, np.arange(4) % 2) is None
    assert choose_whole_set(np.eye(2), proba[:2], np.arange(2)) is None  # no set occurs twice


@pytest.mark.parametrize(
    "change",
    [
        {"sets": [[1, 0]]},
        {"sets": [[0, 9]]},
        {"sets": [[-1]]},
        {"sets": [[True]]},
        {"sets": "0"},
        {"counts": [0]},
        {"counts": [1, 1]},
        {"priors": [0.5]},
        {"priors": [0.5, 1.0]},
        {"weight": float("nan")},
        {"pseudo_rows": 0},
        {"rows": 0},
        {"more": 1},
        {"sets": [[0]] * 3000, "counts": [1] * 3000},
    ],
)
def test_forged_rules_are_refused(change):
    good = {"rule": "whole_set", "sets": [[0, 1]], "counts": [1], "priors": [0.5, 0.5], "rows": 2}
    good |= {"weight": 1.0, "pseudo_rows": 1.0}
    assert WholeSet.from_json(good | {"sets": [[0, 1], []], "counts": [1, 1]}, 2).sets == ((0, 1), ())
    with pytest.raises(ModelFolderError):
        WholeSet.from_json(good | change, 2)


def test_a_classifier_decides_whole_sets_and_keeps_to_what_is_known(tmp_path):
    texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 8
    tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 8
    model = LaMPClassifier(preset="quick", decision="whole set").fit(texts, tags)
    seen = {frozenset(tag) for tag in tags}
    assert {frozenset(found) for found in model.predict_labels(texts)} <= seen
    given = model.predict_labels(["rome flights"], known=[{"travel": False, "sport": True}])[0]
    assert "sport" in given
    assert "travel" not in given
    loaded = LaMPClassifier.load(model.save(tmp_path / "model"))
    assert loaded.decision == "whole set"
    np.testing.assert_array_equal(loaded.predict(texts), model.predict(texts))
    assert [len(found) for found in model.predict_labels(texts[:2], top_k=1)] == [1, 1]
    with pytest.raises(ConfigError, match="whole sets"):
        LaMPClassifier(preset="quick", decision="whole sets").fit(texts, tags)
    classes = LaMPClassifier(preset="quick", decision="whole set").fit(texts, ["a", "b", "c", "d"] * 8)
    with pytest.raises(LampnetError, match="exactly one class"):
        classes.predict(texts)


def test_the_log_odds_of_what_is_not_known_stay_bounded():
    assert log_odds(np.array([[1e-30, 0.5, 1 - 1e-9]], dtype=np.float64))[0].tolist() == pytest.approx(
        [logit(1e-4), 0.0, logit(1 - 1e-4)], abs=1e-2
    )
