"""`lampnet train NEW --start MODEL`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from lampnet_command import here

QUICK = ("--preset", "quick", "--set", "training.threads=1", "--quiet")


def write(path: Path, n: int, seed: int, names: tuple[str, ...] = ("heat", "damp")) -> Path:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).round(3)
    lines = ["a,b,c,tags"]
    for row in X:
        tags = ";".join(name for name, value in zip(names, row, strict=False) if value > 0.2)
        lines.append(",".join(map(str, row)) + "," + tags)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    assert here("train", write(tmp_path / "old.csv", 80, 0), *QUICK, "--out", tmp_path / "m") == 0
    return tmp_path / "m"


def test_a_new_folder_has_the_new_labels(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = write(tmp_path / "new.csv", 120, 1, ("heat", "damp", "wind"))
    before = (model / "model.json").read_bytes()
    assert here("train", new, "--start", model, *QUICK, "--out", tmp_path / "n") == 0
    assert (model / "model.json").read_bytes() == before
    described = json.loads((tmp_path / "n" / "model.json").read_text())
    assert described["label_names"] == ["damp", "heat", "wind"]
    assert described["metadata"]["continued"]["rows"]["train"] == 80
    test = write(tmp_path / "test.csv", 60, 2, ("heat", "damp", "wind"))
    assert here("evaluate", tmp_path / "n", test, "--json") == 0
    assert json.loads(capsys.readouterr().out)["best"]["micro_f1"] > 0.8


def test_what_cannot_be_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = write(tmp_path / "new.csv", 40, 1)
    for arguments, problem in (
        (("train", "--start", model, "--out", tmp_path / "x"), "give DATA with rows that the model has not seen"),
        (("train", new, "--start", model, "--out", model), "give another folder for the new model"),
        (
            ("train", new, "--start", model, "--out", tmp_path / "x", "--label-graph", "edgeless"),
            "--label-graph is as the model in",
        ),
        (
            ("train", new, "--start", model, "--out", tmp_path / "x", "--set", "model.width=8"),
            "model.width is as the model in",
        ),
        (("train", new, "--start", tmp_path / "none", "--out", tmp_path / "x"), "there is no model folder"),
    ):
        assert here(*arguments) == 2
        assert problem in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


def test_a_resume_from_another_start(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = write(tmp_path / "new.csv", 60, 1)
    assert here("train", new, "--start", model, *QUICK, "--out", tmp_path / "n") == 0
    assert here("train", new, *QUICK, "--out", tmp_path / "n", "--resume") == 2
    assert "was trained with start=" in capsys.readouterr().err
