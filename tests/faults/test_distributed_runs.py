"""Two processes under torchrun: the results of one process, one writer, and a restart after a lost process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.faults

TOY = Path(__file__).with_name("toy_training.py")
NO_DROPOUT = ("model.dropout=0", "model.node_dropout=0", "training.epochs=3", "unknown=0.1")
EPOCH = re.compile(r"epoch (\d+) loss (\S+) score (\S+)")


def torchrun(*arguments: object, restarts: int = 0) -> subprocess.Popen[str]:
    """Two processes on this machine; their output comes back as one stream."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.Popen(
        [*command, f"--max-restarts={restarts}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def epochs_in(lines: list[str]) -> list[tuple[int, float, float]]:
    found = [EPOCH.search(line) for line in lines]
    return [(int(m[1]), float(m[2]), float(m[3])) for m in found if m]


@pytest.mark.parametrize(
    "more", [pytest.param((), marks=pytest.mark.long), ("training.accumulate=4", "label_graph=edgeless")]
)
def test_two_processes_have_the_losses_and_scores_of_one(more: tuple[str, ...], tmp_path: Path, train_toy: Any) -> None:
    single, _ = train_toy("once", tmp_path / "one", *NO_DROPOUT, *more).end()
    output, _ = torchrun(TOY, "once", tmp_path / "two", *NO_DROPOUT, *more).communicate()
    one, two = epochs_in(single), epochs_in(output.splitlines())
    assert len(one) == 3
    # Each epoch appears once: the second process prints and writes nothing.
    assert [epoch for epoch, _, _ in two] == [0, 1, 2], output
    assert np.allclose([loss for _, loss, _ in one], [loss for _, loss, _ in two], rtol=1e-5)
    assert [score for _, _, score in one] == [score for _, _, score in two]


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_lost_processes_end_the_run_and_each_restart_resumes_it(kills: int, tmp_path: Path, record: Any) -> None:
    uninterrupted, _ = torchrun(TOY, "once", tmp_path / "a").communicate()
    steps = [6 + 7 * number for number in range(kills)]
    lost = f"lose_worker_at={','.join(map(str, steps))}"
    interrupted = torchrun(TOY, "once", tmp_path / "b", lost, restarts=kills)
    output, _ = interrupted.communicate()
    assert interrupted.returncode == 0, output
    # torchrun may end the other process before it can say why it ends; of ten times, it says so in some.
    assert kills == 1 or "another process of this run was lost" in output
    resumed = [int(step) for step in re.findall(r"resumed at (\d+)", output)]
    assert len(resumed) == kills
    # A process is killed after its step was logged; the checkpoint of that step may or may not be written by then.
    assert all(step - 2 <= at <= step for at, step in zip(resumed, steps, strict=True)), resumed
    weights = [re.findall(r"weights (\w+)", text) for text in (uninterrupted, output)]
    assert weights[0] == weights[1]
    assert len(weights[0]) == 1
    record("torchrun_kills_survived", kills)


def test_sigterm_ends_both_processes_after_the_same_step(tmp_path: Path) -> None:
    run = torchrun(TOY, "once", tmp_path, "training.checkpoint_minutes=1000")
    assert run.stdout is not None
    for line in run.stdout:
        if line.strip() == "step at 10":
            break
    run.send_signal(signal.SIGTERM)
    output, _ = run.communicate()
    assert output.count("stopped") == 2, output
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2  # the first one and the one of the signal


def test_the_commands_train_and_predict_with_two_processes(tmp_path: Path, write_texts: Any) -> None:
    data = write_texts(tmp_path / "rows.jsonl", 120, 0)
    model, out = tmp_path / "model", tmp_path / "out.jsonl"
    settings = ("--set", "model.width=16", "--set", "model.heads=2", "--epochs", "2", "--quiet")
    trained = torchrun("-m", "lampnet", "train", data, "--out", model, *settings)
    output, _ = trained.communicate()
    assert trained.returncode == 0, output
    predicted = torchrun("-m", "lampnet", "predict", model, data, "--out", out)
    output, _ = predicted.communicate()
    assert predicted.returncode == 0, output
    single = tmp_path / "single.jsonl"
    subprocess.run([sys.executable, "-m", "lampnet", "predict", model, data, "--out", single], check=True)
    two, one = ([json.loads(line) for line in path.read_text().splitlines()] for path in (out, single))
    assert len(one) == 120
    assert [row["labels"] for row in two] == [row["labels"] for row in one]
    evaluated = torchrun("-m", "lampnet", "evaluate", model, data, "--json")
    output, _ = evaluated.communicate()
    assert evaluated.returncode == 0, output
    assert output.count('"dataset"') == 1
