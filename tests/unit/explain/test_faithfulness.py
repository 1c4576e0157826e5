"""The honesty checks really take away what they say, and judge without more confidence than the numbers give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.explain.explanation import RowAttention, decision_rule
from lampnet.explain.faithfulness import Check, _extra_bias, _with_cuts, _with_nodes, measure
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


@pytest.fixture(scope="module")
def model(data: Dataset) -> FittedModel:
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 4, "training.threads": 1,
                "training.batch_size": 8, "training.warmup_steps": 2, "model.base_learners": "none"}  # fmt: skip
    return fit(Splits(train=data, valid=data), Config.preset("fast").updated(settings))


def test_taking_a_node_away_is_as_if_the_word_had_not_been_there(model: FittedModel, data: Dataset) -> None:
    row = 3
    words = data.rows[row].indices
    keep = torch.ones(2, len(words), dtype=torch.bool)
    keep[1, 2] = False
    whole, without = _with_nodes(model, model.examples(data.rows), row, keep)
    shorter = data.rows[row].tolil()
    shorter[0, words[2]] = 0
    np.testing.assert_allclose(whole, model.proba(data.rows[[row]])[0], atol=1e-6)
    np.testing.assert_allclose(without, model.proba(sparse.csr_matrix(shorter))[0], atol=1e-6)
    assert np.abs(whole - without).max() > 1e-4


def test_cutting_messages_is_as_if_the_graph_had_no_such_edges(model: FittedModel, data: Dataset) -> None:
    row, listener, sources = 5, 1, np.array([0, 4])
    (cut,) = _with_cuts(model, model.examples(data.rows), row, [(listener, sources)], LABELS)
    edges = np.ones((LABELS, LABELS))
    edges[listener, sources] = 0
    whole = model.proba(data.rows[[row]])[0]
    graph = model.network.graph
    model.network.graph = LabelGraph("given", sparse.csr_matrix(edges), LABELS)
    try:
        expected = model.proba(data.rows[[row]])[0]
    finally:
        model.network.graph = graph
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    assert np.abs(cut - whole).max() > 1e-5


def test_a_committee_that_hears_candidates_cuts_the_edges_that_were_asked_for(data: Dataset) -> None:
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "model.steps": 1,
                "training.folds": 2, "model.shortlist": 4, "model.base_learners": "linear"}  # fmt: skip
    committee = fit(Splits(train=data), Config.preset("fast").updated(settings))
    examples, row = committee.examples(data.rows), 7
    index = np.array([row])
    with torch.inference_mode():
        output = committee.network(examples.nodes.batch(index), examples.base_batch(index), return_attention=True)
    before = RowAttention(output, 0, LABELS)
    listener, sources = 1, np.array([2, 3])
    bias = torch.zeros(1, 1, 4, 4)
    bias[0, 0, listener, torch.from_numpy(sources)] = torch.finfo(torch.float32).min
    with _extra_bias(committee, bias), torch.inference_mode():
        output = committee.network(examples.nodes.batch(index), examples.base_batch(index), return_attention=True)
    after = RowAttention(output, 0, LABELS)
    label = int(before.own[listener])
    assert (before.heard(label)[sources] > 0).all()
    assert not after.heard(label)[sources].any()
    assert after.heard(label)[0] > 0


def test_a_label_without_two_others_to_hear_does_not_silence_the_rest_of_its_row(data: Dataset) -> None:
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 2, "training.threads": 1,
                "label_graph": "given", "model.base_learners": "none"}  # fmt: skip
    edges = np.array([[0, 1], [0, 2], [1, 2], [3, 4]])  # d and e hear one another and no one else
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


def test_an_edgeless_graph_or_a_single_node_is_said_to_be_unmeasured() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 6)).astype(np.float32)
    data = Dataset(name="vectors", kind="vector", rows=X, labels=sparse.csr_matrix((X[:, :3] > 0).astype(np.float32)),
                   label_names=("a", "b", "c"))  # fmt: skip
    settings = {"model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1,
                "model.base_learners": "none", "label_graph": "edgeless"}  # fmt: skip
    model = fit(Splits(train=data, valid=data), Config.preset("fast").updated(settings))
    found = measure(model, data)
    assert found.nodes.attended is None
    assert "single node" in found.nodes.verdict()
    assert "no edges" in found.labels.verdict()


@pytest.mark.parametrize(
    ("attended", "words"), [(0.30, "mattered more than chance"), (0.11, "No difference"), (0.0, "less than chance")]
)
def test_verdicts_need_two_standard_errors(attended: float, words: str) -> None:
    check = Check(name="n", question="q", cases=9, attended=attended, random=0.1, error=0.02, wins=0.5)
    assert words in check.verdict()
