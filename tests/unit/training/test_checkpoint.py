"""A checkpoint comes back bit for bit, or is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.errors import CheckpointError
from lampnet.runtime.atomic_files import write_atomically
from lampnet.runtime.folder_lock import LOCK, claimed
from lampnet.training.checkpoint import (
    check_same_run,
    latest_checkpoint,
    numbered_checkpoints,
    read_checkpoint,
    save_checkpoint,
)

TENSORS = {
    "weight.0": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "optimizer.step.0": torch.tensor(7.0),
}
STATE = {"progress": {"step": 7, "best_score": float("-inf"), "loss_sum": 0.1 + 0.2}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("run"), 7, TENSORS, STATE)


def test_what_is_saved_comes_back_exactly(written: Path) -> None:
    found = read_checkpoint(written)
    assert found.state == STATE
    assert found.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in TENSORS.items())


def test_any_changed_byte_is_noticed(written: Path, tmp_path: Path) -> None:
    content, copy = written.read_bytes(), tmp_path / "checkpoint-000000007"
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        copy.write_bytes(changed)
        with pytest.raises(CheckpointError, match="damaged"):
            read_checkpoint(copy)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_shortened_or_lengthened_file_is_noticed(written: Path, data: st.DataObject) -> None:
    content, copy = written.read_bytes(), written.with_name("changed")
    cut = data.draw(st.integers(0, len(content) - 1))
    copy.write_bytes(data.draw(st.sampled_from([content[:cut], content[cut + 1 :], content + content[: cut + 1]])))
    with pytest.raises(CheckpointError):
        read_checkpoint(copy)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_foreign_content_with_a_right_digest_is_refused(written: Path, content: bytes) -> None:
    forged = written.with_name("forged")
    forged.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(CheckpointError, match="not a checkpoint of lampnet"):
        read_checkpoint(forged)


def test_the_last_two_are_kept_and_a_damaged_newer_one_gives_way(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save_checkpoint(tmp_path, number, TENSORS, {"step": number})
    assert [path.name[-1] for path in numbered_checkpoints(tmp_path)] == ["2", "3"]
    numbered_checkpoints(tmp_path)[-1].write_bytes(b"damaged")
    found, damaged = latest_checkpoint(tmp_path)
    assert found is not None
    assert found.state == {"step": 2}
    assert len(damaged) == 1
    save_checkpoint(tmp_path, 2, TENSORS, {"step": "2 again"})
    assert [path.name[-1] for path in numbered_checkpoints(tmp_path)] == ["2"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, b"new, ", "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [left.name for left in tmp_path.iterdir()] == ["file"]


def test_a_claim_is_released_and_sweeps_what_a_killed_run_left(tmp_path: Path) -> None:
    left_over = tmp_path / ".checkpoint-000000001.1.tmp"
    left_over.write_bytes(b"half")
    with claimed(tmp_path), claimed(tmp_path):
        assert not left_over.exists()
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
    with claimed(tmp_path):
        pass


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written to"), claimed(tmp_path / "file" / "checkpoints"):
        pass


def test_other_settings_and_other_data_are_told_apart(tmp_path: Path) -> None:
    then = {"settings": {"training.seed": 0, "model.base_learners": ["linear"]}, "data": "d"}
    check_same_run(tmp_path, then, {"settings": {"training.seed": 0, "model.base_learners": ("linear",)}, "data": "d"})
    with pytest.raises(CheckpointError, match=r"training\.seed=0, now it is 1"):
        check_same_run(
            tmp_path, then, {"settings": {"training.seed": 1, "model.base_learners": ("linear",)}, "data": "d"}
        )
    with pytest.raises(CheckpointError, match="other data"):
        check_same_run(
            tmp_path, then, {"settings": {"training.seed": 0, "model.base_learners": ("linear",)}, "data": "e"}
        )
