"""`lampnet train --weight-column` and `--label-weight`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lampnet_command import here

from lampnet import LaMPClassifier


def write(path: Path, weight: list[object], jsonl: bool = False) -> Path:
    random = np.random.default_rng(0)
    rows = []
    for trust in weight:
        heat, damp = random.normal(size=2).round(3).tolist()
        labels = [name for name, there in (("fever", heat > 0), ("cough", damp > 0.3)) if there]
        rows.append((heat, damp, trust, labels))
    if jsonl:
        kept = [{"features": [h, d], "trust": t, "labels": names} for h, d, t, names in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    else:
        lines = [f"{h},{d},{t},{int('fever' in names)},{int('cough' in names)}" for h, d, t, names in rows]
        path.write_text("heat,damp,trust,fever,cough\n" + "\n".join(lines) + "\n")
    return path


TRAIN = ("--preset", "quick", "--set", "training.threads=1", "--set", "model.base_learners=linear", "--quiet")
COLUMNS = ("--columns", "features=heat,damp", "--label-columns", "fever,cough")


def test_a_column_of_weights_is_what_sample_weight_is(tmp_path: Path) -> None:
    weight = [0.0 if row % 5 == 0 else 1.0 + row % 3 for row in range(60)]
    table = write(tmp_path / "rows.csv", list(weight))
    assert here("train", table, *COLUMNS, "--weight-column", "trust", *TRAIN, "--out", tmp_path / "counted") == 0
    some = [str(w) for w in weight]
    lines = table.read_text().splitlines()
    kept = [lines[0], *(line for line, w in zip(lines[1:], some, strict=True) if w != "0.0")]
    (tmp_path / "kept.csv").write_text("\n".join(kept) + "\n")
    argument = ("train", tmp_path / "kept.csv", *COLUMNS, "--weight-column", "trust", *TRAIN)
    assert here(*argument, "--out", tmp_path / "absent") == 0
    assert here("train", table, *COLUMNS, *TRAIN, "--out", tmp_path / "plain") == 0
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(20, 2)), columns=["heat", "damp"])
    counted, absent, plain = (
        LaMPClassifier.load(tmp_path / name).predict_proba(X) for name in ("counted", "absent", "plain")
    )
    assert np.array_equal(counted, absent)
    assert not np.allclose(counted, plain, atol=1e-3)
    (tmp_path / "new.csv").write_text("heat,damp\n1,1\n")  # new rows need no weights
    assert here("predict", tmp_path / "counted", tmp_path / "new.csv") == 0


def test_a_field_of_weights_in_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path / "rows.jsonl", [1, 0, 2.5] * 20, jsonl=True)
    assert here("train", good, "--weight-column", "trust", *TRAIN, "--out", tmp_path / "m") == 0
    bad = write(tmp_path / "bad.jsonl", [1, None] * 20, jsonl=True)
    assert here("train", bad, "--weight-column", "trust", *TRAIN, "--out", tmp_path / "x") == 2
    assert "line 2: the weight 'trust' is missing; give a finite number of at least 0" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["-1", "nan", "much", "", "inf"])
def test_wrong_weights_are_refused_with_their_line(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "rows.csv", [1, value, *([1] * 30)])
    assert here("train", table, *COLUMNS, "--weight-column", "trust", *TRAIN, "--out", tmp_path / "x") == 2
    shown = capsys.readouterr().err
    assert "line 3: the weight 'trust' is" in shown
    assert "give a finite number of at least 0" in shown
    assert not (tmp_path / "x").exists()


def test_label_weights_from_text_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "rows.csv", [1] * 60)
    (tmp_path / "w.csv").write_text("fever,3\ncough,1\n")
    (tmp_path / "w.json").write_text('{"fever": 3}')
    asked = ("train", table, "--columns", "features=heat,damp", "--label-columns", "fever,cough", *TRAIN)
    decisions = []
    for number, given in enumerate(("fever=3,cough=1", tmp_path / "w.csv", tmp_path / "w.json", "balanced")):
        assert here(*asked, "--label-weight", given, "--out", tmp_path / f"m{number}") == 0
        described = json.loads((tmp_path / f"m{number}" / "model.json").read_text())
        decisions.append(described["decisions"])
    assert decisions[0] == decisions[1] == decisions[2]
    capsys.readouterr()
    for given, problem in (
        ("fevr=3", "there is no label 'fevr'; did you mean 'fever'"),
        ("fever=-3", "the weight of 'fever' is -3.0; give a finite number above 0"),
        ("fever=much", "the weight is 'much'; give a number above 0"),
        ("nofile.csv", "'nofile.csv' is not a file; give balanced, a file, or NAME=WEIGHT"),
    ):
        assert here(*asked, "--label-weight", given, "--out", tmp_path / "x") == 2
        assert problem in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


def test_a_resume_with_other_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "rows.csv", [1] * 60)
    asked = ("train", table, *COLUMNS, *TRAIN, "--out", tmp_path / "m", "--label-weight")
    assert here(*asked, "fever=3") == 0
    assert here(*asked, "fever=4", "--resume") == 2
    assert "was trained with label_weight=fever=3, now fever=4 was given" in capsys.readouterr().err
    assert here(*asked[:-1], "--weight-column", "trust", "--label-weight", "fever=3", "--resume") == 2
    assert "was trained with source.columns.weight=None, now trust was given" in capsys.readouterr().err
