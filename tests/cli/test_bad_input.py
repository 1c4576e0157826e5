"""Every mistake gets one sentence that says what to do, exit code 2, and leaves nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lampnet_command import SMALL, here, lampnet, texts, write_jsonl


@pytest.fixture
def mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Train on a file with this content; the explanation that came."""

    def run(content: str | bytes, name: str = "train.jsonl", *options: object) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        capsys.readouterr()
        code = here("train", path, "--out", tmp_path / "model", *SMALL, "--epochs", 1, "--quiet", *options)
        printed = capsys.readouterr().err
        assert code == 2, printed
        assert not (tmp_path / "model").exists(), "nothing half-written is left"
        assert not list(tmp_path.glob(".model*"))
        lines = [line for line in printed.splitlines() if line.startswith("lampnet: ")]
        assert len(lines) == 1, printed
        return lines[0]

    return run


def lines_of(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_ragged_matrix(mistake) -> None:
    printed = mistake(lines_of({"features": [1, 2], "labels": ["a"]}, {"features": [1], "labels": ["b"]}))
    assert "'features' has 1 numbers, the first row 2" in printed
    assert "line 2" in printed


def test_a_ragged_table(mistake) -> None:
    assert "line 3" in mistake("x,y,labels\n1,2,a\n1,b\n1,3,a\n", "train.csv")


def test_features_that_are_no_numbers(mistake) -> None:
    printed = mistake('{"features": [NaN, 1], "labels": ["a"]}\n')
    assert "give finite numbers" in printed


def test_an_empty_file(mistake) -> None:
    assert "no rows" in mistake("")


def test_one_row(mistake) -> None:
    assert "at least two are needed" in mistake(lines_of({"text": "a", "labels": ["x"]}))


def test_all_negative_labels(mistake) -> None:
    printed = mistake(lines_of({"text": "a", "labels": []}, {"text": "b", "labels": []}))
    assert "give rows that have labels" in printed


def test_a_wrong_file_type(mistake) -> None:
    printed = mistake(b"\x89PNG\r\n\x1a\n\0\0", "train.png")
    assert "the format of this file is not known; lampnet reads" in printed


def test_a_file_that_is_not_what_its_name_says(mistake) -> None:
    assert "this is not JSON" in mistake("a,b\n1,2\n")


def test_a_folder_without_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "test.jsonl", texts(4))
    assert here("train", tmp_path / "data", "--out", tmp_path / "model") == 2
    assert "has no train.* file (it has test.jsonl)" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_jsonl(tmp_path / "train.jsonl", texts(10))
    (tmp_path / "file").write_text("")
    assert here("train", data, "--out", tmp_path / "file" / "model", *SMALL, "--quiet") == 2
    printed = capsys.readouterr().err
    assert "cannot be written" in printed
    assert "give a" in printed
    assert here("train", data, "--out", tmp_path / "file", *SMALL, "--quiet") == 2
    assert "is a file; give the name of a folder" in capsys.readouterr().err


def test_a_search_does_not_go_where_a_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_jsonl(tmp_path / "rows.jsonl", texts(40))
    assert here("tune", data, "--out", data, "--trials", 1, "--quiet") == 2
    assert "cannot be the folder of a search (it is a file); give another folder" in capsys.readouterr().err


def test_a_foreign_folder_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_jsonl(tmp_path / "train.jsonl", texts(10))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    assert here("train", data, "--out", tmp_path / "home", *SMALL, "--quiet") == 2
    assert "holds no lampnet model ('letter.txt' is there)" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter.txt"]


def test_a_label_never_seen(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_jsonl(tmp_path / "new.jsonl", [{"text": "rome", "labels": ["rome", "snow"]}])
    assert here("evaluate", trained / "model", rows) == 2
    assert "the label 'snow' never occurs in the training part" in capsys.readouterr().err


def test_rows_of_another_kind(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_jsonl(tmp_path / "numbers.jsonl", [{"features": [1.0, 2.0]}])
    assert here("predict", trained / "model", rows, "--out", tmp_path / "out") == 2
    assert "but the model was trained on 'text'" in capsys.readouterr().err


def test_rows_without_labels_cannot_be_scored(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_jsonl(tmp_path / "plain.jsonl", [{"text": "rome"}])
    assert here("evaluate", trained / "model", rows) == 2
    assert "have no labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train", "bibtx", "--out", "m"), "did you mean 'bibtex'?"),
        (("train", "--out", "m", "--set", "model.widht=3"), "did you mean 'model.width'?"),
        (("train", "--out", "m", "--set", "model.width"), "must have the form NAME=VALUE"),
        (("train", "--out", "m", "--set", "model.width=wide"), "must be a whole number"),
        (("train", "--out", "m", "--preset", "papre"), "did you mean 'paper'?"),
        (("train", "--out", "m", "--label-graph", "ful"), "did you mean 'full'?"),
        (("train", "--out", "m", "--features", "embedd"), "did you mean 'embed'?"),
        (("train", "--out", "m", "--time-budget", "soon"), "write 90s, 10m or 1h30m"),
        (("train", "bibtex", "--out", "m"), "LAMPNET_DATA"),
        (("train",), "--out"),
        (("evaluate", "nowhere"), "there is no model folder"),
        (("predict", "nowhere", "x", "--metric", "f1"), "there is no metric 'f1'"),
        (("data", "info", "bibtx"), "did you mean 'bibtex'?"),
        (("trian",), "train"),
    ],
)
def test_a_mistyped_command(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAMPNET_DATA", raising=False)
    assert here(*arguments) == 2
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1
    assert sentence in printed[0]
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_shows_no_traceback(tmp_path: Path) -> None:
    printed = lampnet("train", "no/such/file.csv", "--out", "m", folder=tmp_path).mistake()
    assert "there is no data set, folder or file called 'no/such/file.csv'" in printed
