"""The tutorials' code runs as it is printed, and prints what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pages.tutorials import DOCS, PAGES, blocks, differences, run

ROOT = DOCS.parent
NEEDS = {"molecules.md": "rdkit", "serve-it.md": "uvicorn", "missing-labels.md": "pandas"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_runs_as_printed(page: Path, tmp_path: Path) -> None:
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = page.read_text(encoding="utf-8")
    assert len(blocks(text)) >= 3
    assert not differences(text, run(page, tmp_path)), f"run: python benchmarks/tutorials.py docs/{page.name}"


def test_no_shown_output_is_empty() -> None:
    for page in PAGES:
        shown = [block.shown for block in blocks(page.read_text(encoding="utf-8")) if block.shown is not None]
        assert all(output.strip() for output in shown), f"an empty output in {page.name}: benchmarks/tutorials.py"


def test_a_failing_block_fails_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```sh\nfalse\n```\n")
    with pytest.raises(RuntimeError, match="the shell ended"):
        run(page, tmp_path)
    page.write_text("```python\nraise ValueError('no')\n```\n")
    with pytest.raises(ValueError, match="no"):
        run(page, tmp_path)


def test_the_example_leaves_a_model_and_rows_to_tag(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples" / "tag_texts.py", tmp_path / "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "demo" / "emotions-model" / "model.json").is_file()
    assert (tmp_path / "demo" / "comments.csv").read_text(encoding="utf-8").startswith("text\n")
