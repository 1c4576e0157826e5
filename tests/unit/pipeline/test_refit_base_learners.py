"""Fitting the base learners again must not surprise the network with a label it has never seen."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.pipeline.fit import fit


def rows_with(labels: np.ndarray, seed: int) -> Dataset:
    """Word sets of 30 words in which label j speaks through words 3j, 3j + 1, 3j + 2."""
    random = np.random.default_rng(seed)
    words = random.random((len(labels), 30)) < 0.1
    words |= np.repeat(labels > 0, 3, axis=1) & (random.random((len(labels), 30)) < 0.8)
    names = tuple(f"l{j}" for j in range(labels.shape[1]))
    matrix = sparse.csr_matrix(words.astype(np.float32))
    return Dataset(name="toy", kind="wordset", rows=matrix, labels=sparse.csr_matrix(labels), label_names=names)


def test_a_label_of_validation_rows_only_stays_improbable() -> None:
    random = np.random.default_rng(0)
    train, valid, test = (np.float32(random.random((n, 10)) < 0.2) for n in (400, 60, 100))
    train[:, 9] = 0
    valid[:, 9] = 0
    valid[:1, 9] = 1
    splits = Splits(train=rows_with(train, 1), valid=rows_with(valid, 2), test=rows_with(test, 3))
    assert splits.test is not None
    for base_learners in ("linear", "knn", "linear,knn"):
        config = Config.preset("fast").updated(
            {"model.base_learners": base_learners, "training.epochs": 2, "model.width": 32, "training.threads": 1}
        )
        proba = fit(splits, config).proba(splits.test.rows)
        assert proba[:, 9].max() < 0.2, base_learners
        assert proba[:, 0].max() > 0.5, "the other labels are learned"
