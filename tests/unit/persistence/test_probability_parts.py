"""A model's calibration is kept with it, checked when it is read, and absent from models of the version before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError, ModelFolderError
from lampnet.evaluation.calibration import Calibration
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_description import MODEL
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.fit import fit


@pytest.fixture(scope="module")
def model() -> FittedModel:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 4)).astype(np.float32)
    Y = sparse.csr_matrix((X[:, :3] + random.normal(size=(120, 3)) > 0.5).astype(np.float32))
    data = Dataset(name="x", kind="vector", rows=X, labels=Y, label_names=("a", "b", "c"))
    made = fit(Splits(train=data), Config.preset("quick").updated({"model.base_learners": "linear"}))
    knots = np.array([-3.0, 0.0, 3.0])
    curve = Calibration(knots, np.array([-1.0, 0.5, 4.0]), np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, -1.0]))
    return replace(made, calibration=curve)


ROWS = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)


def test_a_calibrated_model_predicts_the_same_after_saving(model: FittedModel, tmp_path: Path) -> None:
    loaded = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.proba(ROWS), model.proba(ROWS))
    assert np.abs(loaded.proba(ROWS) - replace(model, calibration=None).proba(ROWS)).max() > 0.1


def test_a_model_of_format_version_3_is_read_and_has_no_calibration(model: FittedModel, tmp_path: Path) -> None:
    plain = replace(model, calibration=None)
    path = save_model(plain, tmp_path / "model") / MODEL
    described = json.loads(path.read_text())
    described["version"] = 3
    del described["config"]["training"]["calibrate"]
    path.write_text(json.dumps(described))
    np.testing.assert_array_equal(load_model(tmp_path / "model").proba(ROWS), plain.proba(ROWS))


@pytest.mark.parametrize(
    ("part", "value", "complaint"),
    [
        ("values_K", np.array([-1.0, 0.5, 0.5]), "does not rise"),
        ("knots_K", np.array([-3.0, 4.0, 3.0]), "does not rise"),
        ("slope_L", np.array([1.0, -2.0, 0.5]), "does not rise"),
        ("slope_L", np.array([1.0, 2.0]), "other shapes"),
        ("shift_L", np.zeros(3, np.float32), "other shapes or types"),
        ("values_K", np.zeros((3, 1)), "other shapes"),
        ("shift_L", np.array([0.0, 1e300, 0.0]), "too large"),
        ("knots_K", np.array([1.0]), "other shapes"),
    ],
)
def test_a_forged_calibration_is_refused(
    model: FittedModel, tmp_path: Path, part: str, value: np.ndarray, complaint: str
) -> None:
    assert model.calibration is not None
    save_model(replace(model, calibration=replace(model.calibration, **{part: value})), tmp_path / "model")
    with pytest.raises(ModelFolderError, match=complaint):
        load_model(tmp_path / "model")


def test_promises_are_kept_with_the_model(model: FittedModel, tmp_path: Path) -> None:
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.promised("recall>=0.6") == model.promised("recall>=0.6")
    with pytest.raises(ConfigError, match=r"makes no promises: .*; train it again for recall>=0.6"):
        replace(model, promises=None).promised("recall>=0.6")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"missed": np.full(122, 1e6)}, "exceed the number of rows"),
        ({"wrong": np.full(122, -1.0)}, "exceed the number of rows"),
        ({"labelled": 10**9}, "exceed the number of rows"),
        ({"grid": np.zeros(122)}, "exceed the number of rows"),
        ({"answered": np.zeros(3)}, "other shapes"),
        ({"missed": np.zeros(122, np.float32)}, "other shapes or types"),
    ],
)
def test_forged_promises_are_refused(
    model: FittedModel, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    assert model.promises is not None
    save_model(replace(model, promises=replace(model.promises, **changes)), tmp_path / "model")
    with pytest.raises(ModelFolderError, match=complaint):
        load_model(tmp_path / "model")
