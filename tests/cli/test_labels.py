"""`lampnet labels MODEL`: listing and changing the labels of a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from lampnet_command import here

QUICK = ("--preset", "quick", "--set", "training.threads=1", "--set", "model.base_learners=linear", "--quiet")


def write(path: Path, n: int, seed: int, names: tuple[str, ...] = ("heat", "damp", "wind")) -> Path:
    random = np.random.default_rng(seed)
    lines = ["a,b,c,tags"]
    for row in random.normal(size=(n, 3)).round(3):
        tags = ";".join(name for name, value in zip(names, row, strict=True) if value > 0.2)
        lines.append(",".join(map(str, row)) + "," + tags)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    assert here("train", write(folder / "rows.csv", 80, 0), *QUICK, "--out", folder / "m") == 0
    return folder / "m"


def labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    capsys.readouterr()
    assert here("labels", folder, "--json") == 0
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def predictions(folder: Path, rows: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    capsys.readouterr()
    assert here("predict", folder, rows, "--all-scores") == 0
    return [json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()]


def test_labels_are_changed_one_after_the_other(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = write(tmp_path / "test.csv", 10, 3)
    before = predictions(model, test, capsys)
    assert list(labels(model, capsys)) == ["damp", "heat", "wind"]
    assert here("labels", model, "rename", "damp", "rain", "--out", tmp_path / "1") == 0
    assert here("labels", tmp_path / "1", "merge", "heat", "wind", "--into", "storm", "--out", tmp_path / "2") == 0
    examples = write(tmp_path / "few.csv", 30, 4, ("heat", "fog", "wind"))
    asked = ("labels", tmp_path / "2", "add", "fog", examples, "--prior", "0.3", "--out", tmp_path / "3")
    assert here(*asked) == 0
    assert labels(tmp_path / "3", capsys)["fog"] == pytest.approx(0.3)
    assert here("labels", tmp_path / "3", "drop", "storm", "--out", tmp_path / "4") == 0
    assert list(labels(tmp_path / "4", capsys)) == ["rain", "fog"]
    after = predictions(tmp_path / "4", test, capsys)
    assert [row["rain"] for row in after] == pytest.approx([row["damp"] for row in before], abs=1e-6)
    assert here("labels", tmp_path / "4") == 0
    assert "0.3000  fog" in capsys.readouterr().out


def test_mistakes_leave_nothing_behind(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "x")
    few = write(tmp_path / "few.csv", 10, 4)
    for arguments, problem in (
        (("drop", "hat", *out), "the model has no label 'hat'; did you mean 'heat'"),
        (("drop", "heat"), "give --out DIR"),
        (("drop", "heat", "--out", model), "give --out DIR, another folder"),
        (("remove", "heat", *out), "labels cannot be 'remove'"),
        (("rename", "heat", *out), "labels rename takes OLD NEW"),
        (("merge", "heat", "wind", *out), "labels merge takes NAME NAME ... --into NEW"),
        (("add", "fog", few, *out), "no row has the label 'fog'"),
        (("add", "heat", few, *out), "the model has a label 'heat' already"),
        (("add", "fog", tmp_path / "none.csv", *out), "there is no data set, folder or file"),
    ):
        assert here("labels", model, *arguments) == 2
        assert problem in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


def test_rows_labelled_before_an_edit_can_still_be_scored(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = write(tmp_path / "test.csv", 40, 3)
    assert here("labels", model, "rename", "damp", "rain", "--out", tmp_path / "1") == 0
    assert here("labels", tmp_path / "1", "merge", "heat", "wind", "--into", "storm", "--out", tmp_path / "2") == 0
    assert here("labels", tmp_path / "2", "rename", "storm", "Storm", "--out", tmp_path / "3") == 0
    new = test.read_text().replace("damp", "rain").replace("heat;wind", "Storm").replace("heat", "Storm")
    (tmp_path / "new.csv").write_text(new.replace("wind", "Storm").replace("Storm;rain;Storm", "rain;Storm"))
    scores = []
    for rows in (test, tmp_path / "new.csv"):
        capsys.readouterr()
        assert here("evaluate", tmp_path / "3", rows, "--json") == 0
        shown = capsys.readouterr()
        scores.append(json.loads(shown.out))
        told = "labels as they were before the model's were edited: 'damp' is 'rain', 'heat' is 'Storm', 'wind' is"
        assert (told in shown.err) == (rows == test)
    assert scores[0]["by_label"] == scores[1]["by_label"]
    assert here("labels", tmp_path / "3", "drop", "rain", "--out", tmp_path / "4") == 0
    assert here("evaluate", tmp_path / "4", test, "--json") == 0
    assert "'damp' is dropped" in capsys.readouterr().err
