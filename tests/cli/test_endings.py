"""How a command ends when its reader leaves, or when a signal comes at an awkward moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lampnet_command import texts, write_jsonl

from lampnet.experiments.compare import compare
from lampnet.experiments.material import open_material
from lampnet.experiments.tune import Search, tune
from lampnet.training.trainer import Stopped

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def started(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lampnet", *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, text=True, stderr=subprocess.PIPE, **options)


def on_words(words: str, number: signal.Signals) -> Callable[[str], None]:
    """Sends the signal to this process when these words are logged."""

    def log(sentence: str) -> None:
        if words in sentence:
            os.kill(os.getpid(), number)

    return log


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal which fails the test, and does not end pytest, where the code under test does not take it."""
    chosen: signal.Signals = request.param

    def not_taken(number: int, frame: object) -> None:
        raise AssertionError(f"signal {number} was not taken")

    before = signal.signal(chosen, not_taken)
    yield chosen
    signal.signal(chosen, before)


@pytest.mark.parametrize("wide", [False, True], ids=["typer writes", "rich writes"])
def test_a_reader_that_leaves_is_no_failure(trained: Path, wide: bool) -> None:
    asked = ("data", "list") if wide else ("predict", trained / "model", trained / "data" / "test.jsonl")
    with started(*asked, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()  # long before anything is written
        err = running.stderr.read()
    assert running.returncode == 0, err
    assert err == ""


def test_ctrl_c_while_rows_are_read_ends_with_one_line(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    os.mkfifo(rows)
    asked = started("train", rows, "--out", tmp_path / "model", stdout=subprocess.DEVNULL)
    with asked as running, rows.open("w"):  # opens when the command has opened it, and keeps it waiting
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        err = running.stderr.read()
    assert running.returncode == 130
    assert err == "lampnet: stopped\n"


def test_a_comparison_is_stopped_in_any_method(tmp_path: Path, number: signal.Signals) -> None:
    material = open_material(str(write_jsonl(tmp_path / "rows.jsonl", texts(60))))
    before = signal.getsignal(number)
    results: list[dict[str, object]] = []
    with pytest.raises(Stopped) as stopped:
        compare(material, ["constant", "svm"], log=on_words("SVM: fitting", number), done=results.append)
    assert stopped.value.signal_number == number
    assert [result["system"] for result in results] == ["constant"]
    assert signal.getsignal(number) is before


def test_a_stopped_comparison_prints_what_is_done(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", texts(400))
    methods = "constant,chain,lamp"  # whichever of the last two the signal meets
    with started("compare", rows, "--methods", methods, "--json", stdout=subprocess.PIPE) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        for line in running.stderr:
            if "classifier chain: fitting" in line:
                running.send_signal(signal.SIGTERM)
                break
        err, printed = running.stderr.read(), running.stdout.read()
    assert running.returncode == 143, err
    assert json.loads(printed)["results"][0]["system"] == "constant"
    assert "of 3 methods were finished" in err


FIXED = {
    "training.epochs": 1,
    "training.threads": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.base_learners": "none",
}


def test_a_search_is_stopped_between_trials_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    from lampnet.readers.sources import load_data

    splits = load_data(str(write_jsonl(tmp_path / "rows.jsonl", texts(60))))
    with pytest.raises(Stopped) as stopped:
        tune(splits, tmp_path / "search", Search(trials=2), FIXED, on_words("trial 1:", number))
    assert stopped.value.signal_number == number
    assert json.loads((tmp_path / "search" / "best.json").read_text())["trials"] == 1
    assert tune(splits, tmp_path / "search", Search(trials=2), FIXED).trials == 2
