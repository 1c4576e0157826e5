"""What moved a suggestion: words where they stand, columns by name, and the same amounts as in the explanation."""

from __future__ import annotations

import pandas as pd
import pytest

from lampnet import LaMPClassifier

TEXTS = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 8
TAGS = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 8


@pytest.fixture(scope="module")
def model() -> LaMPClassifier:
    return LaMPClassifier(preset="quick").fit(TEXTS, TAGS)


def test_words_are_named_where_they_stand(model: LaMPClassifier) -> None:
    text = "😀 Rome! The cup: rome"
    found = {one["label"]: one["parts"] for one in model.suggest(text)}
    (rome,) = [part for part in found["italy"] if part["part"] == "rome"]
    assert rome["moved"] > 0
    assert [text[start:end].lower() for start, end in rome["places"]] == ["rome", "rome"]
    against = [part for part in found["travel"] if part["part"] == "cup"]
    assert against[0]["moved"] < 0
    sizes = [abs(part["moved"]) for part in found["italy"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_amounts_are_those_of_the_explanation() -> None:
    text = "flights to the cup"
    linear = LaMPClassifier(preset="quick", base_learners="linear").fit(TEXTS, TAGS)
    (alone,) = linear.explain([text], labels=["italy", "sport", "travel"])
    wanted = {
        (one.label, term.name): term.value
        for one in alone.logit_sums
        for part in one.contributions
        for term in part.terms
    }
    for one in linear.suggest(text):
        assert one["parts"]
        for part in one["parts"]:
            same = [value for (label, name), value in wanted.items() if label == one["label"] and name == part["part"]]
            opening = wanted.get((one["label"], f"{part['part']} (opening)"), 0.0)
            assert part["moved"] == pytest.approx(sum(same) + opening, abs=1e-6)


def test_columns_are_named() -> None:
    table = pd.DataFrame({"height": [1.0, 2.0, 3.0, 4.0] * 10, "colour": ["red", "blue", "red", "blue"] * 10})
    tags = [{"warm"} if colour == "red" else {"cold"} for colour in table["colour"]]
    tags = [one | {"tall"} if height > 2 else one for one, height in zip(tags, table["height"], strict=True)]
    model = LaMPClassifier(preset="quick").fit(table, tags)
    found = {one["label"]: one["parts"] for one in model.suggest(table.iloc[[2]])}
    assert found["warm"][0]["part"].startswith("colour")
    assert found["tall"][0]["part"].startswith("height")
    assert found["tall"][0]["moved"] > 0


def test_a_model_without_base_learners_names_none() -> None:
    settings = {"training.warmup_steps": 2}
    model = LaMPClassifier(width=8, epochs=1, base_learners="none", settings=settings).fit(TEXTS, TAGS)
    assert all(one["parts"] == [] for one in model.suggest("rome"))


def test_changed_labels_are_not_given_the_parts_of_others() -> None:
    model = LaMPClassifier(preset="quick").fit(TEXTS, TAGS).drop_label("italy")
    found = model.suggest("rome wins")
    assert {one["label"] for one in found} == {"sport", "travel"}
    assert all(one["parts"] == [] for one in found)
