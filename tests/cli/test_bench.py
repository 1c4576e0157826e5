"""`lampnet bench --whole-fits`, whose fits run in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lampnet_command import lampnet

from lampnet.cli import bench
from lampnet.cli.app import run
from lampnet.runtime.folder_lock import claimed


def test_absent_data_are_told_in_one_sentence_and_leave_no_file(tmp_path: Path) -> None:
    finished = lampnet("bench", "--whole-fits", "emotions", "--out", "measured.json", folder=tmp_path)
    sentence = finished.mistake()
    assert "the data set emotions was looked for in" in sentence
    assert "lampnet data fetch emotions" in sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("asked", [["--quick"], ["--whole-fits", "synthetic"]])
def test_a_file_that_another_process_writes_is_refused_before_anything_is_measured(
    asked: list[str], tmp_path: Path
) -> None:
    with claimed(tmp_path, "measured.json"):
        finished = lampnet("bench", *asked, "--out", "measured.json", folder=tmp_path)
    assert "is writing to" in finished.mistake()
    assert not list(tmp_path.iterdir())


def test_the_file_is_there_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, out = ("latency", "start_up", "memory", "rivals", "batching", "machine"), tmp_path / "measured.json"
    out.write_text("of before")

    def measured(**options: Any) -> dict[str, Any]:
        assert out.read_text() == "of before"
        if not options["quick"]:
            raise KeyboardInterrupt
        return dict.fromkeys(names, 1)

    monkeypatch.setattr(bench, "import_from_clone", lambda name: SimpleNamespace(run=measured))
    assert run(["bench", "--out", str(out)]) == 130
    assert out.read_text() == "of before"
    assert run(["bench", "--quick", "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == dict.fromkeys(names, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["measured.json"]
    monkeypatch.setattr(bench, "import_from_clone", lambda name: SimpleNamespace(run=None))
    assert run(["bench", "--out", str(tmp_path / "no folder" / "measured.json")]) == 2


def test_a_fit_that_is_not_known_is_told_with_those_that_are() -> None:
    assert "synthetic" in lampnet("bench", "--whole-fits", "synthetik").mistake()
