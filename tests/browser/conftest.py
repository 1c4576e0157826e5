"""A real browser, and small reports for it to open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.explain.explain_rows import explain
from lampnet.explain.explanation import Explanation
from lampnet.explain.faithfulness import measure
from lampnet.explain.report.page import write_report
from lampnet.explain.report.whole_set import WholeSet, summarise
from lampnet.explain.report.whole_set_page import whole_set_page
from lampnet.pipeline.fit import fit
from lampnet.readers.named.digit_scenes import load_digit_scenes

HOSTILE_LABELS = (
    "<script>document.title='stolen'</script>",
    "<img src=x onerror=\"document.title='stolen'\">",
    "quotes \" ' ` and &amp; </title>",
    "\u202eright to left שלום",
    "🙂 emoji \u2028 line",
    "long " + "x" * 5000,
)
SMALL = {
    "model.width": 16, "model.heads": 2, "training.epochs": 2, "training.threads": 1, "training.batch_size": 16,
    "training.warmup_steps": 2,
}  # fmt: skip


@dataclass
class Watched:
    """A page together with all that went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: Path, anchor: str = "") -> Any:
        self.page.goto(path.as_uri() + anchor)
        return self.page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no chromium was found; install one or set CHROMIUM to its path")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def watched(browser: Any, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A fresh page; whatever it asks for beyond its own file, and every console error, fails the test."""
    size = getattr(request, "param", {})
    context = browser.new_context(
        viewport={"width": size.get("width", 1280), "height": 900}, color_scheme=size.get("scheme", "light")
    )
    page = context.new_page()
    seen = Watched(page)
    page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))

    def decide(route: Any) -> None:
        address = route.request.url
        own_file = address.startswith("file://") and route.request.is_navigation_request()
        if own_file or address.startswith("data:"):
            route.continue_()
        else:
            seen.requests.append(address)
            route.abort()

    context.route("**/*", decide)
    yield seen
    context.close()
    assert seen.errors == []
    assert seen.requests == []


@dataclass
class Report:
    """A written page and what it must show."""

    path: Path
    test_set: Path
    explanations: list[Explanation]
    found: WholeSet


def _report(folder: Path, data: Dataset, rows: range, train: Dataset | None = None, **changes: Any) -> Report:
    model = fit(Splits(train=train or data, valid=data), Config.preset("fast").updated(SMALL | changes))
    explanations = explain(model, data, rows)
    checks = measure(model, data, rows)
    path = write_report(
        folder / "report.html", explanations, faithfulness=checks, title=data.name, test_set_link="test_set.html"
    )
    found = summarise(model, data)
    test_set = folder / "test_set.html"
    test_set.write_text(whole_set_page(found, explained=list(rows), report_link="report.html"), encoding="utf-8")
    return Report(path, test_set, explanations, found)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Report:
    splits = load_digit_scenes()
    assert splits.test is not None
    return _report(
        tmp_path_factory.mktemp("digits"), splits.test.take(np.arange(40)), range(8),
        splits.train.take(np.arange(200)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    random = np.random.default_rng(0)
    words = ["<b>bold</b>", "</script>", "'quote\"", "🙂🙂", "עברית", "plain", "w" * 300]
    texts = [" ".join(random.choice(words, 12)) + f" {HOSTILE_LABELS[0]} number{i % 3}" for i in range(30)]
    labels = (random.random((30, len(HOSTILE_LABELS))) < 0.5).astype(np.float32)
    data = Dataset(
        name=HOSTILE_LABELS[0], kind="text", rows=texts, labels=sparse.csr_matrix(labels), label_names=HOSTILE_LABELS,
        ids=tuple(f"<i>{i}</i>" for i in range(30)),
    )  # fmt: skip
    return _report(tmp_path_factory.mktemp("hostile"), data, range(5), **{"model.base_learners": "none"})


@pytest.fixture(scope="session")
def artifacts() -> Path:
    folder = Path(__file__).resolve().parents[2] / "artifacts"
    folder.mkdir(exist_ok=True)
    return folder
