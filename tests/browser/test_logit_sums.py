"""The sum of a logit on the report page: the explanation's numbers, for models with a network and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.explain.report.folder import write_folder
from lampnet.explain.report.page import write_report


def bars(page: Any, selector: str) -> list[tuple[str, float]]:
    read = "all => all.map(e => [e.dataset.source || e.dataset.index, e.dataset.value])"
    return [(name, float(value)) for name, value in page.eval_on_selector_all(selector, read)]


def test_bars_are_the_contributions_and_end_at_the_logit(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    e = digits.explanations[0]
    for label in (0, len(e.labels) - 1):
        page.locator(f'#stages [data-pick="{label}"]').click()
        shown, one = bars(page, "#sum li"), e.logit_sums[label]
        assert [name for name, _ in shown] == [source.source for source in one.contributions] + ["logit"]
        np.testing.assert_allclose([v for _, v in shown[:-1]], [s.value for s in one.contributions], atol=1e-4)
        assert sum(value for _, value in shown[:-1]) == pytest.approx(shown[-1][1], abs=1e-3)
        assert shown[-1][1] == pytest.approx(one.logit, abs=1e-4)


HOSTILE = "<img src=x onerror=\"document.title='stolen'\">"


def test_a_model_without_a_network_is_explained_by_its_sums_and_hostile_words_stay_words(
    watched: Any, tmp_path: Path
) -> None:
    texts = [f"{HOSTILE} red sea", "blue sky and sea", "red sky", "a blue fox"] * 8
    y = np.tile([[1, 0], [0, 1], [1, 0], [0, 1]], (8, 1))
    classifier = LaMPClassifier(preset="quick", random_state=0).fit(texts, y)
    path = write_report(tmp_path / "report.html", classifier.explain(texts, rows=[0]))
    page = watched.open(path)
    assert page.is_hidden("#network-section")
    assert page.is_hidden("#step")
    assert len(bars(page, "#sum li")) >= 3
    assert page.locator('#sum-terms [data-source="linear"] li').count() > 2
    assert HOSTILE in page.inner_text("#input")
    assert page.title() != "stolen"
    assert page.locator("img").count() == 0


def test_the_whole_set_of_a_model_without_a_network_has_no_messages(watched: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    classifier = LaMPClassifier(preset="quick", random_state=0).fit(X, (X[:, :2] > 0).astype(int))
    files = write_folder(classifier.model_, classifier._dataset(X), tmp_path / "report", [0, 1], pictures=1)
    assert [path.name.rsplit("_", 1)[1] for path in files.pictures] == ["stages.png", "stages.svg"]
    page = watched.open(files.test_set)
    assert page.is_hidden("#changed-section")
    assert page.is_hidden("#attention-section")
    assert page.locator("#per-label tbody tr").count() == 2
