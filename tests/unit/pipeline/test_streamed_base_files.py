"""What the base learners of streamed rows left behind is used only where it can be right."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.base_learners.row_stream import HeldFeatures, RowStream
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.streamed_stack import fit_streamed_stack
from lampnet.data.splits import hashed_folds
from lampnet.pipeline.base_learner_files import BaseLearnerFiles
from lampnet.training.checkpoint import read_checkpoint, write_checkpoint

NAMES = ("linear", "knn", "forest", "boosted", "kernel")
N, IDENTITY = 300, "the same rows"


@pytest.fixture(scope="module")
def rows() -> RowStream:
    """Sparse rows of which the first has few features, so that little of a learner shows in its logits."""
    draw = np.random.default_rng(0)
    X = np.float32(draw.random((N, 12)) < 0.4)
    X[0] = 0
    X[0, 0] = 1
    Y = np.float32(X[:, 1:4] > 0)
    return RowStream(HeldFeatures(sparse.csr_matrix(X)), sparse.csr_matrix(Y), hashed_folds(np.arange(N), 2, 0))


@pytest.fixture(scope="module")
def kept(rows: RowStream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    fit_streamed_stack(Stack(NAMES), rows, 0, on_fitted=BaseLearnerFiles(folder, IDENTITY).save_streamed)
    return folder


def restored(folder: Path, name: str, rows: RowStream) -> bool:
    return name in BaseLearnerFiles(folder, IDENTITY).restored_streamed((name,), rows)


def forge(kept: Path, folder: Path, name: str, key: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The file of a learner with another array and the right digest."""
    was = read_checkpoint(kept / f"base-{name}")
    write_checkpoint(folder / f"base-{name}", dict(was.tensors) | {key: change(was.tensors[key])}, was.state)


def test_what_was_kept_is_used(rows: RowStream, kept: Path) -> None:
    assert set(BaseLearnerFiles(kept, IDENTITY).restored_streamed(NAMES, rows)) == set(NAMES)


def with_last(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone()
        changed.reshape(-1)[-1] = value
        return changed

    return change


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda tensor: torch.zeros(0, dtype=tensor.dtype),
    "another shape": lambda tensor: tensor.reshape(1, *tensor.shape),
    "one row fewer": lambda tensor: tensor[:-1],
    "one row more": lambda tensor: torch.cat([tensor, tensor[-1:]]),
    "numbers that NumPy does not have": lambda tensor: tensor.to(torch.bfloat16),
    "complex numbers": lambda tensor: tensor.to(torch.complex64),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_an_array_of_another_form_is_fitted_again_or_was_not_needed(
    name: str, change: str, rows: RowStream, kept: Path, tmp_path: Path
) -> None:
    """Some arrays may well be shorter; what is then restored must work."""
    for key in read_checkpoint(kept / f"base-{name}").tensors:
        forge(kept, tmp_path, name, key, CHANGES[change])
        found = BaseLearnerFiles(tmp_path, IDENTITY).restored_streamed((name,), rows)
        if found:
            made = fit_streamed_stack(Stack((name,)), rows, 0, fitted=found)
            assert np.isfinite(made.logits(np.arange(N), rows.features.block(0, N))).all(), key
        if change == "numbers that NumPy does not have":
            assert not found


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_is_not_finite_is_fitted_again(
    name: str, value: float, rows: RowStream, kept: Path, tmp_path: Path
) -> None:
    for key, tensor in read_checkpoint(kept / f"base-{name}").tensors.items():
        if tensor.dtype.is_floating_point and tensor.numel():
            forge(kept, tmp_path, name, key, with_last(value))
            assert not restored(tmp_path, name, rows), key


@pytest.mark.parametrize("name", ["knn", "kernel"])
def test_a_stated_width_is_not_believed(name: str, rows: RowStream, kept: Path, tmp_path: Path) -> None:
    forge(kept, tmp_path, name, "array.X.shape", with_last(1 << 40))
    assert not restored(tmp_path, name, rows)


@pytest.mark.parametrize("chosen", [-1, N, 0])
@pytest.mark.parametrize("name", ["knn", "forest", "boosted", "kernel"])
def test_rows_that_were_not_chosen_are_noticed(
    name: str, chosen: int, rows: RowStream, kept: Path, tmp_path: Path
) -> None:
    forge(kept, tmp_path, name, "apart.chosen", with_last(chosen))
    assert not restored(tmp_path, name, rows)


@pytest.mark.parametrize("damage", ["cut off", "another digest", "a pipe", "a link", "a folder", "nothing", "JSON"])
def test_a_file_that_is_damaged_or_none_is_passed_over(
    damage: str, rows: RowStream, kept: Path, tmp_path: Path
) -> None:
    path, content = tmp_path / "base-linear", (kept / "base-linear").read_bytes()
    if damage == "cut off":
        path.write_bytes(content[:-1])
    elif damage == "another digest":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "a pipe":
        os.mkfifo(path)
    elif damage == "a link":
        path.symlink_to(kept / "base-linear")
    elif damage == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"" if damage == "nothing" else b"{" * 10_000)
    assert not restored(tmp_path, "linear", rows)


def test_a_learner_of_other_rows_is_passed_over(rows: RowStream, kept: Path) -> None:
    assert BaseLearnerFiles(kept, "other rows").restored_streamed(NAMES, rows) == {}
