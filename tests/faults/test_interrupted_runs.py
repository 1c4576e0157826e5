"""Runs that are killed, stopped by a signal, started twice, short of disk space, or resumed from damaged files."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.faults, pytest.mark.long])])
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(
    kills: int, tmp_path: Path, train_toy: Any, record: Callable[[str, Any], None]
) -> None:
    lines, code = train_toy("killed", tmp_path, kills, kills).end()
    assert code == 0, lines
    uninterrupted, resumed, survived = lines
    assert int(survived) == kills
    assert resumed == uninterrupted
    record("kills_survived", kills)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_after_its_step_and_resume_continues_exactly(
    number: signal.Signals, tmp_path: Path, train_toy: Any, uninterrupted: list[str]
) -> None:
    run = train_toy("once", tmp_path, "training.checkpoint_minutes=1000")
    run.until("step at 20")
    run.send(number)
    lines, code = run.end()
    assert lines[-1] == "stopped"
    assert code == 128 + number
    resumed, _ = train_toy("once", tmp_path, "training.checkpoint_minutes=1000", "resume").end()
    # No other checkpoint was due, so the signal itself wrote the one that the run resumed from.
    assert int(resumed[0].removeprefix("resumed at ")) >= 20
    assert resumed[-1] == uninterrupted[-1]


def test_a_second_run_in_the_same_folder_is_refused_until_the_first_has_ended(
    tmp_path: Path, train_toy: Any, uninterrupted: list[str]
) -> None:
    first = train_toy("once", tmp_path)
    first.until("step at 1")
    first.send(signal.SIGSTOP)  # it holds the folder, however slow the machine is
    (refusal,), code = train_toy("once", tmp_path, "resume").end()
    assert code == 2
    assert f"another run (process {first.pid}) is writing to" in refusal
    first.kill()
    lines, _ = train_toy("once", tmp_path, "resume").end()
    assert lines[-1] == uninterrupted[-1]


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory, train_toy: Any) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    run = train_toy("once", folder)
    run.until("step at 30")
    run.send(signal.SIGTERM)
    run.end()
    return folder


def copy_of(folder: Path, target: Path) -> list[Path]:
    for path in folder.glob("checkpoint-*"):
        (target / path.name).write_bytes(path.read_bytes())
    return sorted(target.glob("checkpoint-*"))


@pytest.mark.parametrize("damage", ["byte", "cut", "empty"])
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_used(
    damage: str, tmp_path: Path, stopped_run: Path, train_toy: Any, uninterrupted: list[str]
) -> None:
    *_, newest = copy_of(stopped_run, tmp_path)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes({"byte": bytes(content), "cut": bytes(content[:-100]), "empty": b""}[damage])
    lines, _ = train_toy("once", tmp_path, "resume").end()
    assert lines[0].startswith(f"warning: {newest} is damaged")
    assert lines[1].startswith("resumed at ")
    assert lines[-1] == uninterrupted[-1]


def test_when_every_checkpoint_is_damaged_nothing_is_overwritten(
    tmp_path: Path, stopped_run: Path, train_toy: Any
) -> None:
    files = copy_of(stopped_run, tmp_path)
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    before = [path.read_bytes() for path in files]
    (message,), _ = train_toy("once", tmp_path, "resume").end()
    assert "start again without --resume" in message
    assert [path.read_bytes() for path in files] == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "holds a run that has not ended"),
        (["resume", "training.learning_rate=0.5"], "was started with training.learning_rate=0.001, now it is 0.5"),
        (["resume", "unknown=0.1"], "was started on other data"),
    ],
)
def test_another_run_does_not_overwrite_an_unfinished_one(
    arguments: list[str], sentence: str, tmp_path: Path, stopped_run: Path, train_toy: Any
) -> None:
    files = copy_of(stopped_run, tmp_path)
    lines, code = train_toy("once", tmp_path, *arguments).end()
    assert sentence in lines[-1]
    assert code == 2
    assert sorted(tmp_path.glob("checkpoint-*")) == files


def test_a_file_size_limit_is_reported_and_the_run_continues(
    tmp_path: Path, train_toy: Any, uninterrupted: list[str]
) -> None:
    # The first checkpoint holds no optimizer state yet and fits; the others do not.
    lines, _ = train_toy("once", tmp_path, file_limit=100_000).end()
    assert any(line.startswith("warning: ") and "could not be written (File too large)" in line for line in lines)
    assert lines[-1] == uninterrupted[-1]
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-000000000"]
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system; mounting it needs root."""
    target = tmp_path / "mounted"
    target.mkdir()

    def mount(options: str) -> Path:
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", target]).returncode:
            pytest.skip("mounting a file system needs root")
        return target

    yield mount
    subprocess.run(["umount", target], capture_output=True)


@pytest.mark.faults
def test_a_disk_that_fills_up_leaves_the_last_checkpoint_intact(
    mounted: Any, train_toy: Any, uninterrupted: list[str]
) -> None:
    folder = mounted("size=400k")  # room for two checkpoints, not for the third that is written beside them
    lines, _ = train_toy("once", folder).end()
    assert any("could not be written (No space left on device)" in line for line in lines)
    assert lines[-1] == uninterrupted[-1]
    remaining = sorted(folder.glob("checkpoint-*"))
    assert remaining
    resumed, _ = train_toy("once", folder, "resume").end()
    assert resumed[0] == f"resumed at {int(remaining[-1].name[-9:])}"
    assert resumed[-1] == uninterrupted[-1]


@pytest.mark.faults
def test_a_full_disk_is_reported_before_training(mounted: Any, train_toy: Any) -> None:
    folder = mounted("size=16k")
    (message,), code = train_toy("once", folder).end()
    assert code == 2
    assert "No space left on device" in message
    assert "free some space or give another folder" in message


@pytest.mark.faults
def test_a_read_only_folder_is_reported_before_training(mounted: Any, train_toy: Any) -> None:
    folder = mounted("ro")
    (message,), code = train_toy("once", folder / "run").end()
    assert code == 2
    assert "cannot be written to (Read-only file system)" in message
