"""Explanations of rows some of whose labels are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.errors import LampnetError

TEXTS = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 8
TAGS = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 8


@pytest.fixture(scope="module")
def model() -> LaMPClassifier:
    small = {"training.warmup_steps": 5, "training.threads": 1, "training.keep_network": "always"}
    return LaMPClassifier(width=16, epochs=1, settings=small).fit(TEXTS, TAGS)


def test_what_is_known_is_marked_and_moves_the_rest(model: LaMPClassifier) -> None:
    rows, known = TEXTS[:3], [{"sport": True, "travel": False}, None, ["italy"]]
    plain, informed = model.explain(rows), model.explain(rows, known=known)
    for number, (before, after) in enumerate(zip(plain, informed, strict=True)):
        proba = model.predict_proba(rows, known=known)[number, after.label_index]
        np.testing.assert_allclose(after.proba, proba, atol=1e-5)
        chosen = model.predict(rows, known=known)[number, after.label_index]
        np.testing.assert_array_equal(after.chosen, chosen.astype(bool))
        np.testing.assert_array_equal(after.stage_proba, before.stage_proba[:, _order(before, after)])
    first, second, _ = informed
    states = dict(zip(first.labels, first.known.tolist(), strict=True))
    assert states == {"sport": 1, "travel": -1, "italy": 0}
    assert "were known" in first.note
    assert second.known is None
    assert "were known" not in second.note
    assert json.loads(json.dumps(first.to_json()))["known"] == [{1: True, -1: False, 0: None}[s] for s in first.known]


def test_what_ifs_are_predictions_with_that_label_known(model: LaMPClassifier) -> None:
    known = [{"sport": True}]
    (found,) = model.explain(TEXTS[:1], known=known)
    assert found.what_if is not None
    for j, label in enumerate(found.labels):
        for k, truth in enumerate((True, False)):
            proba = model.predict_proba(TEXTS[:1], known=[known[0] | {label: truth}])[0, found.label_index]
            np.testing.assert_allclose(found.what_if[j, k], proba, atol=1e-5)


def test_a_label_known_by_its_probability_is_shown_with_it(model: LaMPClassifier) -> None:
    known = [{"sport": 0.25}]
    (found,) = model.explain(TEXTS[:1], known=known)
    np.testing.assert_allclose(
        found.proba, model.predict_proba(TEXTS[:1], known=known)[0, found.label_index], atol=1e-5
    )
    assert dict(zip(found.labels, found.to_json()["known"], strict=True)) == {
        "sport": 0.25,
        "travel": None,
        "italy": None,
    }
    for one in found.logit_sums:
        assert one.total() == pytest.approx(one.logit, abs=1e-4)


def test_mistakes_are_named(model: LaMPClassifier) -> None:
    with pytest.raises(LampnetError, match="no label 'nowhere'"):
        model.explain(TEXTS[:1], known=[["nowhere"]])


def _order(before, after):
    return [before.labels.index(label) for label in after.labels]
