"""The page of scores shows hostile names as text and states what it leaves out."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np

from lampnet.evaluation.by_label import by_label, confused_pairs
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.reliability import reliability
from lampnet.evaluation.scores import all_scores
from lampnet.explain.report import score_page as module
from lampnet.explain.report.score_page import score_page

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "\u202eright to left", "x" * 5000)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def scores(names: tuple[str, ...], split: str = "test") -> dict:
    random = np.random.default_rng(0)
    proba = random.random((40, len(names)))
    truth = (random.random(proba.shape) < proba).astype(float)
    decisions = choose_decisions(truth, proba)
    chosen = decisions.best["example_f1"].apply(proba)
    return all_scores(truth, proba, decisions, intervals=True) | {
        "dataset": "x", "split": split, "rows": 40, "labels": len(names), "label_sets": "the best rule",
        "calibration": reliability(truth, proba).to_json(), "by_label": by_label(names, truth, proba, chosen),
        "confused_pairs": confused_pairs(names, truth, chosen),
    }  # fmt: skip


def test_names_stay_text() -> None:
    page = score_page("</title><script>x</script>", scores(HOSTILE))
    parser = Tags()
    parser.feed(page)
    assert not {"script", "img", "iframe"} & set(parser.tags)
    shown = "".join(parser.text)
    for name in HOSTILE[:4]:
        assert name in shown
    assert "x" * 201 not in shown
    assert re.search(r"default-src 'none'; style-src 'sha256-", page)


def test_rows_of_the_training_and_labels_left_out_are_stated(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_LABELS", 2)
    page = score_page("x", scores(tuple("abcde"), "train"))
    assert "The model may have been trained on these train rows" in page
    assert "The other 3 labels have fewer rows." in page


def test_a_reliability_picture_has_a_dot_for_each_bin() -> None:
    found = scores(tuple("abc"))["calibration"]
    assert score_page("x", scores(tuple("abc"))).count("<circle") == len(found["bins"]) > 5
