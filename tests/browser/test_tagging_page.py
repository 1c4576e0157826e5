"""The tagging page in a real browser, before a real service."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from running_service import Running, model_of, serving, topic_rows

from lampnet import LaMPClassifier

HOSTILE = "<img src=x onerror=\"document.title='stolen'\"> </script><script>document.title='stolen'</script>"


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_of(tmp_path_factory.mktemp("tagged") / "topics")


@pytest.fixture(scope="module")
def service(topics: Path) -> Iterator[Running]:
    with serving(topics) as running:
        yield running


@pytest.fixture
def page(browser: Any, service: Running, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a fresh profile; errors on it and requests to anywhere else fail the test."""
    size = getattr(request, "param", {"width": 1280, "height": 800})
    context = browser.new_context(viewport=size, accept_downloads=True)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda fault: errors.append(str(fault)))
    own = (service.url, "data:", "blob:")
    opened.on("request", lambda sent: None if sent.url.startswith(own) else errors.append(sent.url))
    opened.goto(service.url + "/")
    opened.wait_for_selector("#model:has-text('labels')")
    yield opened
    assert not errors
    context.close()


def start(page: Any, rows: str) -> None:
    page.fill("#paste", rows)
    page.click("#take")
    page.wait_for_selector("#work:not([hidden])")
    settled(page)


def settled(page: Any) -> None:
    """The suggestions of the last key are there."""
    page.wait_for_selector("#labels-box:not([aria-busy])")


def suggested(page: Any) -> list[str]:
    found: list[str] = page.locator("#labels .name").all_text_contents()
    return found


def tagged(page: Any) -> list[dict[str, Any]]:
    with page.expect_download() as download:
        page.click("#jsonl")
    return [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]


def test_ten_rows_are_tagged_by_the_keyboard(page: Any, topics: Path) -> None:
    texts, truth = topic_rows(10)
    start(page, "\n".join(texts))
    for labels in truth:
        wanted = set(labels)
        while wanted:
            shown = suggested(page)
            first = next(number for number, name in enumerate(shown, start=1) if name in wanted)
            wanted.remove(shown[first - 1])
            page.keyboard.press(str(first))
            settled(page)
        page.keyboard.press("Enter")
        settled(page)
    rows = tagged(page)
    assert [row["text"] for row in rows] == texts
    assert [row["labels"] for row in rows] == [sorted(labels) for labels in truth]
    assert all(row["done"] for row in rows)
    assert page.locator("#count").text_content() == "Row 10 of 10, 10 done"


def test_every_click_moves_the_other_suggestions(page: Any, topics: Path) -> None:
    model = LaMPClassifier.load(topics)
    start(page, "report about nothing")
    for known in ({"cup": True}, {"cup": True, "rain": False}):
        label, value = list(known.items())[-1]
        page.click(f"button[aria-label='{'accept' if value else 'refuse'} {label}']")
        settled(page)
        expected = model.suggest("report about nothing", known=known)
        assert suggested(page) == [one["label"] for one in expected]
        percent = page.locator("#labels .proba").all_text_contents()
        assert percent == [f"{int(one['proba'] * 100 + 0.5)}%" for one in expected]
        moved = [sorted(one["known"].items(), key=lambda by: -abs(by[1])) for one in expected]
        chips = [f"{name} {by:+.1f}".replace("-", "−") for each in moved for name, by in each if abs(by) >= 0.1]
        assert page.locator("#labels .why.label").all_text_contents() == chips
        assert chips or len(known) > 1  # the first click moves something


def test_the_words_that_moved_the_selected_label_are_marked(page: Any) -> None:
    start(page, "😀😀 report about a cup and rome")
    for label in ("cup", "rome"):
        place = suggested(page).index(label)
        page.locator("#labels li").nth(place).locator(".name").click()
        assert page.locator("#labels li").nth(place).get_attribute("aria-current") == "true"
        assert label in page.locator("#row mark.for").all_text_contents()
        assert label in page.locator("#labels li").nth(place).locator(".why").first.text_content()
    assert page.locator("#row").text_content() == "😀😀 report about a cup and rome"


def test_the_known_labels_that_moved_the_selected_one_are_marked(page: Any, topics: Path) -> None:
    start(page, "report about nothing")
    page.click("button[aria-label='accept cup']")
    settled(page)
    for one in LaMPClassifier.load(topics).suggest("report about nothing", known=["cup"]):
        moved = one["known"]["cup"]
        page.locator("#labels .name", has_text=one["label"]).click()
        chip = page.locator("#known .chip")
        assert ("for" in chip.get_attribute("class").split()) is (moved >= 0.1)
        assert ("against" in chip.get_attribute("class").split()) is (moved <= -0.1)
        named = f"moves {one['label']} by {moved:+.1f}".replace("-", "−")
        assert (named in chip.get_attribute("aria-label")) is (abs(moved) >= 0.1)


