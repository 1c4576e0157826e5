"""The commands as users run them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lampnet_command import SMALL, here, lampnet, texts, write_jsonl

from lampnet.cli.app import COMMANDS
from lampnet.inference.predictor import FittedModel

METRICS = {"subset_accuracy", "hamming_accuracy", "example_f1", "micro_f1", "macro_f1"}


def test_help_names_the_commands_and_exits_with_0() -> None:
    done = lampnet("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert name in done.out


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"data"}))
def test_the_documentation_shows_every_command_with_options_that_exist(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    usage = page.partition(f"\n## {name}\n")[2].partition("```\n")[2].partition("```")[0]
    assert usage.startswith(f"lampnet {name}")
    shown = lampnet(name, "--help").out
    for option in re.findall(r"--[a-z-]+", usage):
        assert re.search(rf"{option}[ ,]", shown)


def test_train_leaves_a_model_folder(trained: Path) -> None:
    there = {path.name for path in (trained / "model").iterdir()}
    assert len(there) == 4
    assert {"model.json", "README.md", "checkpoints"} <= there
    history = json.loads((trained / "model" / "model.json").read_text())["metadata"]["history"]
    networks = sorted({record["network"] for record in history})
    assert networks == list(range(1, len(networks) + 1))
    epochs = [(record["network"], record["epoch"]) for record in history]
    assert epochs == [(n, e) for n in networks for e in (-1, 0, 1)], "the start of each, and two epochs"
    card = (trained / "model" / "README.md").read_text()
    assert "60 training rows" in card
    assert "the base learners alone, stacked" in card
    assert not list(trained.glob(".model*")), "nothing temporary is left"


def test_evaluate_prints_one_json_object_and_nothing_else(trained: Path) -> None:
    done = lampnet("evaluate", trained / "model", trained / "data", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["dataset"], found["split"], found["rows"], found["labels"]) == ("data", "test", 16, 3)
    for part in ("metrics", "thresholds", "best", "decisions"):
        assert set(found[part]) == METRICS
    assert {"roc_auc_macro", "roc_auc_micro", "average_precision_macro"} <= set(found["ranking"])
    assert all(0 <= value <= 1 for value in found["metrics"].values())


def test_evaluate_of_another_part_of_the_training_s_folder(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("evaluate", trained / "model", trained / "data", "--split", "train", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 60


def test_predict_writes_one_json_line_per_row(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("predict", trained / "model", trained / "data" / "test.jsonl") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["id"] for line in lines] == [f"row{i}" for i in range(16)]
    for line in lines:
        assert set(line) == {"id", "labels", "scores"}
        assert set(line["labels"]) <= set(line["scores"])


def test_rows_are_predicted_the_same_in_chunks_and_whole(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = trained / "data" / "test.jsonl"
    assert here("predict", trained / "model", rows, "--out", tmp_path / "whole") == 0
    monkeypatch.setattr("lampnet.scoring.predictor.CHUNK_ROWS", 3)
    assert here("predict", trained / "model", rows, "--out", tmp_path / "cut") == 0
    whole, cut = ([json.loads(x) for x in (tmp_path / f).read_text().splitlines()] for f in ("whole", "cut"))
    assert [w["labels"] for w in whole] == [c["labels"] for c in cut]
    for w, c in zip(whole, cut, strict=True):
        assert w["scores"] == pytest.approx(c["scores"], abs=1e-5)


def test_a_shortlist_of_labels_may_be_asked_for(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    changed = FittedModel.for_prediction

    def spy(model: FittedModel, precision: str, shortlist: int | None) -> FittedModel:
        asked.append(shortlist)
        return changed(model, precision, shortlist)

    monkeypatch.setattr(FittedModel, "for_prediction", spy)
    assert here("predict", trained / "model", trained / "data" / "test.jsonl", "--shortlist", 2) == 0
    assert asked == [2]


def test_rows_without_a_known_word_are_counted(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_jsonl(tmp_path / "odd.jsonl", [{"text": "zzz qqq"}, {"text": ""}, {"text": "rome"}])
    assert here("predict", trained / "model", rows) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "2 row(s) had nothing that the model knows" in captured.err


def test_data_list_and_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert here("data", "list", "--json") == 0
    assert "bibtex" in json.loads(capsys.readouterr().out)
    assert here("data", "info", "digits", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["train"], found["labels"]) == (2000, 17)
    assert here("data", "info", "digits") == 0
    assert "labels per sample" in capsys.readouterr().out


def test_resume_of_a_finished_run_changes_nothing(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (weights,) = (trained / "model").glob("weights-*")
    before = weights.read_bytes()
    assert here("train", "--out", trained / "model", "--resume", "--quiet") == 0
    assert weights.read_bytes() == before


def test_other_settings_cannot_be_resumed(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = here("train", trained / "data", "--out", trained / "model", "--resume", "--epochs", 9, *SMALL)
    assert code == 2
    assert "training.epochs=2, now 9" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_best_model_and_prints_how_to_continue(tmp_path: Path, number: signal.Signals) -> None:
    write_jsonl(tmp_path / "train.jsonl", texts(60))
    command = [sys.executable, "-m", "lampnet", "train", "train.jsonl", "--out", "m", "--epochs", "100000", *SMALL,
               "--set", "training.patience=0"]  # fmt: skip
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert running.stderr is not None
    try:
        for line in running.stderr:  # the second epoch's line: the first is done and kept
            if "epoch   2/" in line:
                running.send_signal(number)
                break
        rest = running.stderr.read()
    finally:
        running.stderr.close()
        running.kill() if running.poll() is None and not rest else None
        code = running.wait()
    assert code == 128 + number
    assert "lampnet train --out m --resume" in rest
    assert "Traceback" not in rest
    done = lampnet("evaluate", "m", "train.jsonl", "--json", folder=tmp_path)
    assert done.code == 0, done.err
