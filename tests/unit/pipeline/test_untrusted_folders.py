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
from lampnet.pipeline.base_learner_files import BaseLearnerFiles
from lampnet.pipeline.mapped_rows import open_prepared
from lampnet.pipeline.prepare import prepare_source
from lampnet.pipeline.run import Run
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


def test_opening_prepared_rows_leaves_the_generator_of_torch(prepared: Path) -> None:
    before = torch.get_rng_state()
    open_prepared(prepared)
    assert torch.equal(torch.get_rng_state(), before)
