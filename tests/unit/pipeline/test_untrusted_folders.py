"""What a forged training folder or prepared folder states is checked before it is used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lampnet.base_learners.linear import LinearLearner
from lampnet.config import Config
from lampnet.errors import CheckpointError, DataError
from lampnet.pipeline import run
from lampnet.pipeline.base_learner_files import BaseLearnerFiles
from lampnet.pipeline.mapped_rows import GrowingArray, open_prepared
from lampnet.pipeline.prepare import prepare_source
from lampnet.pipeline.run import Run, train_into
from lampnet.readers.sources import Source
from lampnet.training.checkpoint import read_checkpoint, write_checkpoint

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = (X[:, :2] > 0).astype(np.float32)


@pytest.mark.parametrize("name", ["array.weights", "array.intercepts", "array.choice", "out_of_fold"])
@pytest.mark.parametrize("forged", [None, torch.zeros(0), torch.full((20, 2), torch.nan), torch.tensor([99])])
def test_a_forged_base_learner_is_fitted_again(name: str, forged: torch.Tensor | None, tmp_path: Path) -> None:
    files = BaseLearnerFiles(tmp_path, "the same rows")
    learner = LinearLearner()
    files.save("linear", learner, learner.fit(X, Y, seed=0))
    assert set(files.restored(("linear",), X, Y)) == {"linear"}
    kept = read_checkpoint(tmp_path / "base-linear")
    tensors = {key: tensor for key, tensor in kept.tensors.items() if key != name}
    write_checkpoint(tmp_path / "base-linear", tensors if forged is None else tensors | {name: forged}, kept.state)
    assert files.restored(("linear",), X, Y) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"data": ["x"]}}, {"source": {"data": "a\0b"}}, {"source": {}}, {"source": []},
        {"source": {"data": "x", "labels": 3}}, {"source": {"data": "x", "columns": ["text"]}},
        {"source": {"data": "x", "on_bad_row": "keep"}}, {"label_graph": ["full"]}, {"label_graph": "\0"},
    ],
)  # fmt: skip
def test_a_forged_description_of_a_run_is_refused(change: dict[str, Any]) -> None:
    described = Run(source=Source(data="rows.csv"), config=Config(), label_graph="full").to_json()
    assert Run.from_json(described).source.data.endswith("rows.csv")
    with pytest.raises(CheckpointError, match=r"run.json is damaged .*; train again into another folder"):
        Run.from_json(described | change)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    rows = [{"text": f"word{i % 3} fox", "labels": [f"label{i % 3}"]} for i in range(30)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = Config().updated({"input.min_count": 1, "model.base_learners": "linear"})
    prepare_source(Source(data=str(folder / "rows.jsonl")), folder / "out", config, lambda sentence: None)
    return folder / "out"


@pytest.mark.parametrize(
    ("name", "number"),
    [("ids", 4), ("ids", -1), ("label_ids", 3), ("label_ids", -1), ("values", np.nan), ("label_values", 7),
     ("base_logits", np.inf), ("offsets", 1000), ("label_offsets", -1)],
)  # fmt: skip
def test_forged_numbers_of_prepared_rows_are_refused(prepared: Path, name: str, number: float) -> None:
    path, manifest = prepared / "train" / f"{name}.npy", prepared / "prepared.json"
    before = path.read_bytes(), manifest.read_bytes()
    array, described = np.load(path), json.loads(before[1])
    array.reshape(-1)[-1] = number
    path.write_bytes(before[0][: -array.nbytes] + array.tobytes())
    described["parts"]["train"]["arrays"][name]["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()
    manifest.write_text(json.dumps(described))
    try:
        with pytest.raises(DataError, match=rf"out cannot be used: train: {name}.npy .*; prepare the data again"):
            open_prepared(prepared)
    finally:
        path.write_bytes(before[0])
        manifest.write_bytes(before[1])
    assert len(open_prepared(prepared).parts["train"]) == 27


def somewhere_else(folder: Path) -> Path:
    """A folder of the user's, with files that a training would replace or remove."""
    folder.mkdir()
    for name in ("run.json", "checkpoint-000000001", "base-linear", "ids.npy", "letter.txt"):
        (folder / name).write_text("of somebody else")
    return folder


def is_untouched(folder: Path) -> bool:
    return len(list(folder.iterdir())) == 5 and {path.read_text() for path in folder.iterdir()} == {"of somebody else"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("link", ["checkpoints", "checkpoints/network-2", "checkpoints/prepared"])
def test_a_training_writes_to_no_folder_that_is_a_link(link: str, overwrite: bool, tmp_path: Path) -> None:
    rows, other, folder = tmp_path / "rows.jsonl", somewhere_else(tmp_path / "other"), tmp_path / "model"
    rows.write_text("\n".join(json.dumps({"text": f"word{i % 3}", "labels": [f"label{i % 3}"]}) for i in range(30)))
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(other)
    small = {"training.epochs": 1, "training.folds": 2, "model.width": 8, "model.heads": 2, "training.threads": 1}
    config = Config().updated(small | {"model.base_learners": "linear", "input.min_count": 1})
    asked = Run(source=Source(data=str(rows)), config=config, label_graph="full")
    with pytest.raises(CheckpointError, match="is a symbolic link, and files elsewhere would be written or removed"):
        train_into(asked, folder, overwrite=overwrite)
    assert is_untouched(other)


def test_a_large_table_is_not_prepared_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "is_large_table", lambda source: True)
    test_a_training_writes_to_no_folder_that_is_a_link("checkpoints/prepared", True, tmp_path)


@pytest.mark.parametrize("part", ["train", "valid", "valid_other", "features"])
def test_rows_are_not_prepared_through_a_link(part: str, prepared: Path, tmp_path: Path) -> None:
    other, folder = somewhere_else(tmp_path / "other"), tmp_path / "out"
    folder.mkdir()
    (folder / part).symlink_to(other)
    with pytest.raises(CheckpointError, match=f"{part} is a symbolic link"):
        prepare_source(
            Source(data=str(prepared.parent / "rows.jsonl")), folder, Config(), lambda sentence: None, overwrite=True
        )
    assert is_untouched(other)


def test_an_array_is_not_written_over_what_could_not_be_removed(tmp_path: Path) -> None:
    other = tmp_path / "letter.txt"
    other.write_text("of somebody else")
    (tmp_path / "ids.npy").symlink_to(other)
    with pytest.raises(FileExistsError):
        GrowingArray(tmp_path / "ids.npy", X)
    assert other.read_text() == "of somebody else"


def test_opening_prepared_rows_leaves_the_generator_of_torch(prepared: Path) -> None:
    before = torch.get_rng_state()
    open_prepared(prepared)
    assert torch.equal(torch.get_rng_state(), before)
