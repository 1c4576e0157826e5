"""`lampnet train --group-column` and `--time-column`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lampnet_command import here

from lampnet import LaMPClassifier
from lampnet.persistence.model_folder import load_model


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["patient,day,age,weight,fever,cough"]
    for row in range(80):
        age, weight = random.integers(20, 90), random.integers(40, 120)
        lines.append(f"p{row % 16},2024-{row % 12 + 1:02d}-01,{age},{weight},{int(age > 60)},{int(weight > 80)}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_of_groups_and_times_are_no_features(table: Path, tmp_path: Path, capsys) -> None:
    asked = (
        "train",
        table,
        "--preset",
        "quick",
        "--label-columns",
        "fever,cough",
        "--columns",
        "features=age,weight",
        "--out",
    )
    for option, name, said in (
        ("--group-column", "patient", "rows of one group stay together"),
        ("--time-column", "day", "rows are in the order of their times"),
    ):
        assert here(*asked, tmp_path / name, option, name) == 0
        shown = capsys.readouterr().err
        assert said in shown
        # New rows need no such column.
        new = tmp_path / "new.csv"
        new.write_text("age,weight\n70,50\n")
        assert here("predict", tmp_path / name, new) == 0
    assert here(*asked, tmp_path / "x", "--group-column", "patients") == 2
    assert "there is no column 'patients'; did you mean 'patient'" in capsys.readouterr().err
    assert here(*asked, tmp_path / "x", "--group-column", "patient", "--time-column", "day") == 2
    assert "both groups and times were given" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def json_lines(path: Path, rows: int = 60, **fields: Callable[[int], Any]) -> Path:
    random = np.random.default_rng(0)
    lines = []
    for row in range(rows):
        words = random.choice(["hot", "cold", "wet", "dry", "the"], 6).tolist()
        labels = [name for name, word in (("fever", "hot"), ("cough", "wet")) if words.count(word) > 1]
        made = {name: value(row) for name, value in fields.items()}
        lines.append({"labels": labels} | made | ({} if "title" in made else {"text": " ".join(words)}))
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n" for line in lines))
    return path


QUICK = ("--preset", "quick", "--set", "training.threads=1", "--set", "model.base_learners=linear")
ASKED = {"--group-column": ("patient", "groups"), "--time-column": ("day", "times")}


@pytest.mark.parametrize("option", list(ASKED))
def test_fields_of_json_lines(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They split the rows as `groups` and `times` do in Python, and are no features."""
    own: dict[str, Callable[[int], Any]] = {
        "patient": lambda row: row % 7 if row % 2 else str(row % 7),
        "day": lambda row: f"2024-{row * 5 % 12 + 1:02d}-{row % 28 + 1:02d}T10:00:00Z",
        "source": lambda row: "x",
    }
    path = json_lines(tmp_path / "rows.jsonl", **own)
    name, argument = ASKED[option]
    assert here("train", path, *QUICK, option, name, "--out", tmp_path / "m") == 0
    shown = capsys.readouterr().err
    other = "day" if name == "patient" else "patient"
    assert f"rows.jsonl: other fields are left out: '{other}', 'source'" in shown
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    texts, tags, values = ([row[field] for row in rows] for field in ("text", "labels", name))
    made = LaMPClassifier(preset="quick", n_jobs=1, base_learners="linear")
    expected = made.fit(texts, tags, **{argument: values}).predict_proba(texts)
    assert np.array_equal(LaMPClassifier.load(tmp_path / "m").predict_proba(texts), expected)
    assert not np.array_equal(made.fit(texts, tags).predict_proba(texts), expected)
    new = tmp_path / "new.jsonl"
    new.write_text('{"text": "hot and wet", "labels": ["fever"]}\n')  # new rows need no such field
    assert here("predict", tmp_path / "m", new) == 0
    assert here("evaluate", tmp_path / "m", new) == 0


def test_fields_of_rows_with_several_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = json_lines(
        tmp_path / "rows.jsonl",
        title=lambda row: f"the {'hot' if row % 3 else 'cold'} title number {row}",
        plot=lambda row: f"a {'wet' if row % 2 else 'dry'} plot of {row} words",
        patient=lambda row: f"p{row % 7}",
        trust=lambda row: 1 + row % 2,
    )
    asked = ("--group-column", "patient", "--weight-column", "trust")
    assert here("train", path, *QUICK, *asked, "--out", tmp_path / "m") == 0
    shown = capsys.readouterr().err
    assert "rows with the same 'patient' stay together" in shown
    assert "weights from 'trust'" in shown
    model = load_model(tmp_path / "m")
    assert [name for name, _ in model.encoder.roles] == ["title", "plot"]


@pytest.mark.parametrize(
    ("option", "values", "problem"),
    [
        ("--group-column", ["p1", None], "line 2: the row has no group in its field 'own'"),
        ("--group-column", ["p1", ["p2"]], "line 2: the group 'own' is ['p2']; give a text or a number"),
        ("--time-column", [3, "2024-01-01"], "line 2: the time 'own' is '2024-01-01', that of the rows before '3'"),
        ("--time-column", ["2024-01-01", True], "line 2: the time 'own' is 'True'"),
        ("--time-column", ["soon", "later"], "times must be numbers, dates, or texts"),
        ("--weight-column", [1, "much"], "line 2: the weight 'own' is 'much'"),
    ],
)
def test_fields_that_say_nothing(
    option: str, values: list[Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = json_lines(tmp_path / "rows.jsonl", own=lambda row: values[row % 2])
    assert here("train", path, *QUICK, option, "own", "--out", tmp_path / "x") == 2
    shown = capsys.readouterr().err.splitlines()
    assert problem in shown[-1]
    assert not (tmp_path / "x").exists()
    assert here("train", path, *QUICK, option, "owned", "--out", tmp_path / "x") == 2
    assert "did you mean 'own'" in capsys.readouterr().err or option == "--weight-column"


def test_rows_without_columns_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.libsvm"
    path.write_text("".join(f"{row % 2} 1:{row} 2:1\n" for row in range(20)))
    assert here("train", path, "--out", tmp_path / "x", "--group-column", "id") == 2
    assert "only tables (CSV, TSV, Parquet, Arrow) and JSON lines have groups or times" in capsys.readouterr().err
