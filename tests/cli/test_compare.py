"""`lampnet compare` on a tiny file: a table, a verdict, JSON, and mistakes explained in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lampnet.cli.app import run

TINY = [
    "--set",
    "training.epochs=1",
    "--set",
    "model.width=16",
    "--set",
    "model.heads=2",
    "--set",
    "training.threads=1",
]


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred short texts; a label for each of three words, most of the time."""
    rng = np.random.default_rng(0)
    words = ["apple", "bread", "cheese", "door", "egg", "fish"]
    lines = []
    for _ in range(200):
        text = [word for word in words if rng.random() < 0.4] + ["the"]
        labels = [word for word in text if word in words[:3] and rng.random() < 0.8]
        lines.append(json.dumps({"text": " ".join(text), "labels": labels}))
    path = tmp_path_factory.mktemp("rows") / "texts.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_and_a_verdict(rows_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(rows_file), "--methods", "constant,logistic,lamp", *TINY]) == 0
    shown = capsys.readouterr()
    for expected in ("ebF1", "mAP", "constant", "logistic", "fit min", "weights", "20 test rows"):
        assert expected in shown.out
    assert "No clear winner for" in shown.out  # twenty test rows
    assert re.search(r"LaMP \(lampnet's default\): network \d of 5, epoch 1 of 1", shown.err)


def test_json_holds_every_score_and_nothing_else(rows_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(rows_file), "--methods", "constant,logistic", "--seed", "4", "--json", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = json.loads(shown.out)
    assert [row["system"] for row in found["results"]] == ["constant", "logistic"]
    assert {row["seed"] for row in found["results"]} == {4}
    assert found["verdicts"]["roc_auc_macro"]["best"] == "logistic"
    assert found["results"][1]["best"]["micro_f1"] > found["results"][0]["best"]["micro_f1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "logistc"], "did you mean 'logistic'"),
        (["--time-budget", "soon"], "is not a duration"),
        (["--decisions", "good"], "best or paper"),
        (["--methods", "forest", "--set", "forest.treess=3"], "did you mean 'trees'"),
        (["--methods", ","], "names no method; give some of constant, "),
        (["--methods", "mlp", "--set", "mlp.width=abc"], "mlp.width='abc' must be a whole number"),
        (["--methods", "mlp", "--set", "mlp.width=0.5"], "mlp.width=0.5 must be a whole number"),
        (["--methods", "svm", "--set", "svm.C=-1"], "svm.C=-1 is too small"),
        (["--methods", "mlp", "--set", "mlp.dropout=1"], "mlp.dropout=1 must be below 1"),
        (["--methods", "mlp", "--set", "mlp.embedding=3"], "mlp.embedding cannot be set here"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], said: str, rows_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(rows_file), "--quiet", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
