"""SPEN, DVN and GAML: gradients against autograd, searches against exhaustive ones, and what each can learn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from lampnet.baselines.energy_networks import DVN, SPEN, Energy, relaxed_f1
from lampnet.baselines.gaml import GAML
from lampnet.baselines.node_networks import PlainEmbedding
from lampnet.encoders.nodes import NodeRows, with_edges
from lampnet.evaluation.metrics import example_f1

ROWS = NodeRows.from_csr(sparse.csr_matrix([[1.0, 0, 2], [0, 3, 0], [1, 1, 1]]))


@pytest.fixture
def energy() -> Energy:
    torch.manual_seed(0)
    return Energy(PlainEmbedding(ROWS, 6), 6, n_labels=4, units=5, dropout=0.0)


def test_the_gradient_is_that_of_the_score(energy: Energy) -> None:
    own, y = torch.randn(3, 4), torch.rand(3, 4, requires_grad=True)
    (expected,) = torch.autograd.grad(energy.score(own, y).sum(), y)
    torch.testing.assert_close(energy.gradient(own, y), expected)


def test_ascent_finds_the_best_set_where_labels_do_not_interact(energy: Energy) -> None:
    with torch.no_grad():
        energy.costs.zero_()
    own = torch.tensor([[1.5, -0.5, 0.3, -2.0]])
    found = energy.ascent(own, steps=400, rate=2.0)
    sets = torch.tensor(list(product([0.0, 1.0], repeat=4)))
    best = sets[energy.score(own.expand(16, -1), sets).argmax()]
    torch.testing.assert_close(found[0], best)


def test_ascent_never_leaves_the_box_nor_lowers_the_value(energy: Energy) -> None:
    own = torch.randn(3, 4)
    before = energy.score(own, torch.zeros(3, 4))
    found = energy.ascent(own, steps=30, rate=0.5)
    assert found.min() >= 0
    assert found.max() <= 1
    assert (energy.score(own, found) >= before - 1e-6).all()


def test_spen_without_steps_is_a_perceptron_and_its_steps_reach_a_fixed_point(energy: Energy) -> None:
    own = energy(ROWS.batch(np.arange(3)))
    assert torch.equal(energy.unrolled(own, 0)[-1], own)
    with torch.no_grad():
        energy.rate.fill_(np.log(0.3))
        energy.costs.mul_(0.5)
    last = energy.unrolled(own, 200)[-1]
    # There the gradient of score plus entropy is zero: every logit is the gradient of the score.
    torch.testing.assert_close(energy.gradient(own, torch.sigmoid(last)), last, rtol=1e-4, atol=1e-4)


def test_relaxed_f1_is_example_f1_on_whole_sets() -> None:
    rng = np.random.default_rng(0)
    y, truth = (rng.random((20, 5)) < 0.4).astype(np.float32), (rng.random((20, 5)) < 0.4).astype(np.float32)
    each = relaxed_f1(torch.from_numpy(y), torch.from_numpy(truth))
    assert each.mean().item() == pytest.approx(example_f1(truth, y, zero_division=1.0), abs=1e-6)


def one_of_two(n: int, seed: int) -> tuple[NodeRows, np.ndarray]:
    """Word 0 says that exactly one of labels 0 and 1 is there, not which; word 1 that neither is."""
    rng = np.random.default_rng(seed)
    some, first = rng.random(n) < 0.7, rng.random(n) < 0.6
    Y = np.stack([some & first, some & ~first], axis=1).astype(float)
    return NodeRows.from_csr(sparse.csr_matrix(np.stack([some, ~some], axis=1).astype(np.float32))), Y


def test_dvn_names_the_set_of_the_highest_expected_f1() -> None:
    """The second label is unlikely (0.4), but naming both scores 2/3 for sure, naming the likelier 0.6 on average."""
    X, Y = one_of_two(400, seed=0)
    model = DVN(width=16, units=8, epochs=25, learning_rate=5e-3, patience=25).fit(X, Y)
    named = model.predict_proba(NodeRows.from_csr(sparse.csr_matrix(np.eye(2, dtype=np.float32))))
    assert (named > 0.5).tolist() == [[True, True], [False, False]]


def test_spen_weighs_later_steps_more() -> None:
    model = SPEN(width=4, units=3, steps=1)
    model.network_, _ = model._build(nn.Identity(), 2)
    own, truth = torch.randn(5, 2), (torch.rand(5, 2) < 0.5).float()
    first, last = (
        nn.functional.binary_cross_entropy_with_logits(stage, truth) for stage in model.network_.unrolled(own, 1)
    )
    torch.testing.assert_close(model._loss(own, truth), (0.5 * first + last) / 1.5)


def test_gaml_receives_along_edges_and_nothing_from_padding() -> None:
    """A node's neighbours matter where edges are given; a row gives the same logits alone and beside longer ones."""
    torch.manual_seed(0)
    nodes = NodeRows.from_csr(sparse.csr_matrix(np.array([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=np.float32)))
    model = GAML(width=8, epochs=1).fit(nodes, np.array([[1.0, 0], [0, 1]]), nodes, np.array([[1.0, 0], [0, 1]]))
    alone = model.predict_proba(nodes.take(np.array([0])))
    np.testing.assert_allclose(model.predict_proba(nodes)[0], alone[0], atol=1e-6)
    joined = [with_edges(nodes.take(np.array([0])), [np.array(edges)]) for edges in ([[0, 1]], [[0, 2]])]
    first, second = (model.predict_proba(rows) for rows in joined)
    assert not np.allclose(first, second)
    empty = NodeRows.from_csr(sparse.csr_matrix((1, 4), dtype=np.float32))
    assert np.isfinite(model.predict_proba(empty)).all()
