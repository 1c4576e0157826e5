"""docs/reliability.md promises only what a test holds, and states the recorded figures."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reliability_page

ROOT = Path(__file__).parents[2]
TEXT = reliability_page.TEXT.read_text(encoding="utf-8")
PROMISES, _, NOT_PROMISED = TEXT.partition("## What is not promised")
ITEMS = re.split(r"^- ", PROMISES, flags=re.MULTILINE)[1:]


def test_the_page_states_the_recorded_figures() -> None:
    check = [sys.executable, ROOT / "benchmarks" / "reliability_page.py", "--check"]
    process = subprocess.run(check, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("promise", ITEMS, ids=lambda promise: re.sub(r"\W+", "-", promise[:30]))
def test_every_promise_names_tests_that_exist(promise: str) -> None:
    named = reliability_page.TEST.findall(promise)
    assert named, f"no test is named for: {promise}"
    for file, test in named:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (file, test)


def test_every_figure_names_the_code_it_was_measured_on() -> None:
    recorded = json.loads((ROOT / "docs" / "measurements" / "reliability.json").read_text())
    measured_on = recorded.pop("measured_on")
    assert set(measured_on) == set(recorded)
    for name in recorded:
        told = [what for what, names in reliability_page.MEASURED.items() if name.startswith(names)]
        assert len(told) == 1, name


def test_there_are_promises_and_limits_and_no_typed_figures() -> None:
    assert len(ITEMS) > 20
    assert NOT_PROMISED.count("\n- ") >= 5
    for sentence in re.findall(r"Tried:[^.]*", PROMISES):
        assert "{" in sentence, f"a figure that no command wrote: {sentence}"
