"""Runs that are killed, told to stop, doubled, starved of disk or given damaged files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TOY = Path(__file__).with_name("toy_training.py")


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate()
    return output.splitlines()


def until(process: subprocess.Popen[str], line: str) -> None:
    """Read a process's output up to a line."""
    assert process.stdout is not None
    for read in process.stdout:
        if read.strip() == line:
            return
    raise AssertionError(f"the process ended without saying {line!r}")


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.faults)])
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(
    kills: int, tmp_path: Path, start: Any, record: Callable[[str, Any], None]
) -> None:
    process = start(TOY, "killed", tmp_path, kills, kills)
    lines = lines_of(process)
    assert process.returncode == 0, lines
    undisturbed, resumed, survived = lines
    assert int(survived) == kills
    assert resumed == undisturbed
    if kills == 20:
        record("kills_survived", kills)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_after_its_step_and_resume_continues_exactly(
    number: signal.Signals, tmp_path: Path, train_toy: Any, undisturbed: list[str]
) -> None:
    process = train_toy(tmp_path, "training.checkpoint_minutes=1000")
    until(process, "step at 20")
    process.send_signal(number)
    assert lines_of(process)[-1] == "stopped"
    assert process.returncode == 128 + number
    resumed = lines_of(train_toy(tmp_path, "--resume", "training.checkpoint_minutes=1000"))
    # It goes on where it stopped: nothing was written in between, so the signal itself made it write.
    assert int(resumed[0].removeprefix("resumed at ")) >= 20
    assert resumed[-1] == undisturbed[-1]


def test_a_second_run_into_the_folder_is_refused_until_the_first_is_dead(
    tmp_path: Path, train_toy: Any, undisturbed: list[str]
) -> None:
    first = train_toy(tmp_path)
    until(first, "step at 1")
    first.send_signal(signal.SIGSTOP)  # it holds the folder, however slow the machine is
    second = train_toy(tmp_path, "--resume")
    (refusal,) = lines_of(second)
    assert second.returncode == 2
    assert f"another run (process {first.pid}) is training into" in refusal
    first.kill()
    first.wait()
    assert lines_of(train_toy(tmp_path, "--resume"))[-1] == undisturbed[-1]


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory, train_toy: Any) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    process = train_toy(folder)
    until(process, "step at 30")
    process.send_signal(signal.SIGTERM)
    process.wait()
    return folder


def copy_of(folder: Path, target: Path) -> list[Path]:
    for path in folder.glob("checkpoint-*"):
        (target / path.name).write_bytes(path.read_bytes())
    return sorted(target.glob("checkpoint-*"))


@pytest.mark.parametrize("damage", ["byte", "cut", "empty"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(
    damage: str, tmp_path: Path, stopped_run: Path, train_toy: Any, undisturbed: list[str]
) -> None:
    *_, newest = copy_of(stopped_run, tmp_path)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes({"byte": bytes(content), "cut": bytes(content[:-100]), "empty": b""}[damage])
    lines = lines_of(train_toy(tmp_path, "--resume"))
    assert lines[0].startswith(f"warning: {newest} is damaged")
    assert lines[1].startswith("resumed at ")
    assert lines[-1] == undisturbed[-1]


def test_when_every_checkpoint_is_damaged_nothing_is_overwritten(
    tmp_path: Path, stopped_run: Path, train_toy: Any
) -> None:
    files = copy_of(stopped_run, tmp_path)
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    before = [path.read_bytes() for path in files]
    (message,) = lines_of(train_toy(tmp_path, "--resume"))
    assert "start again without --resume" in message
    assert [path.read_bytes() for path in files] == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "holds a run that has not ended"),
        (["--resume", "training.learning_rate=0.5"], "was started with training.learning_rate=0.001, now it is 0.5"),
        (["--resume", "unknown=0.1"], "was started on other data"),
    ],
)
def test_another_run_does_not_take_the_place_of_an_unfinished_one(
    arguments: list[str], sentence: str, tmp_path: Path, stopped_run: Path, train_toy: Any
) -> None:
    files = copy_of(stopped_run, tmp_path)
    process = train_toy(tmp_path, *arguments)
    assert sentence in lines_of(process)[-1]
    assert process.returncode == 2
    assert sorted(tmp_path.glob("checkpoint-*")) == files


def test_a_file_size_limit_in_mid_run_is_told_and_the_run_goes_on(
    tmp_path: Path, train_toy: Any, undisturbed: list[str]
) -> None:
    # The first checkpoint holds no optimiser state yet and fits; the others do not.
    limit = 100_000
    lines = lines_of(
        train_toy(tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    )
    assert any(line.startswith("warning: ") and "could not be written (File too large)" in line for line in lines)
    assert lines[-1] == undisturbed[-1]
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-000000000"]
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system of its own; needs the right to mount one."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place]).returncode:
            pytest.skip("mounting a file system needs root")
        return place

    yield mount
    subprocess.run(["umount", place], capture_output=True)


@pytest.mark.faults
def test_a_full_disk_in_mid_run_leaves_the_last_checkpoint_good(
    mounted: Any, train_toy: Any, undisturbed: list[str]
) -> None:
    folder = mounted("size=400k")  # room for two checkpoints, not for the third that is written beside them
    lines = lines_of(train_toy(folder))
    assert any("could not be written (No space left on device)" in line for line in lines)
    assert lines[-1] == undisturbed[-1]
    kept = sorted(folder.glob("checkpoint-*"))
    assert kept
    resumed = lines_of(train_toy(folder, "--resume"))
    assert resumed[0] == f"resumed at {int(kept[-1].name[-9:])}"
    assert resumed[-1] == undisturbed[-1]


@pytest.mark.faults
def test_a_disk_that_is_full_from_the_start_is_told_before_the_training(mounted: Any, train_toy: Any) -> None:
    folder = mounted("size=16k")
    process = train_toy(folder)
    (message,) = lines_of(process)
    assert process.returncode == 2
    assert "No space left on device" in message
    assert "free some space or give another folder" in message


@pytest.mark.faults
def test_a_read_only_folder_is_told_at_once(mounted: Any, train_toy: Any) -> None:
    folder = mounted("ro")
    process = train_toy(folder / "run")
    (message,) = lines_of(process)
    assert process.returncode == 2
    assert "cannot be written to (Read-only file system)" in message
