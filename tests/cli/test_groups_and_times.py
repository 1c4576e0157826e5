"""`lampnet train --group-column` and `--time-column`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lampnet_command import here


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
    assert "came together" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_rows_without_columns_are_refused(trained: Path, tmp_path: Path, capsys) -> None:
    assert here("train", trained / "data" / "train.jsonl", "--out", tmp_path / "x", "--group-column", "id") == 2
    assert "only tables (CSV, TSV, Parquet, Arrow) have columns of groups or times" in capsys.readouterr().err
