"""One small trained model, its folder, and a copy of that folder to damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import save_model
from lampnet.pipeline.fit import fit


@pytest.fixture(scope="session")
def rows() -> sparse.csr_matrix:
    """Word sets (50, 12)."""
    return sparse.random(50, 12, 0.3, format="csr", random_state=0, dtype=np.float32)


@pytest.fixture(scope="session")
def trained(rows: sparse.csr_matrix) -> Callable[..., FittedModel]:
    """Trains on `rows` with the given changes of the settings."""
    words = (rows.toarray() > 0).astype(np.float32)
    data = Dataset(
        name="t<o>y", kind="wordset", rows=sparse.csr_matrix(words), labels=sparse.csr_matrix(words[:, :4]),
        label_names=("a", "b|c", "ü", "d"),
    )  # fmt: skip
    base = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.keep_network": "always"}
    return lambda **changes: fit(Splits(train=data), Config.preset("fast").updated(base | changes))


@pytest.fixture(scope="session")
def model(trained: Callable[..., FittedModel]) -> FittedModel:
    return trained(label_graph="cooccurrence")


@pytest.fixture(scope="session")
def folder(model: FittedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(model, tmp_path_factory.mktemp("store") / "model")


@pytest.fixture(scope="session")
def other(trained: Callable[..., FittedModel]) -> FittedModel:
    """A model of other weights and decisions."""
    return trained(label_graph="edgeless", **{"training.seed": 7})


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(copytree(folder, tmp_path / "copy"))