def test_refused_undone_and_added_by_name(page: Any) -> None:
    start(page, "about rome\nabout a cup")
    first = suggested(page)[0]
    page.keyboard.press("Shift+Digit1")
    settled(page)
    assert page.locator("#known .no").text_content() == f"✗ {first}"
    page.keyboard.press("u")
    settled(page)
    assert page.locator("#known li").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("rain")
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator("#known .yes").text_content() == "✓ rain"
    question = page.locator("#question-label").text_content()
    page.keyboard.press("y")
    settled(page)
    assert f"✓ {question}" in page.locator("#known .yes").all_text_contents()
    page.keyboard.press("n")
    settled(page)
    assert page.locator("#known li").count() == 0
    page.keyboard.press("p")
    settled(page)
    assert page.locator("#known li").count() == 2


def test_tags_survive_a_lost_network_and_a_reload(page: Any) -> None:
    start(page, "about rome\nabout a cup")
    page.context.set_offline(True)
    first = suggested(page)[0]
    page.keyboard.press("1")
    page.wait_for_selector("#offline:not([hidden])")
    assert page.locator("#known .yes").text_content() == f"✓ {first}"
    page.context.set_offline(False)
    page.click("#retry")
    page.wait_for_selector("#offline", state="hidden")
    settled(page)
    assert first not in suggested(page)
    page.reload()
    page.wait_for_selector("#work:not([hidden])")
    assert page.locator("#known .yes").text_content() == f"✓ {first}"


def test_hostile_texts_and_tables(page: Any, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    body = io.StringIO()
    writer = csv.writer(body)
    writer.writerow(["id", "text", "labels"])
    writer.writerow(["=1+1", HOSTILE + '\nsecond line, "quoted"', "cup|rain|unknown"])
    table.write_text(body.getvalue())
    page.set_input_files("#file", table)
    page.wait_for_selector("#work:not([hidden])")
    settled(page)
    assert HOSTILE in page.locator("#row").text_content()
    assert page.title() == "lampnet: tag rows"
    known = sorted(page.locator("#known .yes").all_text_contents())
    assert known == ["✓ cup", "✓ rain", "✓ unknown (not a label of the model)"]
    with page.expect_download() as download:
        page.click("#csv")
    (row,) = csv.DictReader(io.StringIO(Path(download.value.path()).read_text()))
    assert row["id"] == "'=1+1"  # no formula
    assert row["labels"] == "cup|rain|unknown"  # the file's labels are not lost
    assert row["text"].startswith(HOSTILE)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_download_is_opened_again_as_it_was(page: Any, tmp_path: Path, form: str) -> None:
    table = tmp_path / "rows.csv"
    table.write_bytes('text;author;tags\r\n=a cup;Zoë;cup, rain\r\n"about ""rome""";007;\r\n'.encode("cp1252"))
    page.set_input_files("#file", table)
    page.wait_for_selector("#work:not([hidden])")
    settled(page)
    page.keyboard.press("Shift+Digit1")
    settled(page)
    refused = page.locator("#known .no").text_content().removeprefix("✗ ")
    page.keyboard.press("Enter")
    settled(page)
    first = tagged(page)
    with page.expect_download() as download:
        page.click(f"#{form}")
    again = tmp_path / f"again.{form}"
    download.value.save_as(again)
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#new")
    page.set_input_files("#file", again)
    page.wait_for_selector("#work:not([hidden])")
    settled(page)
    assert page.locator("#count").text_content() == "Row 2 of 2, 1 done"
    assert tagged(page) == first
    assert first == [
        {"text": "=a cup", "author": "Zoë", "labels": ["cup", "rain"], "refused": [refused], "done": True},
        {"text": 'about "rome"', "author": "007", "labels": [], "refused": [], "done": False},
    ]


def test_files_of_lines_and_of_json(page: Any, tmp_path: Path) -> None:
    lines, listed = tmp_path / "lines.txt", tmp_path / "rows.json"
    lines.write_text("about rome, and a cup\nabout rain, too\n")
    listed.write_text(json.dumps([{"text": "about rome"}, {"text": "a cup", "labels": ["cup"]}], indent=1))
    for path, texts in ((lines, lines.read_text().splitlines()), (listed, ["about rome", "a cup"])):
        page.set_input_files("#file", path)
        page.wait_for_selector("#work:not([hidden])")
        settled(page)
        assert [row["text"] for row in tagged(page)] == texts
        page.once("dialog", lambda dialog: dialog.accept())
        page.click("#new")


def test_rows_that_the_browser_cannot_keep_are_said_until_they_are_kept(page: Any) -> None:
    start(page, "about rome\n" + "a cup and " * 600_000)  # more than browsers keep for a site
    assert page.locator("#unkept").is_visible()
    page.keyboard.press("1")
    settled(page)
    assert page.locator("#unkept").is_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#new")
    assert not page.locator("#unkept").is_visible()


def test_tags_outlive_a_model_that_is_trained_again(browser: Any, tmp_path: Path) -> None:
    """Labels that are gone are shown and downloaded, and not sent; those that are new are suggested."""
    texts, labels = topic_rows(48)
    odd = ["constructor", "__proto__"]  # names that objects of JavaScript have by themselves

    def train(names: list[str]) -> None:
        made = LaMPClassifier(preset="quick", settings={"training.threads": 1}, base_learners="linear")
        sets = [
            [*(name for name in row if name in names), *names[-2:][: number % 3]] for number, row in enumerate(labels)
        ]
        made.fit(texts, sets).save(tmp_path / "topics")

    train(["rome", "cup", "rain"])
    with serving(tmp_path / "topics") as service:
        context = browser.new_context()
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda fault: errors.append(str(fault)))
        page.goto(service.url + "/")
        page.wait_for_selector("#model:has-text('3 labels')")
        start(page, json.dumps({"text": "about rome and a cup", "labels": ["rain"]}))
        train(["rome", "cup", *odd])
        service.log.wait_for("a new model is served")
        page.click("button[aria-label='accept cup']")
        page.wait_for_selector("#model:has-text('4 labels')")
        settled(page)
        for _ in range(2):
            assert page.locator("#problem").text_content() == ""
            known = page.locator("#known .yes").all_text_contents()
            assert sorted(known) == ["✓ cup", "✓ rain (not a label of the model)"]
            assert set(suggested(page)) == {"rome", *odd}
            page.reload()
            page.wait_for_selector("#work:not([hidden])")
            settled(page)
        for name in odd:
            page.click(f"button[aria-label='accept {name}']")
            settled(page)
        assert suggested(page) == ["rome"]
        (row,) = tagged(page)
        assert row["labels"] == sorted(["cup", "rain", *odd])
        assert not errors
        context.close()


