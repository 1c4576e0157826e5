"""Label sets as asked for from Python: so many labels, a threshold, at least one."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from typer.testing import CliRunner

from lampnet import LaMPClassifier
from lampnet.cli.app import build
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.evaluation.rules import Threshold

TEXTS = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 8
TAGS = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 8


@pytest.fixture(scope="module")
def model() -> LaMPClassifier:
    return LaMPClassifier(preset="quick").fit(TEXTS, TAGS)


def test_predictions_are_as_asked_for(model: LaMPClassifier) -> None:
    proba = model.predict_proba(TEXTS)
    assert (model.predict(TEXTS, top_k=2).sum(axis=1) == 2).all()
    np.testing.assert_array_equal(model.predict(TEXTS, threshold=0.3), proba >= 0.3)
    assert model.predict(TEXTS, threshold=1.0).sum() == 0
    best = model.predict_labels(TEXTS, threshold=1.0, at_least_one=True)
    assert best == [[model.classes_[p.argmax()]] for p in proba]
    assert all(len(labels) <= 1 for labels in model.predict_labels(TEXTS, threshold=0.1, top_k=1))


def test_known_labels_are_not_counted_nor_contradicted(model: LaMPClassifier) -> None:
    refused = [{"italy": False, "sport": False, "travel": False}]
    assert model.predict_labels(["rome"], known=refused, at_least_one=True) == [[]]
    assert model.predict_labels(["rome"], known=[["italy"]], threshold=1.0, at_least_one=True) == [["italy"]]
    assert len(model.predict_labels(["rome"], known=[["italy"]], top_k=1)[0]) == 2


def test_one_class_per_row_ranks_classes_in_predict_labels_only() -> None:
    single = LaMPClassifier(preset="quick").fit(TEXTS, ["travel", "sport", "sport", "none"] * 8)
    assert all(len(labels) == 2 for labels in single.predict_labels(TEXTS[:4], top_k=2))
    with pytest.raises(ConfigError, match="exactly one class"):
        single.predict(TEXTS[:4], top_k=2)
    np.testing.assert_allclose(single.predict_proba(TEXTS).sum(axis=1), 1)


def test_evaluate_says_what_the_command_says(model: LaMPClassifier, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    rows = tmp_path / "rows.jsonl"
    lines = ({"text": text, "labels": sorted(tags)} for text, tags in zip(TEXTS, TAGS, strict=True))
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    promising = copy(model).set_params(decision="recall>=0.5")
    for asked, options in ((model, ()), (promising, ("--decision", "recall>=0.5"))):
        done = CliRunner().invoke(build(), ["evaluate", str(folder), str(rows), "--json", *options])
        assert done.exit_code == 0
        stated = json.loads(done.stdout) | {"dataset": "rows"}
        found = json.loads(json.dumps(asked.evaluate(TEXTS, TAGS) | {"dataset": "rows"}))
        assert found == stated
    assert found["promise"]["recall"] >= 0.5
    page = tmp_path / "page"
    model.evaluate(TEXTS, TAGS, out=page)
    assert "italy" in (page / "report.html").read_text()
    with pytest.raises(DataError, match="overwrite"):
        model.evaluate(TEXTS, TAGS, out=page)
    model.evaluate(TEXTS, TAGS, out=page, overwrite=True)


def test_what_cannot_be_evaluated_is_said(model: LaMPClassifier) -> None:
    with pytest.warns(UserWarning, match="never seen"), pytest.raises(DataError, match="does not know"):
        model.evaluate(TEXTS, [{"chess"}] * len(TEXTS))
    single = LaMPClassifier(preset="quick").fit(TEXTS, ["travel", "sport", "sport", "none"] * 8)
    with pytest.raises(ConfigError, match="exactly one class"):
        single.evaluate(TEXTS, ["travel"] * len(TEXTS))


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(0, 1)),
    st.none() | st.integers(1, 6),
    st.none() | st.floats(0, 1),
    st.booleans(),
)
def test_asked_sets_row_by_row(proba: np.ndarray, k: int | None, threshold: float | None, least: bool) -> None:
    asked = AskedSets(top_k=k, threshold=threshold, at_least_one=least)
    found = asked.completed(asked.rule(Threshold(0.5)).apply(proba), proba)
    for p, chosen in zip(proba, found, strict=True):
        limit = threshold if threshold is not None else 0.5 if k is None else 0.0
        order = sorted(range(len(p)), key=lambda j: (-p[j], j))[: k or len(p)]
        expected = {j for j in order if p[j] >= limit}
        if least and not expected and p.max() > 0:
            expected = {int(p.argmax())}
        assert set(np.flatnonzero(chosen)) == expected


@pytest.mark.parametrize("asked", [{"top_k": 0}, {"top_k": 1.5}, {"threshold": 2}, {"threshold": "half"}])
def test_what_makes_no_sense_is_refused(model: LaMPClassifier, asked: dict) -> None:
    with pytest.raises(ConfigError, match="must be a"):
        model.predict(TEXTS[:1], **asked)


def test_a_promise_cuts_off_and_may_be_set_after_the_fit(model: LaMPClassifier, tmp_path: Path) -> None:
    promised = LaMPClassifier.load(model.save(tmp_path / "model")).set_params(decision="recall>=0.7")
    cut = promised.model_.promised("recall>=0.7").value
    np.testing.assert_array_equal(promised.predict(TEXTS), promised.predict_proba(TEXTS) >= cut)
    assert promised.predict_labels(TEXTS[:1], top_k=1) == model.predict_labels(TEXTS[:1], top_k=1)
    with pytest.raises(ConfigError, match="a promise holds where nothing is known"):
        promised.predict(TEXTS[:1], known=[["italy"]])
    with pytest.raises(ConfigError, match=r"recall>=0.999 cannot be promised"):
        promised.set_params(decision="recall>=0.999").predict(TEXTS)
    with pytest.raises(ConfigError, match="is not a promise"):
        LaMPClassifier(decision="f1>=0.5").fit(TEXTS, TAGS)


def test_rows_count_by_their_weights_in_score(model: LaMPClassifier) -> None:
    tags = [{"sport"}, *TAGS[1:]]  # the first is wrong
    assert model.score(TEXTS, tags) < model.score(TEXTS, TAGS)
    assert model.score(TEXTS, tags, sample_weight=[0.0] + [1.0] * 31) == pytest.approx(model.score(TEXTS[1:], TAGS[1:]))
    assert model.score(TEXTS, tags, sample_weight=[5.0] * 32) == pytest.approx(model.score(TEXTS, tags))
    for wrong in ([1.0], [-1.0] * 32, [0.0] * 32, ["x"] * 32, [np.nan] * 32):
        with pytest.raises(DataError, match="sample_weight"):
            model.score(TEXTS, TAGS, sample_weight=wrong)
