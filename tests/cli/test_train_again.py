"""`lampnet train --resume`, and the next command that a training prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from lampnet_command import SMALL, here, texts, write_jsonl

from lampnet.persistence.model_folder import load_model

QUICK = ("--epochs", 1, "--set", "training.folds=1", *SMALL)


def test_nothing_to_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ((), ("--epochs", 1)):
        assert here("train", "--out", "typo", "--resume", *more) == 2
        assert "typo holds no training to resume" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_training_keeps_its_time_budget_or_takes_a_new_one(tmp_path: Path) -> None:
    rows, out = write_jsonl(tmp_path / "rows.jsonl", texts(40)), tmp_path / "model"
    # A millisecond is over before a network is trained, on any machine.
    assert here("train", rows, "--out", out, "--time-budget", "0.001s", *QUICK, "--quiet") == 0
    for again in ((), (rows, *QUICK)):
        assert here("train", *again, "--out", out, "--resume", "--quiet") == 0
        assert load_model(out).config.training.time_budget == 0.001
        assert load_model(out).metadata["status"] == "time budget"
    assert load_model(out).metadata["epochs"] == 0
    assert here("train", "--out", out, "--resume", "--quiet", "--time-budget", "1h") == 0
    assert load_model(out).config.training.time_budget == 3600
    assert load_model(out).metadata["epochs"] == 1


def test_a_network_that_the_time_budget_ended_goes_on_with_more_time(tmp_path: Path) -> None:
    rows, out = write_jsonl(tmp_path / "rows.jsonl", texts(40)), tmp_path / "model"
    endless = ("--epochs", 100_000, "--set", "training.folds=1", "--set", "training.patience=0", *SMALL)
    reached, resume = [0], ()
    for seconds in (1, 2, 4, 8, 16, 32, 64):  # until this machine has begun with a network, and gone on with it
        assert here("train", rows, "--out", out, "--time-budget", f"{seconds}s", *endless, *resume, "--quiet") == 0
        epochs = load_model(out).metadata["epochs"]
        assert epochs >= reached[-1]
        reached, resume = sorted({*reached, epochs}), ("--resume",)
        if len(reached) == 3:
            break
    assert len(reached) == 3


@pytest.mark.parametrize(
    "options", [(*QUICK,), ("--preset", "quick"), ("--epochs", 2, "--set", "training.folds=2", *SMALL)]
)
def test_a_finished_folder_holds_what_prediction_needs_and_says_that_it_is_finished(
    options: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = write_jsonl(tmp_path / "rows.jsonl", texts(40)), tmp_path / "model"
    assert here("train", rows, "--out", out, *options, "--quiet") == 0
    there = sorted(path for path in out.rglob("*") if path.is_file())
    kinds = sorted(path.relative_to(out).as_posix().partition("-")[0] for path in there)
    assert kinds == ["README.md", "checkpoints/run.json", "model.json", "weights"]
    before = [path.read_bytes() for path in there]
    for again in ((), (rows, *options)):
        capsys.readouterr()
        assert here("train", *again, "--out", out, "--resume") == 0
        assert "the training has finished already" in "".join(capsys.readouterr())
    assert sorted(path for path in out.rglob("*") if path.is_file()) == there
    assert [path.read_bytes() for path in there] == before


def test_the_next_command_can_be_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # All rows of a single file were trained on: there is nothing to evaluate on.
    rows = write_jsonl(tmp_path / "rows.jsonl", texts(40))
    assert here("train", rows, "--out", tmp_path / "my model", *QUICK) == 0
    printed = capsys.readouterr().out.splitlines()[-1]
    assert shlex.split(printed) == ["next:", "lampnet", "predict", str(tmp_path / "my model"), "INPUT"]
    (tmp_path / "data").mkdir()
    for part in ("train", "test"):
        write_jsonl(tmp_path / "data" / f"{part}.jsonl", texts(40))
    assert here("train", tmp_path / "data", "--out", tmp_path / "my model", "--overwrite", *QUICK) == 0
    printed = capsys.readouterr().out.splitlines()[-1]
    next_command = ["evaluate", str(tmp_path / "my model"), str(tmp_path / "data")]
    assert shlex.split(printed) == ["next:", "lampnet", *next_command]
    assert here(*next_command, "--json") == 0
    assert json.loads(capsys.readouterr().out)["split"] == "test"
