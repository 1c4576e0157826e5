"""The page of an audit, in a real browser: decided with the keyboard, taken back, downloaded."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.explain.report.audit_folder import write_audit
from lampnet.pipeline.audit import Audit, audit

NAMES = (
    "<script>document.title='stolen'</script>",
    'quotes " and, commas\nand a line',
    "<img src=x onerror=\"document.title='stolen'\">",
    "\u202eright to left שלום",
)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    random = np.random.default_rng(0)
    Y = (random.random((80, 4)) < 0.4).astype(np.float32)
    texts = [" ".join([*(f"word{j} word{j}" for j in np.flatnonzero(row)), "<b>bold</b> </script>"]) for row in Y]
    Y[:8] = 1 - Y[:8]
    rows = Dataset(
        name="<i>rows</i>", kind="text", rows=texts, labels=sparse.csr_matrix(Y), label_names=NAMES,
        ids=tuple(f"<i>{i}</i>" for i in range(80)),
    )  # fmt: skip
    found = audit(rows, Config.preset("quick"))
    return write_audit(found, rows, tmp_path_factory.mktemp("audit")).page, found


def tiles(page: Any) -> list[int]:
    """findings, undecided, accepted, refused, skipped"""
    return [int(text) for text in page.eval_on_selector_all("#tiles dd", "all => all.map(e => e.textContent)")]


def downloaded(page: Any, tmp_path: Path) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.keyboard.press("d")
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_findings_are_decided_undone_and_downloaded_with_the_keyboard(
    watched: Any, audited: tuple[Path, Audit], tmp_path: Path
) -> None:
    path, found = audited
    page, n = watched.open(path), len(found.findings)
    assert n > 4
    for key in "arsa":
        page.keyboard.press(key)
    assert tiles(page) == [n, n - 4, 2, 1, 1]
    page.keyboard.press("u")
    assert tiles(page) == [n, n - 3, 1, 1, 1]
    assert page.locator('#list tr[aria-current="true"]').get_attribute("data-index") == "3"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("a")  # the third was skipped; it is accepted now
    assert tiles(page) == [n, n - 3, 2, 1, 0]
    lines = downloaded(page, tmp_path)
    assert path.name == "audit.html"
    assert [line["decision"] for line in lines] == ["accepted", "refused", "accepted"]
    for line, one in zip(lines, found.findings, strict=False):
        assert (int(line["row"]), line["id"], line["label"], line["kind"]) == (one.row, one.id, one.label, one.kind)
        assert line["given"] == str(int(one.given))
    page.keyboard.press("u")
    assert tiles(page) == [n, n - 3, 1, 1, 1]
    page.reload()
    assert tiles(page) == [n, n - 3, 1, 1, 1]  # the browser keeps them


def test_typing_into_the_search_decides_nothing_and_filters_hold(watched: Any, audited: tuple[Path, Audit]) -> None:
    path, found = audited
    page, n = watched.open(path), len(found.findings)
    page.fill("#search", "")
    page.locator("#search").press_sequentially("quotes")
    assert tiles(page)[1] == n
    shown = page.eval_on_selector_all("#list tbody tr", "all => all.map(e => Number(e.dataset.index))")
    assert shown == [i for i, one in enumerate(found.findings) if "quotes" in one.label]
    page.fill("#search", "")
    page.check('[name="kind"][value="wrong"]', force=True)
    shown = page.eval_on_selector_all("#list tbody tr", "all => all.map(e => Number(e.dataset.index))")
    assert shown == [i for i, one in enumerate(found.findings) if one.kind == "wrong"]


def test_hostile_names_and_texts_stay_text(watched: Any, audited: tuple[Path, Audit]) -> None:
    path, found = audited
    page = watched.open(path)
    assert page.title() == "<i>rows</i>: an audit of its labels"
    first = found.findings[0]
    assert first.id in page.inner_text("#finding-title")
    assert "<b>bold</b> </script>" in page.inner_text("#input")
    assert page.locator("main script, main img, main b").count() == 0
