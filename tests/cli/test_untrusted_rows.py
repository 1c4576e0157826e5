"""Rows that a model folder or a page could not hold, and files larger than the memory, at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lampnet_command import SMALL, here, lampnet, texts, write_jsonl

HALF = {"id": "row2", "text": "rome", "labels": ["rome", "\ud800"]}


@pytest.fixture
def half(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (*texts(2), HALF)))
    return path


@pytest.mark.parametrize("command", ["train", "prepare", "info", "compare"])
def test_half_a_character_in_a_label(command: str, half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = half.parent / "out"
    arguments = {
        "train": ("train", half, "--out", out, *SMALL, "--epochs", 1),
        "prepare": ("prepare", half, "--out", out),
        "info": ("data", "info", half),
        "compare": ("compare", half, "--methods", "constant"),
    }[command]
    assert here(*arguments) == 2
    printed = capsys.readouterr().err
    assert "rows.jsonl, line 3: the label '\\ud800' holds half a character (a lone surrogate)" in printed
    assert not out.exists()


def test_half_a_character_in_an_id(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "rome and rain", "id": "a"}\n{"text": "cup", "id": "\\udfff"}\n')
    assert here("predict", trained / "model", rows, "--out", tmp_path / "out.jsonl") == 2
    assert "rows.jsonl, line 2: the id '\\udfff' holds half a character" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_labels_are_not_looked_at_when_predicting(trained: Path, half: Path) -> None:
    assert here("predict", trained / "model", half, "--out", half.parent / "out.jsonl") == 0
    assert len((half.parent / "out.jsonl").read_text().splitlines()) == 3


def test_the_memory_limit_is_named_and_can_be_raised(trained: Path, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", texts(100))
    for arguments in (
        ("data", "info", rows),
        ("train", rows, "--out", tmp_path / "model"),
        ("predict", trained / "model", rows),
        ("evaluate", trained / "model", rows),
    ):
        printed = lampnet(*arguments, "--max-memory", "10KB").mistake()
        assert "above the limit of 10 KB; if the file is genuine, raise the limit with --max-memory" in printed
    assert lampnet("data", "info", rows, "--max-memory", "1MB").code == 0
    assert lampnet("data", "info", rows, "--max-memory", "lots").mistake().endswith("such as 16GB or 500MB")


def test_the_limit_ends_with_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", texts(100))
    assert here("data", "info", rows, "--max-memory", "10KB") == 2
    assert here("data", "info", rows) == 0
