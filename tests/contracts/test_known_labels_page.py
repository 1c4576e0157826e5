"""The page on known labels shows what was measured, and its example runs on the public names."""

import subprocess
import sys
from pathlib import Path

import pytest

from lampnet import LaMPClassifier
from lampnet.experiments.known_comparison import FOLDER
from lampnet.experiments.result_files import read_results
from pages.known_labels import PAGE, page_with

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "writer",
    [
        "known_labels.py",
        "audits.py",
        "whole_sets.py",
        "suggestions.py",
        "known_trials.py",
        "audit_trials.py",
        "calibration.py",
        "promises.py",
        "serving.py",
        "continuing.py",
        "added_labels.py",
        "other_labels_logits.py",
        "label_hierarchies.py",
        "exported.py",
        "many_machines.py",
    ],
)
def test_the_table_is_written_from_the_measurements(writer: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / writer, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_method_of_the_example_exists() -> None:
    page = (ROOT / "docs" / "known-labels.md").read_text(encoding="utf-8")
    shown = [line.partition("model.")[2].partition("(")[0] for line in page.splitlines() if line.startswith("model.")]
    assert len(shown) == 5
    assert all(callable(getattr(LaMPClassifier, name)) for name in shown)


def test_the_comparison_is_written_from_the_results() -> None:
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    results = read_results(ROOT / "results" / FOLDER)
    assert results
    assert page_with(results, page) == page, "run: lampnet reproduce --known --page-only"
