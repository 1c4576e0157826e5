"""The page of a whole test set, in a real browser."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.explain.report.whole_set import whole_set_data


def test_counts_scores_and_rows_are_those_of_the_set(watched: Any, digits: Any) -> None:
    page = watched.open(digits.test_set)
    found = digits.found
    assert page.inner_text("#tiles div:first-child dd") == str(len(found.ids))
    assert f"{found.scores['example_f1']:.3f}" in page.inner_text("#tiles")
    corrected = sum(step["corrected"] for step in found.changed)
    broken = sum(step["broken"] for step in found.changed)
    tiles = page.eval_on_selector_all("#changed-tiles dd", "all => all.map(e => e.textContent)")
    assert tiles[:2] == [str(corrected), str(broken)]
    assert page.locator("#rows tbody tr").count() == len(found.ids)
    assert page.locator("#scatter .dot").count() > 0
    strongest = page.locator("#pairs tbody tr").first
    attention = np.where(found.positives[:, None] >= 3, found.attention, 0)
    i, j = np.unravel_index(attention.argmax(), attention.shape)
    assert (strongest.get_attribute("data-to"), strongest.get_attribute("data-from")) == (str(i), str(j))


def test_rows_can_be_searched_and_lead_to_their_explanation(watched: Any, digits: Any) -> None:
    page = watched.open(digits.test_set)
    page.fill("#row-search", "test-3")
    shown = page.eval_on_selector_all("#rows tbody tr", "all => all.map(e => e.cells[0].textContent)")
    assert shown == [name for name in digits.found.ids if "test-3" in name]
    page.fill("#row-search", "")
    page.check("#only-wrong")
    wrong = (digits.found.chosen != (digits.found.truth > 0)).any(axis=1)
    assert page.locator("#rows tbody tr").count() == int(wrong.sum())
    page.uncheck("#only-wrong")
    page.fill("#row-search", "test-3")
    page.locator("#rows a").first.click()
    page.wait_for_selector("#stages")
    assert page.input_value("#row") == "3"


def test_labels_sort_by_any_column(watched: Any, digits: Any) -> None:
    page = watched.open(digits.test_set)
    page.click('#per-label [data-column="0"]')
    names = page.eval_on_selector_all("#per-label tbody tr", "all => all.map(e => e.cells[0].textContent)")
    assert names == sorted(names)
    page.click('#per-label [data-column="2"]')
    chosen = page.eval_on_selector_all("#per-label tbody tr", "all => all.map(e => Number(e.cells[2].textContent))")
    assert chosen == sorted(digits.found.chosen.sum(axis=0).tolist(), reverse=True)


def test_hostile_names_stay_text(watched: Any, hostile: Any) -> None:
    page = watched.open(hostile.test_set)
    assert hostile.found.label_names[0] in page.inner_text("#per-label")
    assert page.inner_text("#rows tbody tr:first-child td:first-child") == "<i>0</i>"
    assert page.title() == f"{hostile.found.data}: the whole test set"
    assert page.locator("main script, main img").count() == 0


def test_the_scatter_is_whole_and_its_axis_title_covers_no_point(watched: Any, digits: Any) -> None:
    page = watched.open(digits.test_set)
    boxes = page.eval_on_selector_all(
        "#scatter svg text, #scatter svg circle",
        """all => all.map(e => { const b = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();
           return [e.tagName, e.textContent, b.left - s.left, b.top - s.top, b.right - s.left, b.bottom - s.top,
                   s.width, s.height]; })""",
    )
    for _, text, left, top, right, bottom, width, height in boxes:
        inside = left >= -0.5 and top >= -0.5 and right <= width + 0.5 and bottom <= height + 0.5
        assert inside, text
    titles = [
        box for box in boxes if box[1] in ("attention", "share of the label's rows that have the other label too")
    ]
    assert len(titles) == 2
    for title in titles:
        for box in boxes:
            if box[0] == "circle":
                apart = box[2] >= title[4] or box[4] <= title[2] or box[3] >= title[5] or box[5] <= title[3]
                assert apart, (title, box)


def test_labels_that_never_occur_together_are_marked(watched: Any, digits: Any) -> None:
    page = watched.open(digits.test_set)
    cells = page.eval_on_selector_all("#pairs tbody tr", "all => all.map(e => e.cells[3].textContent)")
    never = [found == 0 for _, _, _, found, _ in whole_set_data(digits.found)["pairs"]]
    assert [cell == "never" for cell in cells] == never
    assert ("no sign that they belong together" in page.inner_text("#attention-lead")) == any(never)
