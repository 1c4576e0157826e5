"""One table, trained on, evaluated, predicted and explained: in every form, with and without labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lampnet_command import SMALL, explain_asked, here, texts

ROLES = ("--text-column", "body", "--label-columns", "marks")


def write_csv(path: Path, n: int = 60, labels: bool = True, bad: bool = False) -> Path:
    """Texts in `body`, labels in `marks`; the column `flag` could be taken for a label."""
    lines = ["body,marks,flag" if labels else "body,flag"]
    for row in texts(n):
        marks = "|".join(row["labels"])
        lines.append(f"{row['text']},{marks},{len(lines) % 2}" if labels else f"{row['text']},{len(lines) % 2}")
    path.write_text("\n".join([*lines, *(["a cut line"] if bad else [])]) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on rows.csv."""
    folder = tmp_path_factory.mktemp("tables")
    data = write_csv(folder / "rows.csv")
    trained = ("train", data, "--out", folder / "model", "--epochs", 1, "--set", "training.folds=1", *ROLES, *SMALL)
    assert here(*trained, "--quiet") == 0
    return folder


def test_explain_takes_a_table_without_labels(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = write_csv(tmp_path / "bare.csv", 6, labels=False)
    asked = (folder / "model", bare, tmp_path / "report", "--rows", "0,1")
    assert explain_asked(*asked) == 0, capsys.readouterr().err
    written = json.loads((tmp_path / "report" / "explanations.json").read_text())
    assert [row["row"] for row in written["explanations"]] == [0, 1]
    # A label column that the user names must be there.
    assert explain_asked(*asked, "--label-columns", "markz") == 2
    assert "there is no column 'markz'" in capsys.readouterr().err


def test_explain_does_not_take_other_columns_for_labels(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bare.csv").write_text("text,flag\nreport about rome,1\nreport about rain,0\n")
    assert explain_asked(trained / "model", tmp_path / "bare.csv", tmp_path / "report") == 0
    assert "'flag' is not a label of the model; explained without labels" in capsys.readouterr().err


def test_evaluate_skips_bad_rows_of_the_training_s_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = folder / "rows.csv"
    before = data.read_text()
    write_csv(data, bad=True)
    try:
        assert here("evaluate", folder / "model", data, "--json") == 2
        assert "line 62" in capsys.readouterr().err
        assert here("evaluate", folder / "model", data, "--json", "--on-bad-row", "skip") == 0
        assert json.loads(capsys.readouterr().out)["rows"] == 60
    finally:
        data.write_text(before)


def test_arrow_files_everywhere(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    from pyarrow import csv

    feather.write_feather(csv.read_csv(folder / "rows.csv"), tmp_path / "rows.feather")
    rows, model = tmp_path / "rows.feather", tmp_path / "model"
    trained = ("train", rows, "--out", model, "--epochs", 1, "--set", "training.folds=1", *ROLES, *SMALL, "--quiet")
    assert here(*trained) == 0
    capsys.readouterr()
    # The same rows, so the same model and the same scores as from the CSV file.
    found = []
    for own, data in ((model, rows), (folder / "model", folder / "rows.csv")):
        assert here("evaluate", own, data, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["metrics"] == found[1]["metrics"]
    assert here("predict", model, rows) == 0
    assert len(capsys.readouterr().out.splitlines()) == 60
    assert here("data", "info", rows, "--json") == 0
    assert json.loads(capsys.readouterr().out)["train"] == 60


def test_an_arrow_file_of_numbers_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    import pyarrow

    columns = {"x": [i / 7 for i in range(60)], "z": [i % 5 + 0.5 for i in range(60)]}
    columns |= {"y_a": [i % 2 for i in range(60)], "y_b": [i % 3 // 2 for i in range(60)]}
    feather.write_feather(pyarrow.table(columns), tmp_path / "numbers.arrow")
    small = ("--epochs", 1, "--set", "model.base_learners=none", *SMALL, "--quiet")
    monkeypatch.setattr("lampnet.pipeline.prepare.LARGE_BYTES", 100)
    assert here("train", tmp_path / "numbers.arrow", "--out", tmp_path / "model", *small) == 0


def test_what_is_fetched_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lampnet.readers.named import download as fetching

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAMPNET_DATA", raising=False)
    monkeypatch.setitem(fetching.ADDRESSES, "goemotions", ())
    assert here("data", "info", "goemotions") == 2
    assert str(tmp_path / "data" / "goemotions") in capsys.readouterr().err
    assert here("data", "fetch", "goemotions") == 0
    (tmp_path / "data" / "goemotions" / "emotions.txt").write_text("joy\nfear\n")
    for part in ("train", "dev", "test"):
        (tmp_path / "data" / "goemotions" / f"{part}.tsv").write_text("well well\t0\ta\noh no\t1\tb\n")
    capsys.readouterr()
    assert here("data", "info", "goemotions", "--json") == 0
    assert json.loads(capsys.readouterr().out)["train"] == 2
    assert here("data", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["goemotions"]["here"]


def test_help_names_the_default_data(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for name in ("evaluate", "train", "compare", "tune"):
        assert here(name, "--help") == 0
        printed[name] = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "none means the named data set of the training" in printed.pop("evaluate")
    assert all("none means digit scenes" in text for text in printed.values())


def test_every_command_takes_the_encoding_of_a_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes((folder / "rows.csv").read_bytes().replace(b"report", "fünf".encode("latin-1")))
    model, latin = folder / "model", ("--encoding", "latin-1")
    commands = (
        ("predict", model, rows),
        ("evaluate", model, rows),
        ("explain", model, rows, "--rows", "0", "--pictures", 0, "--out", tmp_path / "report"),
        ("data", "info", rows),
    )
    for command in commands:
        assert here(*command) == 2
        assert "--encoding latin-1" in capsys.readouterr().err
        assert here(*command, *latin) == 0, capsys.readouterr().err
    for name in ("labels", "audit", "compare", "complete", "prepare", "tune"):
        assert here(name, "--help") == 0
        assert "--encoding" in capsys.readouterr().out
