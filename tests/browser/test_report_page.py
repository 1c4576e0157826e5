"""The report page, driven as a reader would and compared with the explanations behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.explain.report.page import write_report


def weights_shown(page: Any, selector: str, size: int) -> np.ndarray:
    """What the page highlights: data-weight by data-node."""
    shown = np.full(size, np.nan)
    pairs = page.eval_on_selector_all(selector, "all => all.map(e => [e.dataset.node, e.dataset.weight])")
    for node, weight in pairs:
        shown[int(node)] = float(weight)
    return shown


def choose(page: Any, name: str, value: int) -> None:
    page.locator(f'input[name="{name}"][value="{value}"]').check(force=True)


def test_rows_labels_steps_and_heads_show_the_explanations_numbers(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    for row in (0, 3):
        page.select_option("#row", str(row))
        e = digits.explanations[row]
        for label in (0, len(e.labels) - 1):
            page.locator(f'#stages [data-pick="{label}"]').click()
            assert page.inner_text("#selected-label") == e.labels[label]
            for step in range(e.steps):
                choose(page, "step", step)
                for head in (-1, 0, e.heads - 1):
                    choose(page, "head", head)
                    heads = slice(None) if head < 0 else slice(head, head + 1)
                    to_input = e.to_input[step, heads, label].mean(axis=0)
                    shown = weights_shown(page, "#input rect[data-node]", len(e.nodes))
                    np.testing.assert_allclose(shown, to_input, atol=3e-5)
                    to_labels = e.to_labels[step, heads].mean(axis=0)
                    edges = page.eval_on_selector_all(
                        "#network .edge", "all => all.map(e => [e.dataset.to, e.dataset.from, e.dataset.weight])"
                    )
                    assert edges
                    for i, j, weight in edges:
                        assert float(weight) == pytest.approx(to_labels[int(i), int(j)], abs=3e-5)
                    first = page.locator("#top-labels li").first
                    assert int(first.get_attribute("data-index")) == int(to_labels[label].argmax())


def test_the_brightest_patch_and_the_widest_arrow_are_the_most_attended(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    e = digits.explanations[0]
    page.locator('#stages [data-pick="0"]').click()
    light = page.eval_on_selector_all(
        "#input rect[data-node]", "all => all.map(e => [e.dataset.node, e.getAttribute('fill-opacity')])"
    )
    brightest = max(light, key=lambda pair: float(pair[1]))[0]
    assert int(brightest) == int(e.to_input[0].mean(axis=0)[0].argmax())
    into = page.eval_on_selector_all(
        "#network .edge.into", "all => all.map(e => [e.dataset.from, e.getAttribute('stroke-width')])"
    )
    widest = max(into, key=lambda pair: float(pair[1]))[0]
    weights = e.to_labels[0].mean(axis=0)[0].copy()
    weights[0] = 0
    assert int(widest) == int(weights.argmax())


def test_the_strip_shows_every_stage_and_the_decision(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    e = digits.explanations[0]
    cells = page.eval_on_selector_all(
        "#stages .cell", "all => all.map(e => [e.dataset.stage, e.dataset.label, e.dataset.value])"
    )
    assert len(cells) == len(e.stages) * len(e.labels)
    for stage, label, value in cells:
        assert float(value) == pytest.approx(e.stage_proba[e.stages.index(stage), int(label)], abs=1e-4)
    true = page.eval_on_selector_all("#stages tr.true", "all => all.map(e => Number(e.dataset.label))")
    assert e.truth is not None
    assert true == np.flatnonzero(e.truth > 0).tolist()
    chips = page.eval_on_selector_all("#summary [data-label]", "all => all.map(e => Number(e.dataset.label))")
    assert chips == np.flatnonzero(e.chosen | (e.truth > 0)).tolist()


def test_the_keyboard_suffices(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    page.locator('#stages [data-pick="0"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    e = digits.explanations[0]
    assert page.inner_text("#selected-label") == e.labels[2]
    assert page.evaluate("document.activeElement.dataset.pick") == "2"
    page.locator('input[name="head"]').first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('input[name=head]:checked').value") == "0"
    node = page.locator("#network .label-node").nth(1)
    node.focus()
    assert page.inner_text("#tip").startswith(e.labels[int(node.get_attribute("data-label"))])
    page.keyboard.press("Enter")
    assert page.inner_text("#selected-label") == e.labels[1]


def test_an_address_opens_its_row_and_the_checks_are_there(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path, "#row=5")
    assert page.input_value("#row") == "5"
    page.click("#next")
    assert page.evaluate("location.hash") == "#row=6"
    assert page.locator("#checks .check").count() == 2
    assert "Random" in page.inner_text('#checks [data-check="nodes"]')
    assert "Random" in page.inner_text('#checks [data-check="labels"]')


def test_hostile_words_and_labels_are_shown_as_text(watched: Any, hostile: Any) -> None:
    page = watched.open(hostile.path)
    for e in hostile.explanations:
        page.select_option("#row", str(e.row))
        names = page.eval_on_selector_all("#stages th .name", "all => all.map(e => e.textContent)")
        for shown, name in zip(names, e.labels, strict=True):
            assert shown == (name if len(name) <= 120 else name[:119] + "…")
        assert page.evaluate("document.getElementById('input').textContent").endswith(e.input["text"])
        for node, text in page.eval_on_selector_all(
            "#input mark", "all => all.map(e => [e.dataset.node, e.textContent])"
        ):
            assert text.lower() == e.nodes[int(node)].name
    assert page.title() == hostile.explanations[0].data
    assert page.locator("main script, main img, main b b, main i > i").count() == 0


SIZES = [
    pytest.param({"width": 1280, "scheme": "light"}, id="wide-light"),
    pytest.param({"width": 1280, "scheme": "dark"}, id="wide-dark"),
    pytest.param({"width": 360, "scheme": "light"}, id="phone-light"),
    pytest.param({"width": 360, "scheme": "dark"}, id="phone-dark"),
]


@pytest.mark.parametrize("watched", SIZES, indirect=True)
@pytest.mark.parametrize("name", ["digits", "hostile"])
def test_nothing_sticks_out_at_any_width_and_a_picture_is_kept(
    watched: Any, name: str, request: pytest.FixtureRequest, artifacts: Path
) -> None:
    report = request.getfixturevalue(name)
    for path in (report.path, report.test_set):
        page = watched.open(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        kept = artifacts / f"{name}_{path.stem}_{request.node.callspec.id}.png"
        page.screenshot(path=str(kept), full_page=True)
        assert kept.stat().st_size > 10_000


def test_the_toggle_turns_light_into_dark(watched: Any, digits: Any) -> None:
    page = watched.open(digits.path)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != before
    assert page.inner_text("#theme") == "Light"
    page.click("#theme")
    assert page.evaluate(colour) == before


def test_known_labels_are_marked_and_what_ifs_follow_the_selected_label(watched: Any, tmp_path: Path) -> None:
    texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 8
    tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 8
    small = {"training.warmup_steps": 5, "training.threads": 1}
    model = LaMPClassifier(width=16, epochs=1, settings=small).fit(texts, tags)
    found = model.explain(texts[:1], known=[{"sport": True, "travel": False}])
    page = watched.open(write_report(tmp_path / "report.html", found))
    chips = page.eval_on_selector_all("#summary .chips button", "all => all.map(e => [e.className, e.textContent])")
    assert ["given", True] in [[kind, "sport" in text] for kind, text in chips]
    assert ["refused", True] in [[kind, "travel" in text] for kind, text in chips]
    page.click(f'#stages [data-pick="{found[0].labels.index("sport")}"]')
    assert page.is_visible("#what-if-section")
    shown = page.eval_on_selector_all("#what-if tbody tr", "all => all.map(e => Number(e.dataset.index))")
    assert set(shown) <= {found[0].labels.index("italy")}  # the others are known
