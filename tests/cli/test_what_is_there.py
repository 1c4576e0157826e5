"""Commands that write where something is already: nothing is lost without being asked for, and nobody writes twice."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from lampnet_command import SMALL, explain_asked, here, texts, write_jsonl

from lampnet.persistence.model_folder import load_model
from lampnet.runtime.folder_lock import claimed

QUICK = ("--epochs", 1, "--set", "training.folds=1", *SMALL, "--quiet")
Capture = pytest.CaptureFixture[str]


def identity(folder: Path) -> str:
    return str(load_model(folder).metadata["model_sha256"])


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "rows.jsonl", texts(40))


def test_a_finished_model_is_only_replaced_when_asked(rows: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "model"
    assert here("train", rows, "--out", out, *QUICK) == 0
    before = identity(out)
    other = write_jsonl(tmp_path / "other.jsonl", texts(24))
    capsys.readouterr()
    assert here("train", other, "--out", out, *QUICK) == 2
    refusal = capsys.readouterr().err
    assert re.search(
        r"holds a model trained on 'rows' \(\d+ rows, 3 labels, 1 epochs, written \d{4}-\d\d-\d\d \d\d:\d\d\); "
        r"add --overwrite to replace it, or give another folder$",
        refusal.strip(),
    ), refusal
    assert identity(out) == before
    assert here("train", other, "--out", out, *QUICK, "--overwrite") == 0
    assert identity(out) != before
    assert here("train", other, "--out", out, *QUICK, "--overwrite", "--resume") == 2
    assert "give one of them" in capsys.readouterr().err
    # A copy without its checkpoints has nothing to resume.
    for path in sorted((out / "checkpoints").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (out / "checkpoints").rmdir()
    assert here("train", rows, "--out", out, *QUICK, "--resume") == 2
    assert "holds a model trained on 'other'" in capsys.readouterr().err


def stopped_training(data: Path, out: Path, *options: object) -> None:
    """A training that SIGTERM ends in its second epoch, after which nothing is left running."""
    command = [sys.executable, "-m", "lampnet", "train", data, "--out", out, "--epochs", 100_000, *SMALL, *options]
    running = subprocess.Popen(
        [str(part) for part in (*command, "--set", "training.patience=0")], stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "epoch   2/" in line:
            running.send_signal(signal.SIGTERM)
            break
    running.stderr.read()
    running.stderr.close()
    assert running.wait() == 128 + signal.SIGTERM


def test_a_second_training_that_has_not_ended_is_not_dropped(rows: Path, tmp_path: Path, capsys: Capture) -> None:
    out, other = tmp_path / "model", write_jsonl(tmp_path / "other.jsonl", texts(30))
    assert here("train", other, "--out", out, *QUICK) == 0
    one = ("--set", "training.folds=1")
    stopped_training(rows, out, "--overwrite", *one)
    checkpoints = sorted(path.name for path in (out / "checkpoints").glob("checkpoint-*"))
    assert checkpoints
    capsys.readouterr()
    assert here("train", rows, "--out", out, *QUICK) == 2
    refusal = capsys.readouterr().err
    assert "a model trained on 'rows'" in refusal  # the best one so far, which the signal saved
    standing = r"an unfinished training on 'rows\.jsonl' \(network 1 of 1, \d+ of 100000 epochs done\)"
    assert re.search(f" and {standing}", refusal)
    assert "add --resume to finish it or --overwrite to start again" in refusal
    assert sorted(path.name for path in (out / "checkpoints").glob("checkpoint-*")) == checkpoints
    assert here("train", rows, "--out", out, *QUICK, "--overwrite") == 0
    assert here("train", rows, "--out", out, *QUICK) == 2
    assert "unfinished" not in capsys.readouterr().err


def test_prepared_rows_are_only_replaced_when_asked(rows: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "prepared"
    assert here("prepare", rows, "--out", out, "--set", "input.min_count=1") == 0
    other = write_jsonl(tmp_path / "other.jsonl", texts(24))
    before = (out / "prepared.json").read_bytes()
    capsys.readouterr()
    assert here("prepare", other, "--out", out) == 2
    assert "holds prepared data of 'rows' (36 training rows, 3 labels); add --overwrite" in capsys.readouterr().err
    assert (out / "prepared.json").read_bytes() == before
    assert here("prepare", other, "--out", out, "--overwrite", "--set", "input.min_count=1") == 0
    assert json.loads((out / "prepared.json").read_text())["name"] == "other"


@pytest.mark.parametrize("command", ["train", "prepare", "tune", "explain"])
def test_nobody_writes_into_a_folder_that_another_process_holds(
    command: str, rows: Path, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "held"
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with claimed(out):
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    asked: dict[str, Any] = {
        "train": lambda: here("train", rows, "--out", out, *QUICK),
        "prepare": lambda: here("prepare", rows, "--out", out),
        "tune": lambda: here("tune", rows, "--out", out, "--trials", 1, "--quiet"),
        "explain": lambda: explain_asked(trained / "model", rows, out),
    }
    try:
        if command == "tune":
            pytest.importorskip("optuna", reason="the extra lampnet[tune] is not installed")
        assert asked[command]() == 2
        assert "is writing to" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == [".lampnet.lock"]
    finally:
        done.set()
        holder.join()
    assert not out.exists()


def test_of_two_preparations_at_once_one_is_refused(rows: Path, tmp_path: Path) -> None:
    """Both used to report success, and one data set was there."""
    out = tmp_path / "prepared"
    other = write_jsonl(tmp_path / "other.jsonl", texts(24))
    command = [sys.executable, "-m", "lampnet", "prepare", "--out", str(out)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen([*command, str(data)], stdout=pipe, stderr=pipe, text=True) for data in (rows, other)]
    ended = [(process.communicate(), process.returncode) for process in running]
    codes = sorted(code for _, code in ended)
    assert codes == [0, 2], ended
    kept = next(data for data, (_, code) in zip(("rows", "other"), ended, strict=True) if code == 0)
    assert json.loads((out / "prepared.json").read_text())["name"] == kept
    refusal = next(printed[1] for printed, code in ended if code == 2)
    assert "is writing to" in refusal or "add --overwrite" in refusal


def test_no_path_is_opened_on_a_model_s_word(trained: Path, rows: Path, tmp_path: Path, capsys: Capture) -> None:
    from shutil import copytree

    copy = Path(copytree(trained / "model", tmp_path / "copy"))

    def stated(**source: object) -> None:
        described = json.loads((copy / "model.json").read_text())
        described["metadata"]["source"] = source
        (copy / "model.json").write_text(json.dumps(described))

    secret = tmp_path / "private"
    secret.mkdir()
    write_jsonl(secret / "test.jsonl", texts(8))
    write_jsonl(secret / "train.jsonl", texts(8))
    stated(data=str(secret), labels=None, columns={}, on_bad_row="error")
    assert here("evaluate", copy, "--json") == 2
    assert f"was trained on '{secret}'; give the data to score it on" in capsys.readouterr().err
    assert here("evaluate", copy, secret, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 8
    names = secret / "names.txt"
    names.write_text("rome\ncup\nrain\n")
    stated(data=str(rows), labels=str(names), columns={}, on_bad_row="error")
    assert here("evaluate", copy, rows, "--json") == 2
    assert f"was trained with the label names of '{names}'; give them with --labels FILE" in capsys.readouterr().err
    for source in ({"data": ["x"]}, {"data": str(rows), "labels": 7, "on_bad_row": []}, {"data": "\x00", "more": 1}):
        stated(**source)
        assert here("evaluate", copy, rows, "--json") == 0
        assert here("evaluate", copy, "--json") == 2
        assert "Traceback" not in capsys.readouterr().err
    # A named data set is no path, and is opened: pictures, which this model cannot read.
    stated(data="digits", labels=None, columns={}, on_bad_row="error")
    assert here("evaluate", copy, "--json") == 2
    assert "the rows are of kind 'image', but the model was trained on 'text'" in capsys.readouterr().err
