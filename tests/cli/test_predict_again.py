"""`lampnet predict --resume`: rows of one model, one input and one set of options, and one writer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shutil import copytree

import pytest
from lampnet_command import SMALL, here, texts, write_jsonl

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def retrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retrained")
    rows = write_jsonl(folder / "rows.jsonl", texts(50))
    asked = ("train", rows, "--out", folder / "model", "--epochs", 1, "--seed", 5, *SMALL, "--quiet")
    assert here(*asked) == 0
    return folder / "model"


def cut_off(out: Path, origin: bytes, lines: int) -> None:
    """As a crash leaves it: whole lines, one that was torn, and the record of where they come from."""
    whole = out.read_text().splitlines(keepends=True)
    out.write_text("".join(whole[:lines]) + whole[lines][:10])
    Path(f"{out}.unfinished.json").write_bytes(origin)


@pytest.fixture
def interrupted(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, str]:
    """Rows, the file of their unfinished predictions, and what it is to become."""
    rows, out = write_jsonl(tmp_path / "new.jsonl", texts(30)), tmp_path / "out.jsonl"
    record = Path(f"{out}.unfinished.json")
    kept = []
    with monkeypatch.context() as patch:
        from lampnet.persistence import prediction_file

        patch.setattr(prediction_file, "remove_file", lambda path: kept.append(path.read_bytes()) or path.unlink())
        assert here("predict", trained / "model", rows, "--out", out) == 0
    assert not record.exists()
    whole = out.read_text()
    cut_off(out, kept[0], 12)
    return rows, out, whole


def test_the_same_prediction_is_continued(trained: Path, interrupted: tuple[Path, Path, str]) -> None:
    rows, out, whole = interrupted
    assert here("predict", trained / "model", rows, "--out", out, "--resume") == 0
    resumed, uninterrupted = ([json.loads(line) for line in text.splitlines()] for text in (out.read_text(), whole))
    assert [row["id"] for row in resumed] == [row["id"] for row in uninterrupted]
    assert [row["scores"] for row in resumed] == [pytest.approx(row["scores"], abs=1e-5) for row in uninterrupted]
    assert sorted(path.name for path in out.parent.iterdir()) == ["new.jsonl", "out.jsonl"]
    # Once more changes nothing: all rows are there.
    assert here("predict", trained / "model", rows, "--out", out, "--resume") == 0
    assert len(out.read_text().splitlines()) == 30


def test_rows_of_a_retrained_model_are_not_added(
    trained: Path, retrained: Path, interrupted: tuple[Path, Path, str], capsys: Capture
) -> None:
    rows, out, _ = interrupted
    before = out.read_bytes()
    assert here("predict", retrained, rows, "--out", out, "--resume") == 2
    assert f"the 12 rows in {out} were predicted with another model; predict again" in capsys.readouterr().err
    assert out.read_bytes() == before
    for options, what in (
        (("--metric", "subset_accuracy"), "metric"),
        (("--split", "train"), "split"),
        (("--on-bad-row", "skip"), "input"),
    ):
        assert here("predict", trained / "model", rows, "--out", out, "--resume", *options) == 2
        assert f"were predicted with another {what};" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert here("predict", retrained, rows, "--out", out) == 0  # without --resume all rows are new
    assert len(out.read_text().splitlines()) == 30


def test_the_model_may_be_moved_or_copied(trained: Path, interrupted: tuple[Path, Path, str], tmp_path: Path) -> None:
    rows, out, _ = interrupted
    copy = copytree(trained / "model", tmp_path / "elsewhere")
    assert here("predict", copy, rows, "--out", out, "--resume") == 0
    assert len(out.read_text().splitlines()) == 30


def test_rows_of_nobody_knows_which_model_are_not_added_to(
    trained: Path, interrupted: tuple[Path, Path, str], capsys: Capture
) -> None:
    rows, out, _ = interrupted
    Path(f"{out}.unfinished.json").unlink()
    assert here("predict", trained / "model", rows, "--out", out, "--resume") == 2
    assert "nothing says which model they come from" in capsys.readouterr().err
    Path(f"{out}.unfinished.json").symlink_to(rows)
    assert here("predict", trained / "model", rows, "--out", out, "--resume") == 2
    assert "it is a symbolic link" in capsys.readouterr().err


def test_two_predictions_do_not_write_into_one_file(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    import fcntl

    rows, out = write_jsonl(tmp_path / "new.jsonl", texts(5)), tmp_path / "out.jsonl"
    with out.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for more in ((), ("--resume",)):
            assert here("predict", trained / "model", rows, "--out", out, *more) == 2
            assert f"another run is writing to {out}" in capsys.readouterr().err


def test_a_pipe_or_a_device_takes_the_lines(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    rows = write_jsonl(tmp_path / "new.jsonl", texts(5))
    assert here("predict", trained / "model", rows, "--out", os.devnull) == 0
    if Path("/dev/full").exists():
        assert here("predict", trained / "model", rows, "--out", "/dev/full") == 2
        assert "could not be finished (No space left on device)" in capsys.readouterr().err
    read, write = os.pipe()
    try:
        assert here("predict", trained / "model", rows, "--out", f"/dev/fd/{write}") == 0
        assert len(os.read(read, 1 << 16).splitlines()) == 5
    finally:
        os.close(read)
        os.close(write)
    assert [path.name for path in tmp_path.iterdir()] == ["new.jsonl"]
