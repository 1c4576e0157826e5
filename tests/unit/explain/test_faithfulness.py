"""The checks remove exactly what they claim to, and their verdicts are no more confident than the numbers allow."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.explain.attention import PredictedRows, RowAttention, decision_rule, predict_rows
from lampnet.explain.faithfulness import Check, _with_bias, _with_cuts, _with_nodes, measure
from lampnet.inference.predictor import FittedModel
from lampnet.model.label_graph import LabelGraph
from lampnet.pipeline.fit import fit

LABELS = 5


@pytest.fixture(scope="module")
def data() -> Dataset:
    random = np.random.default_rng(1)
    X = (random.random((60, 14)) < 0.5).astype(np.float32)
    X[:, :2] = 1.0
    # Labels that no word decides: a network that is sure of everything would hide what a cut does.
    labels = sparse.csr_matrix(np.abs(X[:, 3 : 3 + LABELS] - (random.random((60, LABELS)) < 0.3)).astype(np.float32))
    return Dataset(name="words", kind="wordset", rows=sparse.csr_matrix(X), labels=labels,
                   label_names=tuple("abcde"))  # fmt: skip


Train = Callable[..., FittedModel]


@pytest.fixture(scope="module")
def model(trained: Train, data: Dataset) -> FittedModel:
    return trained(data, training__epochs=4, training__batch_size=8)


@pytest.fixture(scope="module")
def predicted(model: FittedModel, data: Dataset) -> PredictedRows:
    return predict_rows(model, data)


def test_removing_a_node_is_as_if_the_word_were_not_there(
    model: FittedModel, data: Dataset, predicted: PredictedRows
) -> None:
    row = 3
    words = data.rows[row].indices
    keep = torch.ones(2, len(words), dtype=torch.bool)
    keep[1, 2] = False
    whole, without = _with_nodes(predicted, row, keep)
    shorter = data.rows[row].tolil()
    shorter[0, words[2]] = 0
    np.testing.assert_allclose(whole, model.proba(data.rows[[row]])[0], atol=1e-6)
    np.testing.assert_allclose(without, model.proba(sparse.csr_matrix(shorter))[0], atol=1e-6)
    assert np.abs(whole - without).max() > 1e-4


def test_cutting_messages_is_as_if_the_graph_had_no_such_edges(
    model: FittedModel, data: Dataset, predicted: PredictedRows
) -> None:
    row, receiver, sources = 5, 1, np.array([0, 4])
    (cut,) = _with_cuts(predicted, row, [(receiver, sources)], LABELS)
    edges = np.ones((LABELS, LABELS))
    edges[receiver, sources] = 0
    whole = model.proba(data.rows[[row]])[0]
    other = replace(model, network=deepcopy(model.network))
    other.network.networks[0].graph = LabelGraph("given", sparse.csr_matrix(edges), LABELS)
    expected = other.proba(data.rows[[row]])[0]
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    assert np.abs(cut - whole).max() > 1e-5


def test_an_ensemble_with_a_shortlist_cuts_the_edges_that_were_asked_for(data: Dataset) -> None:
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "model.steps": 1,
                "training.folds": 2, "model.shortlist": 4, "model.base_learners": "linear",
                "training.keep_network": "always"}  # fmt: skip
    ensemble = fit(Splits(train=data), Config.preset("fast").updated(settings))
    examples, row = predict_rows(ensemble, data).examples, np.array([7])
    before = RowAttention(ensemble.output(examples, row), 0, LABELS)
    receiver, sources = 1, np.array([2, 3])
    bias = torch.zeros(1, 1, 4, 4)
    bias[0, 0, receiver, torch.from_numpy(sources)] = torch.finfo(torch.float32).min
    changed = ensemble.network.with_members(lambda network: _with_bias(network, bias))
    with torch.inference_mode():
        output = changed(examples.nodes.batch(row), examples.label_input(row), return_attention=True)
    after = RowAttention(output, 0, LABELS)
    label = int(before.labels[receiver])
    assert (before.to_others(label)[sources] > 0).all()
    assert not after.to_others(label)[sources].any()
    assert after.to_others(label)[0] > 0


def test_a_label_without_two_sources_does_not_stop_the_others_of_its_row(data: Dataset) -> None:
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 2, "training.threads": 1,
                "label_graph": "given", "model.base_learners": "none"}  # fmt: skip
    edges = np.array([[0, 1], [0, 2], [1, 2], [3, 4]])  # d and e attend to each other only
    config = Config.preset("fast").updated(settings)
    linked = fit(Splits(train=data, valid=data), config, label_edges=edges)
    found = measure(linked, data, seed=0)
    chosen = decision_rule(linked).apply(linked.proba(data.rows))
    assert chosen[:, 3:].any(axis=1)[chosen[:, :3].any(axis=1)].any(), "rows with labels of both sorts"
    assert found.labels.cases == chosen[:, :3].sum()


def test_the_checks_leave_the_model_as_it_was(model: FittedModel, data: Dataset) -> None:
    before = model.proba(data.rows)
    found = measure(model, data, range(10))
    np.testing.assert_array_equal(model.proba(data.rows), before)
    assert found.nodes.cases > 0
    assert found.labels.cases == found.nodes.cases
    assert found == measure(model, data, range(10))  # the baseline is drawn from a seed
    assert found != measure(model, data, range(10), seed=1)


def test_nothing_is_measured_for_an_edgeless_graph_or_a_single_node(trained: Train) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 6)).astype(np.float32)
    data = Dataset(name="vectors", kind="vector", rows=X, labels=sparse.csr_matrix((X[:, :3] > 0).astype(np.float32)),
                   label_names=("a", "b", "c"))  # fmt: skip
    found = measure(trained(data, label_graph="edgeless"), data)
    assert found.nodes.attended is None
    assert "single node" in found.nodes.verdict()
    assert "no edges" in found.labels.verdict()


@pytest.mark.parametrize(
    ("attended", "words"), [(0.30, "mattered more than chance"), (0.11, "No difference"), (0.0, "less than chance")]
)
def test_verdicts_need_two_standard_errors(attended: float, words: str) -> None:
    check = Check(name="n", question="q", cases=40, attended=attended, random=0.1, error=0.02, wins=0.5)
    assert words in check.verdict()
    few = replace(check, cases=7)
    assert few.verdict().startswith("7 cases are too few to compare with chance")
    assert (check.to_json()["few"], few.to_json()["few"]) == (False, True)


def test_a_changed_copy_leaves_the_fitted_model_alone(model: FittedModel, data: Dataset) -> None:
    before = model.proba(data.rows)
    bias = torch.full((1, 1, LABELS, LABELS), torch.finfo(torch.float32).min)
    changed = model.network.with_members(lambda network: _with_bias(network, bias))
    assert changed.networks[0].yy[0].bias_C1MM is bias
    np.testing.assert_array_equal(model.proba(data.rows), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.network.modules())
