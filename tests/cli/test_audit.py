"""`lampnet audit` as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lampnet_command import Finished, here, texts, write_jsonl


@pytest.fixture
def rows(tmp_path):
    given = texts(64)
    given[7]["labels"] = ["cup", "rain"]  # forgets rome
    given[8]["labels"] = ["rome"]  # adds rome
    return write_jsonl(tmp_path / "rows.jsonl", given)


def test_mistakes_are_found_and_written(rows, tmp_path, capsys):
    out = tmp_path / "report"
    assert here("audit", rows, "--out", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 64
    assert found["labels"] == 3
    first = {(one["id"], one["label"], one["kind"]) for one in found["findings"][:2]}
    assert first == {("row7", "rome", "missing"), ("row8", "rome", "wrong")}
    assert json.loads((out / "findings.json").read_text(encoding="utf-8")) == found["findings"]
    with open(out / "findings.csv", encoding="utf-8", newline="") as file:
        assert [one["id"] for one in csv.DictReader(file)] == [one["id"] for one in found["findings"]]
    assert (out / "audit.html").stat().st_size > 10_000


def test_rows_of_several_parts_are_audited(tmp_path, capsys):
    films = Path(__file__).parents[2] / "examples" / "films.csv"
    assert here("audit", films, "--out", tmp_path / "report", "--most", 5) == 0, capsys.readouterr().err
    (first, *_) = json.loads((tmp_path / "report" / "findings.json").read_text(encoding="utf-8"))
    with films.open(newline="") as file:
        row = list(csv.DictReader(file))[first["row"]]
    page = (tmp_path / "report" / "audit.html").read_text(encoding="utf-8")
    assert f"title: {row['title']}" in page
    assert f"country: {row['country']}" in page


def test_a_report_is_not_replaced_by_accident(rows, tmp_path, capsys):
    out = tmp_path / "report"
    assert here("audit", rows, "--out", out) == 0
    assert "open " in capsys.readouterr().out
    before = (out / "audit.html").read_bytes()
    refused = Finished(here("audit", rows, "--out", out, "--most", 1), *capsys.readouterr())
    assert "holds an audit" in refused.mistake()
    assert (out / "audit.html").read_bytes() == before
    assert here("audit", rows, "--out", out, "--most", 1, "--overwrite") == 0
    assert len(json.loads((out / "findings.json").read_text(encoding="utf-8"))) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda given: [{"text": row["text"]} for row in given], "no label"),
        (lambda given: given[:5], "at least 10 are needed"),
    ],
)
def test_rows_that_cannot_be_audited_leave_no_folder(tmp_path, capsys, change, sentence):
    rows = write_jsonl(tmp_path / "rows.jsonl", change(texts(20)))
    assert sentence in Finished(here("audit", rows, "--out", tmp_path / "report"), *capsys.readouterr()).mistake()
    assert not (tmp_path / "report").exists()


def test_a_signal_ends_it_without_a_report(rows, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    asked = [sys.executable, "-m", "lampnet", "audit", str(rows), "--out", str(tmp_path / "report"), "--preset", "fast"]
    running = subprocess.Popen(asked, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("fitting base learners"):
            running.send_signal(signal.SIGTERM)
            break
    rest = running.communicate(timeout=300)[1]
    assert running.returncode == 143, rest
    assert "nothing was written" in rest
    assert not (tmp_path / "report").exists()
