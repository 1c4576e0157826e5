"""The paper's networks: which are run in which order, how lambda is chosen, and that a stopped run goes on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset, Table
from lampnet.data.splits import Splits
from lampnet.encoders import make_encoder
from lampnet.errors import ConfigError
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments import paper_networks
from lampnet.experiments.material import Material
from lampnet.experiments.paper_networks import (
    SEEDS,
    WEIGHTS,
    Network,
    chosen_results,
    chosen_weight,
    forms_of,
    is_done,
    networks,
    open_as_published,
    train_all,
)
from lampnet.experiments.protocol import Log
from lampnet.experiments.result_files import read_results, write_json
from lampnet.experiments.systems import FORMS
from lampnet.model.build import build_member
from lampnet.training.progress import Stopped

TINY = {"training.epochs": 2, "model.width": 8, "model.heads": 2, "model.feature_steps": 1}


def word_rows(n: int = 60) -> Dataset:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, 3)) < 0.4).astype(np.float32)
    words = np.hstack([Y, np.ones((n, 1)), rng.random((n, 4)) < 0.2]).astype(np.float32)
    rows, labels = sparse.csr_matrix(words), sparse.csr_matrix(Y)
    return Dataset(name="toy", kind="wordset", rows=rows, labels=labels, label_names=tuple("abc"))


def toy(dataset: str, seed: int) -> Material:
    return Material(dataset, Splits(train=word_rows()), seed)


def test_every_form_is_run_once_before_anything_is_repeated() -> None:
    queue = networks()
    assert len(queue) == len(set(queue))
    assert {n.dataset for n in queue} == set(SEEDS)
    for dataset in SEEDS:
        own = networks([dataset])
        for form in forms_of(dataset):
            assert {n.weight for n in own if n.form == form and n.weight is not None} == set(WEIGHTS)
            assert {n.start for n in own if n.form == form} == {"random", "spectral"}
    assert {n.form for n in networks(["bibtex"])[:6]} == set(FORMS)
    assert {n.form for n in networks(["sider"])} == set(FORMS) - {"emb-pr", "fmp-pr"}  # its prior graph is the full one
    assert {(n.dataset, n.form) for n in networks(widths=[512])} == {
        (dataset, form) for dataset in ("sider", "bibtex") for form in ("emb-el", "fmp-fc")
    }


def test_runs_are_chosen_by_any_of_their_parts() -> None:
    chosen = networks(["scene"], [128], ["emb-el", "fmp-fc"], [0, 2], [0.0], ["random"])
    assert [(n.form, n.seed, n.weight) for n in chosen] == [
        ("emb-el", 0, 0.0), ("fmp-fc", 0, 0.0), ("emb-el", 2, None), ("fmp-fc", 2, None),
    ]  # fmt: skip
    assert {n.start for n in networks(["scene"], starts=["spectral"])} == {"spectral"}
    assert {n.width for n in networks(["sider"], [512])} == {512}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"datasets": ["bibtxe"]}, "dataset 'bibtxe'; did you mean 'bibtex'"),
        ({"forms": ["fmp-fcc"]}, "form 'fmp-fcc'; did you mean 'fmp-fc'"),
        ({"weights": [0.5]}, "lambda 0.5; there are 0.0, 0.1, 0.2, 0.3"),
        ({"seeds": [7]}, "seed 7; there are 0, 1, 2, 3, 4"),
        ({"widths": [64]}, "width 64; there are 128, 256, 512"),
        ({"starts": ["spectrl"]}, "start 'spectrl'; did you mean 'spectral'"),
    ],
)
def test_what_is_never_run_is_refused(asked: dict[str, Any], answer: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(answer)):
        networks(**asked)


@pytest.mark.parametrize(
    ("dataset", "dropout"), [("reuters21578", 0.2), ("bibtex", 0.2), ("sider", 0.2), ("delicious", 0.1), ("scene", 0.1)]
)
def test_dropout_is_the_papers_for_each_data_set(dataset: str, dropout: float) -> None:
    config = Network(dataset, "emb-pr", weight=0.3).lamp().config("tree")
    assert config.model.dropout == dropout
    assert (config.preset_name, config.label_graph, config.training.intermediate_weight) == ("paper", "tree", 0.3)
    assert config.input.vocabulary == (23_662 if dataset == "reuters21578" else 50_000)


@pytest.mark.parametrize("start", ["random", "spectral"])
def test_the_readout_of_the_paper_preset_starts_near_zero(start: str) -> None:
    """Tied to unit vectors, all logits start near d: hundreds of nats per label."""
    from lampnet.model.initialise import spectral_start

    data = word_rows()
    for vectors, low, high in (("short", 0.5, 1.2), ("unit", 20.0, 1000.0)):
        config = Config.preset("paper").updated({"model.label_vectors": vectors})
        encoder = make_encoder("wordset", config.input).fit(data.rows)
        nodes = encoder.encode(data.rows).nodes
        network = build_member(config, 3, encoder, None).eval()
        if start == "spectral":
            if vectors == "unit":
                continue
            spectral_start(network, nodes, data.indicator(), 0)
        with torch.no_grad():
            stages = network(nodes.batch(np.arange(len(data)))).stages
        truth = torch.from_numpy(data.indicator())
        for logits in stages:
            assert low < torch.nn.functional.binary_cross_entropy_with_logits(logits, truth).item() < high


def stored(dataset: str, form: str, weight: float, validation: float, seed: int = 0) -> dict[str, Any]:
    network = Network(dataset, form, seed=seed)
    return {
        "dataset": dataset, "form": form, "system": network.system, "seed": seed, "lambda": weight, "finished": True,
        "validation": {"paper": {"example_f1": validation}},
    }  # fmt: skip


def test_lambda_is_chosen_on_the_validation_rows_of_seed_0() -> None:
    results = [
        stored("bibtex", "emb-fc", 0.0, 0.3),
        stored("bibtex", "emb-fc", 0.1, 0.4),
        stored("bibtex", "emb-fc", 0.3, 0.9, seed=1),
        stored("bibtex", "emb-el", 0.2, 0.8),
        stored("scene", "emb-fc", 0.3, 0.8),
    ]
    assert chosen_weight(results, "bibtex", "emb-fc") == 0.1
    assert chosen_weight(results, "bibtex", "fmp-fc") == 0.2
    kept = chosen_results(results)
    assert [(r["dataset"], r["system"], r["seed"], r["lambda"]) for r in kept] == [
        ("bibtex", "emb-fc-d128-random", 0, 0.1),
        ("bibtex", "emb-el-d128-random", 0, 0.2),
        ("scene", "emb-fc-d128-random", 0, 0.3),
    ]


def test_finished_runs_are_skipped_and_other_seeds_use_the_chosen_weight(tmp_path: Path) -> None:
    network = Network("bibtex", "emb-fc", weight=0.1)
    write_json(network.path(tmp_path), stored("bibtex", "emb-fc", 0.1, 0.4))
    wanted = [network, Network("bibtex", "emb-fc", seed=1)]
    written = train_all(wanted, tmp_path, tmp_path / "running", settings=TINY, open_data=toy)
    assert [path.name for path in written] == ["bibtex--emb-fc-d128-random-lambda0.1--seed1.json"]
    assert train_all(wanted, tmp_path, tmp_path / "running", settings=TINY, open_data=toy) == []
    result = read_results(tmp_path)[1]
    assert [set(epoch["scores"]) for epoch in result["history"]] == [set(METRICS)] * 2
    assert result["config"]["training"]["intermediate_weight"] == 0.1
    assert result["config"]["training"]["seed"] == 1
    assert not list((tmp_path / "running").iterdir())


def test_a_seed_that_was_trained_with_another_lambda_is_trained_again() -> None:
    results = [stored("bibtex", "emb-fc", weight, 0.4 + weight) for weight in WEIGHTS]
    network = Network("bibtex", "emb-fc", seed=1)
    assert not is_done(network, [*results, stored("bibtex", "emb-fc", 0.2, 0.9, seed=1)])
    assert is_done(network, [*results, stored("bibtex", "emb-fc", 0.3, 0.1, seed=1)])
    assert is_done(replace(network, weight=0.2), [*results, stored("bibtex", "emb-fc", 0.2, 0.9, seed=1)])


def test_the_stored_runs_use_the_lambda_that_validation_chose() -> None:
    results = read_results(Path(__file__).parents[3] / "results" / "paper")
    for result in results:
        tried = result["seed"] == 0 and result["system"] == Network(result["dataset"], result["form"]).system
        assert tried or result in chosen_results(results), (result["dataset"], result["system"], result["seed"])


def test_a_stopped_training_goes_on_where_it_was(tmp_path: Path) -> None:
    """The same numbers come out as without the stop."""
    wanted, quiet = [Network("scene", "fmp-fc", weight=0.3)], lambda sentence: None
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def stop_after_the_first_epoch(sentence: str) -> None:
        if "epoch 1 of" in sentence:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)

    def go(folder: Path, log: Log) -> None:
        train_all(wanted, folder, folder / "running", log=log, settings=TINY, open_data=toy)

    go(whole, quiet)
    with pytest.raises(Stopped):
        go(parts, stop_after_the_first_epoch)
    assert not read_results(parts)
    go(parts, quiet)
    first, second = read_results(whole)[0], read_results(parts)[0]
    for group in ("paper", "validation", "thresholds"):
        assert first[group] == second[group]
    assert [e["loss"] for e in first["history"]] == [e["loss"] for e in second["history"]]
    # The time of a resumed run is that of all its sessions.
    assert second["minutes"]["fit"] >= second["history"][-1]["seconds"] / 60 - 1e-4


def test_measurements_of_pictures_are_one_vector_with_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(60, 4))
    rows, labels = Table(values=values, names=tuple("abcd")), sparse.csr_matrix(values[:, :3] > 0, dtype=np.float32)
    table = Dataset(name="toy", kind="columns", rows=rows, labels=labels, label_names=tuple("xyz"))
    opened = Material("scene", Splits(train=table), 3)
    monkeypatch.setattr(paper_networks, "open_named", lambda dataset, seed, data_root: opened)
    vectors = open_as_published("scene", 3)
    assert vectors.metadata() == opened.metadata() | {"kind": "vector"}
    for part in ("train", "valid", "test"):
        np.testing.assert_array_equal(vectors.part(part).rows, opened.part(part).rows.values)
        np.testing.assert_array_equal(vectors.truth[part], opened.truth[part])
    assert open_as_published("emotions", 3) is opened
