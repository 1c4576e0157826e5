"""Scores on pages are those of the result files, and of nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from pages import reproduction
from pages.results import write_page

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def test_the_results_page_is_written_from_the_result_files(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    write_page(ROOT / "results", page, DOCS / "research-notes.md")
    stored = (DOCS / "results.md").read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8") == stored, "run `lampnet reproduce --page-only`"


def test_the_reproduction_is_written_from_the_result_files(tmp_path: Path) -> None:
    (tmp_path / "measurements").symlink_to(DOCS / "measurements")
    reproduction.write_page(ROOT / "results", tmp_path / "reproduction.md")
    stored = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert (tmp_path / "reproduction.md").read_text(encoding="utf-8") == stored, "run `lampnet reproduce --page-only`"


@pytest.mark.parametrize("script", ["readme_scores.py", "ablations.py"])
def test_tables_written_by_scripts_are_up_to_date(script: str) -> None:
    check = [sys.executable, ROOT / "benchmarks" / script, "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
