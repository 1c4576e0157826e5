"""Training and loading leave torch as they found it, and threads do not disturb each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.fit import fit
from lampnet.runtime.torch_state import threads

SETTINGS = {"training.epochs": 1, "model.width": 16, "model.heads": 2, "model.base_learners": "none", "model.steps": 1}


def fitted(seed: int = 0, threads: int = 1) -> FittedModel:
    rng = np.random.default_rng(0)
    words = sparse.csr_matrix((rng.random((60, 8)) < 0.5).astype(np.float32))
    labels = sparse.csr_matrix((rng.random((60, 3)) < 0.4).astype(np.float32))
    data = Dataset(name="toy", kind="wordset", rows=words, labels=labels, label_names=tuple("abc"))
    settings = SETTINGS | {"training.seed": seed, "training.threads": threads}
    return fit(Splits(train=data, valid=data), Config.preset("fast").updated(settings))


def test_the_generator_is_where_it_was_after_training_and_loading(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = fitted()
    assert torch.equal(before, torch.get_rng_state())
    save_model(model, tmp_path / "model")
    load_model(tmp_path / "model")
    assert torch.equal(before, torch.get_rng_state())


def test_the_number_of_threads_is_given_back_even_after_a_fault() -> None:
    before = torch.get_num_threads()
    other = 1 if before > 1 else 2
    fitted(threads=other)
    assert torch.get_num_threads() == before
    seen = []

    def fail() -> None:
        with threads(other):
            seen.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [other]
    assert torch.get_num_threads() == before


def test_networks_built_side_by_side_have_the_weights_they_would_have_alone() -> None:
    model = fitted()
    configs = [model.config.updated({"training.seed": seed, "model.width": 256}) for seed in range(8)]

    def weights(config: Config) -> torch.Tensor:
        return build_member(config, 400, model.encoder, None).W_y.detach()

    alone = [weights(config) for config in configs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for one, other in zip(alone, pool.map(weights, configs), strict=True):
                assert torch.equal(one, other)
