"""The network on known labels: where it starts, who takes part, what it can learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lampnet.base_learners.label_dependence import cross_fit_dependence
from lampnet.base_learners.shift_weights import N_HOW, ShiftWeights
from lampnet.config import ModelConfig, TrainingConfig
from lampnet.model.label_graph import LabelGraph
from lampnet.model.label_states import LabelStates
from lampnet.pipeline.known import fit_shift_weights
from lampnet.training.known_trainer import LabelledLogits, train_label_states

#: co-occurrence, covariance and label sets
SHIFTS = 3


def network_of(n_labels, shortlist=0, kind="full", width=16):
    torch.manual_seed(0)
    config = ModelConfig(width=width, heads=2, steps=2, dropout=0.0, shortlist=shortlist, base_learners=())
    return LabelStates(config, LabelGraph(kind, None, n_labels), SHIFTS).eval()


def some_input(n_labels, rows=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, n_labels, generator=random)
    shifts = torch.randn(rows, n_labels, SHIFTS, generator=random)
    states = torch.randint(-1, 2, (rows, n_labels), generator=random)
    return logits + 0.4 * shifts.sum(-1), logits, shifts, states


@pytest.mark.parametrize("shortlist", [0, 3, 7, 99])
def test_before_training_it_says_what_the_shifts_say(shortlist):
    network = network_of(7, shortlist)
    initial, *given = some_input(7)
    torch.testing.assert_close(network(initial, *given), initial)


def test_true_labels_take_part_and_refused_ones_where_they_were_promising():
    network = network_of(6, shortlist=3)
    logits = torch.tensor([[5.0, 4.0, 3.0, -1.0, -2.0, -3.0]])
    taking_part = network._taking_part(logits, logits, torch.tensor([[0, -1, 0, 0, 0, 1]]))
    assert taking_part.tolist() == [[0, 1, 5]]
    assert network._taking_part(logits, logits, torch.tensor([[0, 0, 0, 0, -1, 1]])).tolist() == [[0, 1, 5]]


def trained(network, Y, logits, epochs=12, seed=0, weights=None):
    fold_n = np.arange(len(Y)) % 4
    data = LabelledLogits(Y, logits, fold_n, cross_fit_dependence(Y, logits, fold_n))
    weights = weights or fit_shift_weights(data, seed)
    config = TrainingConfig(epochs=epochs, batch_size=32, learning_rate=1e-2, warmup_steps=5, seed=seed)
    return train_label_states(network, data, weights, np.arange(len(Y)), config, lambda: True), data, weights


def rows_of(n, seed):
    random = np.random.default_rng(seed)
    Y = (random.random((n, 4)) < 0.4).astype(np.float32)
    return Y, random.normal(size=Y.shape).astype(np.float32)


@pytest.mark.parametrize(("kind", "reaches"), [("full", True), ("edgeless", False)])
def test_a_known_label_reaches_the_others_by_messages_only(kind, reaches):
    network = network_of(4, kind=kind)
    torch.nn.init.normal_(network.W_o)
    logits, shifts, states = torch.zeros(1, 4), torch.zeros(1, 4, SHIFTS), torch.zeros(1, 4, dtype=torch.int64)
    known = states.clone()
    known[0, 0] = 1
    before, after = network(logits, logits, shifts, states), network(logits, logits, shifts, known)
    assert bool((before[0, 1:] != after[0, 1:]).all()) is reaches
    assert before[0, 0] != after[0, 0]


def test_training_lowers_the_loss_of_labels_that_are_not_known():
    """Labels that exclude each other; the shifts say so, and count nothing before the network counts them."""
    random = np.random.default_rng(0)
    Y = np.eye(6, dtype=np.float32)[random.integers(6, size=256)]
    logits = np.full(Y.shape, -1.6, dtype=np.float32)
    nothing = ShiftWeights(np.zeros((N_HOW, 2 + SHIFTS), np.float32))
    network, data, weights = trained(network_of(6), Y, logits, epochs=8, weights=nothing)
    states = np.zeros(Y.shape, np.int8)
    states[:, :3] = np.where(Y[:, :3] == 1, 1, -1)
    targets = torch.from_numpy(Y[:, 3:])
    with torch.inference_mode():
        given = data.given(np.arange(len(Y)), states, weights)
        final, initial = network(*given), given[0]
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    assert loss(final[:, 3:], targets) < loss(initial[:, 3:], targets)


def test_the_same_seed_trains_the_same_network():
    Y, logits = rows_of(100, 1)
    first, second, other = (trained(network_of(4), Y, logits, epochs=2, seed=seed)[0] for seed in (0, 0, 1))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_unknown_labels_of_training_rows_teach_nothing():
    """Labels that are NaN could be anything: networks trained with either are the same."""
    Y, logits = rows_of(100, 2)
    Y[::3, 2] = np.nan
    first, *_ = trained(network_of(4), Y, logits, epochs=2)
    assert all(torch.isfinite(p).all() for p in first.parameters())
    nothing = np.full_like(Y, np.nan)
    untouched, *_ = trained(network_of(4), nothing, logits, epochs=1)
    start = network_of(4)
    moved = [
        name
        for name, p in untouched.named_parameters()
        if not torch.allclose(p, dict(start.named_parameters())[name], rtol=0.05)
    ]
    assert not [name for name in moved if name.startswith("W_o")]
