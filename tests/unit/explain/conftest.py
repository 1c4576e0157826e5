"""Word sets and small models to explain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.fit import fit

SMALL = {
    "model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "training.batch_size": 16,
    "training.warmup_steps": 2, "model.base_learners": "none", "training.keep_network": "always",
}  # fmt: skip


@pytest.fixture(scope="session")
def trained() -> Callable[..., FittedModel]:
    """Trains a single small network on a data set with the given changes of the settings (model__width=8)."""

    def train(data: Dataset, **changes: object) -> FittedModel:
        settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
        return fit(Splits(train=data, valid=data), Config.preset("fast").updated(settings))

    return train


@pytest.fixture(scope="session")
def word_sets() -> Callable[..., Dataset]:
    """Makes word sets whose labels mostly follow their words."""

    def make(n: int = 40, words: int = 12, labels: int = 6) -> Dataset:
        random = np.random.default_rng(0)
        X = (random.random((n, words)) < 0.4).astype(np.float32)
        X[:, 0] = 1.0
        Y = (X[:, :labels] * (random.random((n, labels)) < 0.9)).astype(np.float32)
        return Dataset(
            name="words",
            kind="wordset",
            rows=sparse.csr_matrix(X),
            labels=sparse.csr_matrix(Y),
            label_names=tuple(f"label {i}" for i in range(labels)),
            feature_names=tuple(f"word{i}" for i in range(words)),
        )

    return make


@pytest.fixture(scope="session")
def words(word_sets: Callable[..., Dataset]) -> Dataset:
    return word_sets()


@pytest.fixture(scope="session")
def plain(trained: Callable[..., FittedModel], words: Dataset) -> FittedModel:
    """Without base learners."""
    return trained(words)
