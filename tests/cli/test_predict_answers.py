"""What `lampnet predict` gives: label sets as asked for, three formats, stdin and stdout, rows of any number."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lampnet_command import here, texts, write_jsonl
from pyarrow import parquet

Capture = pytest.CaptureFixture[str]


def predicted(capsys: Capture, trained: Path, *options: object) -> list[dict[str, Any]]:
    assert here("predict", trained / "model", trained / "data" / "test.jsonl", *options) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_label_sets_are_as_asked_for(trained: Path, capsys: Capture) -> None:
    every = [row["scores"] for row in predicted(capsys, trained, "--all-scores")]
    assert len({frozenset(scores) for scores in every}) == 1
    for row, scores in zip(predicted(capsys, trained, "--top-k", 2), every, strict=True):
        assert row["labels"] == sorted(scores, key=lambda name: -scores[name])[:2]
    for row, scores in zip(predicted(capsys, trained, "--threshold", 0.4), every, strict=True):
        assert set(row["labels"]) == {name for name, p in scores.items() if p >= 0.4}
    for row, scores in zip(predicted(capsys, trained, "--threshold", 0.4, "--top-k", 1), every, strict=True):
        assert len(row["labels"]) == min(1, sum(p >= 0.4 for p in scores.values()))
    assert not any(row["labels"] for row in predicted(capsys, trained, "--threshold", 1))
    for row, scores in zip(predicted(capsys, trained, "--threshold", 1, "--at-least-one"), every, strict=True):
        assert row["labels"] == [max(scores, key=lambda name: scores[name])]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--top-k", 0), "top_k=0 must be a whole number of at least 1"),
        (("--threshold", 1.5), "threshold=1.5 must be a number from 0 to 1"),
        (("--format", "cvs"), "--format 'cvs' is not known; did you mean 'csv'"),
        (("--format", "csv", "--out", "x.csv", "--resume"), "--resume continues JSON lines"),
        (("--out", "-", "--resume"), "--resume needs --out FILE"),
        (("--out", "p.xyz"), "'.xyz'; known endings: .csv, .parquet, .pq, .jsonl, .ndjson, .json; or give --format"),
        (("--out", "p.jsonl.gz"), "no format of predictions ends in '.gz'"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, options: Any, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert here("predict", trained / "model", trained / "data" / "test.jsonl", *options) == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scores", [(), ("--all-scores",)])
def test_every_format_says_the_same(trained: Path, tmp_path: Path, capsys: Capture, scores: tuple[str, ...]) -> None:
    lines = predicted(capsys, trained, *scores)
    for name in ("out.csv", "out.parquet"):
        predicted(capsys, trained, "--out", tmp_path / name, *scores)
    with open(tmp_path / "out.csv", newline="") as file:
        cells = list(csv.DictReader(file))
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.parquet"]
    for line, cell, row in zip(lines, cells, table, strict=True):
        assert line["id"] == cell["id"] == row["id"]
        assert line["labels"] == row["labels"] == [name for name in cell["labels"].split(";") if name]
        if scores:
            for name, p in line["scores"].items():
                assert float(cell[f"score: {name}"]) == pytest.approx(p, abs=1e-5)
                assert row[f"score: {name}"] == pytest.approx(p, abs=1e-5)
        else:
            own = [line["scores"][name] for name in line["labels"]]
            assert row["scores"] == pytest.approx(own, abs=1e-5)
            assert [float(p) for p in cell["scores"].split(";") if p] == pytest.approx(own, abs=1e-5)


def test_rows_come_from_stdin_and_go_to_stdout(trained: Path, capsys: Capture) -> None:
    rows = (trained / "data" / "test.jsonl").read_bytes()
    command = [sys.executable, "-m", "lampnet", "predict", str(trained / "model"), "-", "--out", "-"]
    piped = subprocess.run([*command, "--format", "csv"], input=rows, capture_output=True, check=True)
    with_names = [row["labels"] for row in predicted(capsys, trained)]
    found = list(csv.DictReader(piped.stdout.decode().splitlines()))
    assert [[name for name in row["labels"].split(";") if name] for row in found] == with_names
    table = "text\n" + "".join(json.dumps(json.loads(line)["text"]) + "\n" for line in rows.decode().splitlines())
    asked = [*command, "--input-format", "csv", "--text-column", "text"]
    piped = subprocess.run(asked, input=table.encode(), capture_output=True, check=True)
    assert [json.loads(line)["labels"] for line in piped.stdout.decode().splitlines()] == with_names
    two_columns = "id,text\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(table.splitlines()[1:]))
    piped = subprocess.run(
        [*command, "--text-column", "text"], input=two_columns.encode(), capture_output=True, check=True
    )
    assert [json.loads(line)["labels"] for line in piped.stdout.decode().splitlines()] == with_names
    assert here("predict", trained / "model", "-", "--input-format", "cvs") == 2
    assert "--input-format 'cvs' is not known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (b'{"text": "a"}\n{"text"', "lampnet: stdin, line 2: this is not JSON"),
        (b"one text\nanother text\n", "lampnet: the rows from stdin do not show their format"),
    ],
)
def test_errors_call_the_rows_stdin(trained: Path, rows: bytes, problem: str) -> None:
    command = [sys.executable, "-m", "lampnet", "predict", str(trained / "model"), "-"]
    refused = subprocess.run(command, input=rows, capture_output=True, check=False)
    assert (refused.returncode, refused.stderr.decode().splitlines()[-1].startswith(problem)) == (2, True)


def test_a_killed_prediction_leaves_the_table_of_before(trained: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "out.parquet", write_jsonl(tmp_path / "rows.jsonl", texts(8000))
    out.write_bytes(b"before")
    command = [sys.executable, "-m", "lampnet", "predict", str(trained / "model"), str(rows), "--out", str(out)]
    process = subprocess.Popen(command)
    while not list(tmp_path.glob(".out.parquet.*.tmp")) and process.poll() is None:
        pass
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert out.read_bytes() == b"before"
    assert here("predict", trained / "model", rows, "--out", out) == 0
    assert parquet.read_table(out).num_rows == 8000


def test_large_tables_are_read_in_chunks_and_predicted_the_same(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from lampnet.readers import row_chunks, sources

    rows = texts(50)
    rows[3]["text"] += ' with "marks", commas\nand a second line'
    write_jsonl(tmp_path / "rows.jsonl", rows)
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([[row["text"]] for row in rows])
    import pyarrow as pa

    parquet.write_table(pa.table({"text": [row["text"] for row in rows]}), tmp_path / "rows.parquet")

    def labels(name: str) -> list[Any]:
        assert here("predict", trained / "model", tmp_path / name, "--text-column", "text", "--all-scores") == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    whole = {name: labels(name) for name in ("rows.csv", "rows.parquet")}
    monkeypatch.setattr(row_chunks, "LARGE", 0)
    monkeypatch.setattr("lampnet.scoring.predictor.CHUNK_ROWS", 7)
    monkeypatch.setattr(sources.Source, "part", lambda *_: pytest.fail("the file was read whole"))
    for name, expected in whole.items():
        found = labels(name)
        assert [row["id"] for row in found] == [str(number) for number in range(50)]
        assert [row["labels"] for row in found] == [row["labels"] for row in expected]
        for row, other in zip(found, expected, strict=True):
            assert row["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_a_bad_row_far_down_a_large_table_is_named_by_its_line(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("lampnet.readers.row_chunks.LARGE", 0)
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("n,text\n" + '1,"some\nwords"\n' * 3000 + "1,2,3\n" + "1,more\n" * 3)
    assert here("predict", trained / "model", rows, "--text-column", "text", "--out", out) == 2
    assert "rows.csv, line 6002: the line has 3 fields, the header 2" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    again = ("predict", trained / "model", rows, "--text-column", "text", "--out", out, "--on-bad-row", "skip")
    assert here(*again) == 0
    assert "1 rows could not be read and are left out" in capsys.readouterr().err
    with open(out, newline="") as file:
        assert len(list(csv.DictReader(file))) == 3003


def test_a_promise_is_a_threshold_and_refused_beside_other_choices(trained: Path, capsys: Capture) -> None:
    from lampnet.persistence.model_folder import load_model

    cut = load_model(trained / "model").promised("recall>=0.5").value
    for row in predicted(capsys, trained, "--decision", "recall>=0.5", "--all-scores"):
        assert set(row["labels"]) == {name for name, p in row["scores"].items() if p >= cut}
    asked = ("predict", trained / "model", trained / "data" / "test.jsonl", "--decision")
    for options, complaint in (
        (("recall>=0.5", "--top-k", 1), "--decision recall>=0.5 chooses the label sets; leave out --top-k"),
        (("recall=0.5",), "there is no decision 'recall=0.5'; did you mean 'recall>=0.9'"),
        (("recall>=5",), "is not a promise; write recall>=P or precision>=P"),
        (("whole set", "--threshold", 0.5), "--decision whole set chooses the label sets; leave out --top-k"),
        (("precision>=0.999",), "precision>=0.999 cannot be promised with 90% confidence from 60 held-out rows"),
    ):
        assert here(*asked, *options) == 2
        assert complaint in capsys.readouterr().err


def test_whole_sets_are_those_of_the_model(trained: Path, capsys: Capture) -> None:
    from lampnet.persistence.model_folder import load_model

    model = load_model(trained / "model")
    rows = predicted(capsys, trained, "--decision", "whole set", "--all-scores")
    proba = np.array([[row["scores"][name] for name in model.label_names] for row in rows])
    for row, chosen in zip(rows, model.whole_set_rule().apply(proba), strict=True):
        assert set(row["labels"]) == {model.label_names[label] for label in np.flatnonzero(chosen)}
