"""Networks learn what was planted, keep their best epoch, and repeat with their seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config, ModelConfig, TrainingConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.wordset import WordVectors
from lampnet.evaluation.metrics import example_f1
from lampnet.inference.examples import Examples
from lampnet.model.build import build_network
from lampnet.model.label_graph import LabelGraph
from lampnet.pipeline.fit import fit
from lampnet.training.progress import Progress, RunContext
from lampnet.training.trainer import Trainer


def planted(n: int = 60, seed: int = 0) -> Dataset:
    """Label 0 follows word 0, label 1 word 1, label 2 either of them."""
    random = np.random.default_rng(seed)
    words = (random.random((n, 10)) < 0.35).astype(np.float32)
    words[:, 9] = 1
    labels = np.stack([words[:, 0], words[:, 1], np.maximum(words[:, 0], words[:, 1])], axis=1)
    return Dataset(
        name="planted",
        kind="wordset",
        rows=sparse.csr_matrix(words),
        labels=sparse.csr_matrix(labels),
        label_names=("one", "two", "either"),
    )


def quick(**changes: object) -> Config:
    settings = {
        "model.width": 16, "training.epochs": 12, "training.warmup_steps": 5, "training.learning_rate": 0.01,
        "training.patience": 0, "training.threads": 1, "training.keep_network": "always",
    }  # fmt: skip
    return Config.preset("fast").updated(settings | changes)


def learned_by_heart(data: Dataset, config: Config) -> bool:
    model = fit(Splits(train=data, valid=data), config)
    chosen = model.decisions.paper["subset_accuracy"].apply(model.proba(data.rows))
    return example_f1(data.indicator(), chosen, zero_division=1.0) == 1.0


@pytest.mark.parametrize("base_learners", ["linear", "none"])
@pytest.mark.parametrize("start", ["spectral", "random"])
def test_a_tiny_set_is_learned_by_heart(base_learners: str, start: str) -> None:
    data = planted(24)
    config = quick(**{
        "model.base_learners": base_learners, "training.start": start, "training.epochs": 40, "training.batch_size": 8,
        "model.dropout": 0.0, "model.node_dropout": 0.0, "training.weight_decay": 0.0, "training.average": 0.0,
        "training.metric": "subset_accuracy", "training.calibrate": False,
    })  # fmt: skip
    assert learned_by_heart(data, config)


def test_the_paper_preset_learns_too() -> None:
    data = planted(24)
    settings = {"model.width": 16, "training.epochs": 50, "training.learning_rate": 3e-3, "training.threads": 1,
                "training.batch_size": 8, "model.dropout": 0.0, "training.patience": 0}  # fmt: skip
    assert learned_by_heart(data, Config.preset("paper").updated(settings | {"training.metric": "subset_accuracy"}))


def test_an_empty_row_is_predicted_from_the_label_frequencies() -> None:
    data = planted(200)
    model = fit(Splits(train=data), quick(**{"training.epochs": 1}))
    empty = model.proba(sparse.csr_matrix((1, 10), dtype=np.float32))[0]
    assert np.allclose(empty, data.indicator().mean(0), atol=0.05)


def test_the_kept_weights_are_those_of_the_best_validation_epoch() -> None:
    """The published code's best checkpoint was the last; here the last epochs are made to be bad."""
    data = planted(40)
    encoded = Examples(nodes=NodeRows.from_csr(sparse.csr_matrix(data.rows)), targets=data.indicator())
    config = TrainingConfig(epochs=8, warmup_steps=0, average=0.0, learning_rate=0.02, patience=0, threads=1)
    config_of_network = ModelConfig(width=8, heads=2, dropout=0.0, node_dropout=0.0, base_learners=())
    torch.manual_seed(0)
    model = build_network(config_of_network, WordVectors(10, 8), LabelGraph("full", None, 3))
    seen: dict[int, list[torch.Tensor]] = {}

    def watch(event: str, progress: Progress) -> None:
        if event == "epoch":
            seen[progress.epoch] = [p.detach().clone() for p in model.parameters()]
            if progress.epoch == 4:
                with torch.no_grad():  # from here on the model is ruined
                    for parameter in model.parameters():
                        parameter.normal_(0, 3)

    progress = Trainer(model, config, encoded, encoded, RunContext(callback=watch)).run()
    scores = [record.score for record in progress.history]
    assert progress.best_epoch == int(np.argmax(scores)) <= 4
    assert max(scores) == progress.best_score
    for kept, then in zip(model.parameters(), seen[progress.best_epoch], strict=True):
        assert torch.equal(kept, then)


def test_a_seed_repeats_a_run_and_another_seed_does_not() -> None:
    data = planted(40)
    first, second, other = (
        fit(Splits(train=data), quick(**{"training.epochs": 2, "training.seed": seed})) for seed in (3, 3, 4)
    )
    for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert first.metadata["valid_scores"] == second.metadata["valid_scores"]
    assert any(
        not torch.equal(a, b) for a, b in zip(first.network.parameters(), other.network.parameters(), strict=True)
    )
