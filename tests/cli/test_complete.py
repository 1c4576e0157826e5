"""`lampnet complete` as a user runs it: with a model, and by the rows themselves."""

from __future__ import annotations

import csv
import json

import pytest
from lampnet_command import Finished, here

LABELS = ("cup", "rain", "rome")


@pytest.fixture
def archive(tmp_path):
    """A table whose text gives the labels away; of every fifth row one label is unknown, and the last row's all are."""
    lines, truth = ["id,text," + ",".join(LABELS)], []
    for i in range(80):
        labels = [name for bit, name in enumerate(LABELS) if i >> bit & 1]
        cells = [str(int(name in labels)) for name in LABELS]
        truth.append([int(cell) for cell in cells])
        if i % 5 == 0:
            cells[i % 3] = ""
        if i == 79:
            cells = ["", "", ""]
        lines.append(
            f'"r,{i}",report about {" and ".join(labels) or "nothing"} {"and ".join(labels)},' + ",".join(cells)
        )
    path = tmp_path / "archive.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, truth


ASKED = ("--text-column", "text", "--label-columns", ",".join(LABELS), "--columns", "id=id", "--quiet")


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check(filled, truth):
    assert len(filled) == len(truth) == 80
    for i, (row, true) in enumerate(zip(filled, truth, strict=True)):
        assert row["id"] == f"r,{i}"
        for j, name in enumerate(LABELS):
            p = float(row[name])
            if i == 79 or (i % 5 == 0 and j == i % 3):
                assert 0 < p < 1
                assert (p > 0.5) == bool(true[j]), (i, name, p)
            else:
                assert p == true[j]


def test_an_archive_fills_itself(archive, tmp_path, capsys):
    path, truth = archive
    out = tmp_path / "filled.csv"
    assert here("complete", path, "--out", out, *ASKED) == 0
    assert "19 unknown labels of 80 rows are filled" in capsys.readouterr().out
    check(table(out), truth)


def test_a_model_fills_rows_and_both_forms_say_the_same(archive, tmp_path, capsys):
    path, truth = archive
    model = tmp_path / "model"
    assert here("train", path, "--out", model, "--preset", "quick", *ASKED) == 0
    assert here("complete", path, "--model", model, "--out", tmp_path / "filled.csv", "--quiet") == 0
    assert here("complete", path, "--model", model, "--out", tmp_path / "filled.jsonl", "--quiet") == 0
    filled = table(tmp_path / "filled.csv")
    check(filled, truth)
    lines = [json.loads(line) for line in (tmp_path / "filled.jsonl").read_text(encoding="utf-8").splitlines()]
    for line, row, true in zip(lines, filled, truth, strict=True):
        assert line["id"] == row["id"]
        assert line["scores"] == {name: float(row[name]) for name in LABELS}
        assert set(line["labels"]) == {name for name, value in zip(LABELS, true, strict=True) if value}


@pytest.mark.parametrize(
    ("name", "more", "sentence"),
    [
        ("filled.txt", (), "none of the endings"),
        ("there.csv", (), "add --overwrite"),
        ("filled.csv", ("--model", "nowhere", "--preset", "quick"), "leave them out"),
    ],
)
def test_mistakes_are_named_before_any_work(archive, tmp_path, capsys, name, more, sentence):
    (tmp_path / "there.csv").write_text("kept")
    asked = here("complete", archive[0], "--out", tmp_path / name, *ASKED, *more)
    assert sentence in Finished(asked, *capsys.readouterr()).mistake()
    assert (tmp_path / "there.csv").read_text() == "kept"
    assert not (tmp_path / "filled.csv").exists()


def test_rows_without_labels_are_sent_to_predict(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n' * 20)
    out = tmp_path / "filled.csv"
    assert Finished(here("complete", rows, "--out", out), *capsys.readouterr()).mistake()
    assert not out.exists()
