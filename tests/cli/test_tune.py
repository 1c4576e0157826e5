"""`lampnet tune` prints settings that `lampnet train` takes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from lampnet.cli.app import run
from lampnet.cli.options import source_arguments, source_of
from lampnet.persistence.model_folder import load_model

FIXED = [
    f"--set={setting}"
    for setting in (
        "training.epochs=1",
        "training.threads=1",
        "model.width=16",
        "model.heads=2",
        "model.base_learners=none",
    )
]


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    words = ["apple", "bread", "cheese"]
    lines = [{"text": f"{words[i % 3]} {words[i % 2]} and so on", "labels": [words[i % 3]]} for i in range(60)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_search_and_use(rows_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", str(rows_file), "--out", str(tmp_path / "search"), "--trials", "1", *FIXED]) == 0
    shown = capsys.readouterr()
    assert "best of 1 trials: validation mean_f1" in shown.out
    assert "trial 1:" in shown.err
    flags = shown.out.splitlines()[1].split()
    assert json.loads((tmp_path / "search" / "best.json").read_text())["flags"].split() == flags
    assert run(["train", str(rows_file), "--out", str(tmp_path / "model"), "--quiet", *flags]) == 0


def test_the_command_it_ends_with_can_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Read in another way than asked for, this table has other texts and other labels.
    words = ["apple", "bread", "cheese"]
    lines = [f"{words[i % 3]} {words[i % 2]} {i},some other words {i},{words[i % 3]},{words[i % 2]}" for i in range(60)]
    (tmp_path / "my rows.csv").write_text("\n".join(["the plot,text,my tags,tags", *lines, "a line cut off"]) + "\n")
    asked = ["--text-column=the plot", "--label-columns=my tags", "--columns=separator=;", "--on-bad-row=skip"]
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "my rows.csv", "--out=search", "--trials=1", "--seed=3", "--quiet", *asked, *FIXED]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: ")
    program, *arguments = shlex.split(command)
    assert program == "lampnet"
    assert run([*arguments, "--quiet"]) == 0
    model = load_model(tmp_path / "MODEL")
    assert model.config.training.seed == 3
    assert model.metadata["source"]["columns"] == {"text": "the plot", "labels": "my tags", "separator": ";"}
    assert model.metadata["source"]["on_bad_row"] == "skip"


def test_named_data_keeps_its_root() -> None:
    source = source_of("scene", "my data", "names.txt", ["id=key"])
    printed = source_arguments(source)
    assert printed == ["scene", "--data-root", "my data", "--labels", "names.txt", "--columns", "id=key"]


def test_mistakes_are_explained(rows_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--out", str(tmp_path / "search")]
    assert run(["tune", str(rows_file), *where, "--trials", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
    assert run(["tune", str(rows_file), *where, "--metric", "micro_f2"]) == 2
    assert "did you mean 'micro_f1'" in capsys.readouterr().err