def test_an_audit_shows_the_label_that_does_not_belong(page: Any) -> None:
    rows = [{"text": "report 1 about rome", "labels": ["rome", "rain"]}, {"text": "report 2 about rain", "labels": []}]
    start(page, "\n".join(map(json.dumps, rows)))
    page.check("#audit")
    settled(page)
    assert suggested(page)[0] == "rain"
    assert page.locator("#labels .why").first.text_content() == "given"
    page.click("#next")
    settled(page)
    assert suggested(page)[0] == "rain"
    assert page.locator("#labels .why").first.text_content() == "missing?"


@pytest.mark.parametrize("page", [{"width": 360, "height": 740}], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Any) -> None:
    start(page, "about rome " + "x" * 500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


#: the buttons that something else covers once they are scrolled into view
COVERED = """() => [...document.querySelectorAll('#labels-box button, #add-form button')].filter((one) => {
    one.scrollIntoView({block: 'nearest'});
    const box = one.getBoundingClientRect();
    return !one.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2));
}).map((one) => one.textContent)"""


@pytest.mark.parametrize("page", [{"width": 375, "height": 667}], indirect=True)
def test_on_a_phone_the_bar_at_the_bottom_leaves_the_suggestions_to_see(page: Any) -> None:
    start(page, "report about rome and a cup " * 20)
    bar = page.locator("nav").bounding_box()
    assert bar["y"] + bar["height"] <= 667  # always in reach
    assert bar["height"] < 667 / 10
    first = page.locator("#labels li").first.bounding_box()
    assert first["y"] + first["height"] <= bar["y"]  # without scrolling, however long the row
    assert page.evaluate(COVERED) == []


def test_everything_on_the_page_has_a_name(page: Any) -> None:
    start(page, "about rome")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, progress')].filter((one) =>
            !(one.textContent.trim() || one.getAttribute('aria-label') || (one.labels && one.labels.length)))
            .map((one) => one.outerHTML)"""
    )
    assert unnamed == []
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_the_openapi_page_loads_nothing_from_elsewhere(page: Any, service: Running) -> None:
    page.goto(service.url + "/docs")  # the fixture fails at any request to another place
    described = service.get("/openapi.json").json()["paths"]
    named = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert set(page.locator("h2").all_text_contents()) == named
    fields = page.locator("h2:has-text('POST /predict') + p + div code").all_text_contents()
    schema = described["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert fields == list(schema["properties"])
    assert fields[0] == "rows"
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.goto(service.url + "/")
    page.wait_for_selector("#model:has-text('labels')")


#: of every shown text its contrast with what lies behind it (WCAG 2.1), as text: ratio
CONTRASTS = """() => {
    const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => parts(colour).slice(0, 3)
        .map((value) => value / 255).map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
    const behind = (one) => {
        for (; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if ((parts(colour)[3] ?? 1) > 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].filter((node) => node.nodeType === 3);
        const text = own.map((node) => node.data.trim()).join(" ");
        if (!text.trim() || !one.checkVisibility() || one.matches("script, style, option")) continue;
        const [dark, bright] = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => a - b);
        found.push([text, (bright + 0.05) / (dark + 0.05)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    start(page, "report about rome and a cup\nreport about rain")
    page.keyboard.press("1")
    settled(page)
    page.keyboard.press("Shift+Digit1")
    settled(page)
    shown = page.evaluate(CONTRASTS)
    page.keyboard.press("?")
    shown += page.evaluate(CONTRASTS)
    assert len(shown) > 30
    assert [(text, ratio) for text, ratio in shown if ratio < 4.5] == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 300) is (scheme == "dark")
