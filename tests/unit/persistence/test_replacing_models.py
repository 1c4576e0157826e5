"""Saving over a model: the old one or the new one, whole, whatever fails and whoever else reads or writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.errors import CheckpointError, ModelFolderError
from lampnet.inference.predictor import FittedModel
from lampnet.persistence import read_model
from lampnet.persistence.model_description import weights_files
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.runtime.folder_lock import LOCK, claimed


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def failing_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """The call of this number that changes the disk fails; returns how many were made."""
    calls = 0

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                raise OSError(28, "No space left on device")
            return real(*given, **more)

        return call

    for name in ("fsync", "replace", "write", "mkdir"):
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    return lambda: calls


def test_a_write_that_fails_anywhere_leaves_the_old_model_or_nothing(
    model: FittedModel, other: FittedModel, rows: sparse.csr_matrix, tmp_path: Path
) -> None:
    expected = model.proba(rows)
    for number in range(1, 100):
        old, new = save_model(model, tmp_path / f"old{number}"), tmp_path / f"new{number}"
        failed = 0
        for folder in (old, new):
            with pytest.MonkeyPatch.context() as patch:
                made = failing_at(patch, number)
                try:
                    save_model(other, folder)
                except (ModelFolderError, CheckpointError) as fault:
                    failed += "No space left on device" in str(fault)
            assert not [name for name in names_in(tmp_path) if name.startswith(".")]
        if not failed:
            assert made() < number
            break
        kept = load_model(old)
        assert len(weights_files(old)) == 1
        assert names_in(old) == {"model.json", "README.md", weights_files(old)[0].name}
        # A fault after the last rename comes too late: the new model is there.
        assert np.array_equal(kept.proba(rows), expected) or np.array_equal(kept.proba(rows), other.proba(rows))
        assert not new.exists() or load_model(new).label_names == other.label_names
    assert number > 8


def test_every_file_is_on_the_disk_before_its_name_and_the_weights_before_the_description(
    model: FittedModel, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []

    def file_of(handle: int) -> str:
        return os.readlink(f"/proc/self/fd/{handle}")

    real_sync, real_replace = os.fsync, os.replace
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to name open files")
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append(("sync", file_of(handle))), real_sync(handle)))
    monkeypatch.setattr(
        os, "replace", lambda a, b: (events.append(("name", f"{a} {Path(b).name[:7]}")), real_replace(a, b))
    )
    save_model(model, copy)
    folder_sync = ("sync", str(copy))
    named = [(index, *event[1].split()) for index, event in enumerate(events) if event[0] == "name"]
    assert [name for _, _, name in named] == ["weights", "README.", "model.j"]
    for index, temporary, _ in named:
        assert events.index(("sync", temporary)) < index
        assert events[index + 1] == folder_sync


def test_what_killed_processes_left_is_removed_by_the_next_save(model: FittedModel, copy: Path) -> None:
    (copy / "weights-0123456789abcdef.safetensors").write_bytes(b"of a save that was killed")
    (copy / ".model.json.4711-0a1b2c3d.tmp").write_bytes(b"half")
    (copy / LOCK).write_text("4711")
    save_model(model, copy)
    assert names_in(copy) == {"model.json", "README.md", weights_files(copy)[0].name}
    load_model(copy)


def test_a_first_save_that_was_killed_does_not_block_the_next(model: FittedModel, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("weights-0123456789abcdef.safetensors", "README.md", ".model.json.4711-0a1b2c3d.tmp", LOCK):
        (folder / name).write_text("left")
    save_model(model, folder)
    assert names_in(folder) == {"model.json", "README.md", weights_files(folder)[0].name}


def test_a_model_replaced_while_it_is_loaded_loads_as_the_new_one(
    model: FittedModel, other: FittedModel, copy: Path, rows: sparse.csr_matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, replaced = read_model.read_header, []

    def read_header(path: Path) -> Any:
        if not replaced:
            replaced.append(save_model(other, copy))
        return real(path)

    monkeypatch.setattr(read_model, "read_header", read_header)
    assert np.array_equal(load_model(copy).proba(rows), other.proba(rows))


def _save(model: FittedModel, folder: Path, results: Any) -> None:
    try:
        save_model(model, folder)
        results.put("saved")
    except CheckpointError as fault:
        results.put(str(fault))


def test_a_save_is_refused_while_another_process_or_thread_writes_there(model: FittedModel, tmp_path: Path) -> None:
    context = get_context("fork")
    results: Any = context.Queue()
    with claimed(tmp_path / "model"):
        process = context.Process(target=_save, args=(model, tmp_path / "model", results))
        process.start()
        thread = threading.Thread(target=_save, args=(model, tmp_path / "model", results))
        thread.start()
        for worker in (process, thread):
            worker.join()
        for _ in range(2):
            assert f"another run (process {os.getpid()}) is writing to {tmp_path / 'model'}" in results.get()
        save_model(model, tmp_path / "model")  # whoever holds the folder may
    save_model(model, tmp_path / "model")


def test_a_lock_that_leads_elsewhere_is_not_followed(model: FittedModel, copy: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (copy / LOCK).symlink_to(precious)
    with pytest.raises(CheckpointError, match="cannot be written to"):
        save_model(model, copy)
    assert precious.read_text() == "mine"
    (copy / LOCK).unlink()
    os.mkfifo(copy / LOCK)
    with pytest.raises(CheckpointError, match="not a regular file"):
        save_model(model, copy)
