"""Every baseline learns what it can, survives constant and unknown labels, and repeats itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain as SklearnChain

from lampnet.baselines import REGISTRY, baseline
from lampnet.baselines.chain import ClassifierChain
from lampnet.baselines.linear import OneVsRestLogistic, platt
from lampnet.baselines.mlknn import MLkNN, nearest
from lampnet.baselines.node_networks import mean_of_nodes, shuffled_batches
from lampnet.baselines.seq2seq import Seq2Seq
from lampnet.encoders.nodes import NodeRows
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.metrics import example_f1, ranking_metrics

SMALL: dict[str, dict[str, object]] = {
    "ecc": {"chains": 3},
    "fastxml": {"trees": 10},
    "forest": {"trees": 15},
    "rfmlc45": {"trees": 15},
    "mlp": {"width": 32, "epochs": 8, "learning_rate": 1e-2, "batch_size": 16},
    "spen": {"width": 32, "epochs": 8, "learning_rate": 1e-2, "batch_size": 16},
    "dvn": {"width": 32, "epochs": 15, "learning_rate": 1e-2, "batch_size": 16, "patience": 15},
    "gaml": {"width": 32, "epochs": 8, "learning_rate": 1e-2, "batch_size": 16},
    "seq2seq": {"width": 32, "epochs": 8, "learning_rate": 2e-2, "batch_size": 16},
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Networks this small are slower on two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def word_rows(n: int, seed: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows of words: label j comes with word j; label 3 is there when labels 0 and 1 are."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 4)) < 0.4).astype(float)
    Y[:, 3] = Y[:, 0] * Y[:, 1]
    noise = rng.random((n, 12)) < 0.2
    noise[:, :3] = Y[:, :3]
    noise[:, 11] = True  # no row is empty
    return sparse.csr_matrix(noise.astype(np.float32)), Y


def as_input(name: str, X: sparse.csr_matrix) -> object:
    return NodeRows.from_csr(X) if REGISTRY[name].input == "nodes" else X


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "constant"])
def test_each_learns(name: str) -> None:
    X, Y = word_rows(240, seed=0)
    new_X, new_Y = word_rows(100, seed=1)
    model = baseline(name, **SMALL.get(name, {})).fit(as_input(name, X), Y)
    proba = model.predict_proba(as_input(name, new_X))
    assert proba.shape == new_Y.shape
    assert proba.min() >= 0
    assert proba.max() <= 1
    assert ranking_metrics(new_Y, proba)["roc_auc_macro"] > 0.9
    assert example_f1(new_Y, proba > 0.5, zero_division=1.0) > 0.8


@pytest.mark.parametrize("name", list(REGISTRY))
def test_constant_and_unknown_labels(name: str) -> None:
    X, Y = word_rows(60, seed=2)
    Y = np.hstack([Y, np.zeros((60, 1)), np.ones((60, 1)), np.full((60, 1), np.nan)])
    Y[np.random.default_rng(0).random(Y.shape) < 0.1] = np.nan
    settings = SMALL.get(name, {}) | ({"epochs": 2} if REGISTRY[name].input == "nodes" else {})
    model = baseline(name, **settings).fit(as_input(name, X), Y)
    proba = model.predict_proba(as_input(name, X[:10]))
    assert np.isfinite(proba).all()
    if name != "seq2seq":
        # Label sets are learned with unknown labels as absent, and rankings give shares of votes.
        unsure = 0.3 if name in ("powerset", "rakel", "clr") else 0.0
        assert (proba[:, 4] < 0.2 + unsure).all()
        assert (proba[:, 5] > 0.8 - unsure).all()


@pytest.mark.parametrize("name", list(REGISTRY))
def test_repeats_itself_and_leaves_the_global_generator_alone(name: str) -> None:
    X, Y = word_rows(50, seed=3)
    settings = SMALL.get(name, {}) | ({"epochs": 2} if REGISTRY[name].input == "nodes" else {})
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = baseline(name, **settings).fit(as_input(name, X), Y).predict_proba(as_input(name, X))
    assert torch.equal(torch.rand(1), expected)
    second = baseline(name, **settings).fit(as_input(name, X), Y).predict_proba(as_input(name, X))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.input == "features"])
def test_dense_features_and_one_row(name: str) -> None:
    X, Y = word_rows(80, seed=4)
    model = baseline(name, **SMALL.get(name, {})).fit(X.toarray() * 100 + 7, Y)
    assert model.predict_proba(X[:5].toarray() * 100 + 7).shape == (5, 4)
    single = baseline(name, **SMALL.get(name, {})).fit(X[:1], Y[:1])
    assert single.predict_proba(X[:3]).shape == (3, 4)


def test_logistic_is_scikit_learns_with_unknown_rows_left_out() -> None:
    X, Y = word_rows(80, seed=5)
    Y[::7, 1] = np.nan
    got = OneVsRestLogistic(C=2.0).fit(X, Y).predict_proba(X)[:, 1]
    known = ~np.isnan(Y[:, 1])
    reference = LogisticRegression(C=2.0, solver="liblinear", random_state=0).fit(X[known], Y[known, 1])
    np.testing.assert_allclose(got, reference.predict_proba(X)[:, 1], rtol=1e-5)


def test_strength_is_tuned_on_the_validation_rows() -> None:
    """Training labels are half noise, so a weak model must win on clean validation rows; refitting is not done."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40))
    Y = (X[:, :3] + rng.normal(0, 3, size=(60, 3)) > 0).astype(float)
    X_valid = rng.normal(size=(400, 40))
    Y_valid = (X_valid[:, :3] > 0).astype(float)
    model = OneVsRestLogistic().fit(X, Y, X_valid, Y_valid)
    assert model.C_ < 3.0
    fixed = OneVsRestLogistic(C=model.C_).fit(X, Y, X_valid, Y_valid)
    np.testing.assert_allclose(model.predict_proba(X_valid), fixed.predict_proba(X_valid))


def test_platt_finds_the_sigmoid() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3000, 4))
    Y = (rng.random(scores.shape) < 1 / (1 + np.exp(-(2.5 * scores - 1)))).astype(float)
    Y[0] = np.nan
    slope, shift = platt(scores, Y)
    assert slope == pytest.approx(2.5, abs=0.15)
    assert shift == pytest.approx(-1, abs=0.1)


def test_chain_is_scikit_learns_chain() -> None:
    X, Y = word_rows(120, seed=6)
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    ours = ClassifierChain(C=1.0).fit(X, Y)
    theirs = SklearnChain(LogisticRegression(solver="liblinear", random_state=0), order=list(order)).fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
def test_nearest_against_a_loop(dense: bool) -> None:
    X = np.random.default_rng(0).normal(size=(30, 5))
    given = X if dense else sparse.csr_matrix(X)
    got = nearest(given, given, 4, skip_self=True)
    for i, row in enumerate(X):
        distance = ((X - row) ** 2).sum(axis=1)
        distance[i] = np.inf
        np.testing.assert_array_equal(got[i], np.argsort(distance)[:4])
    few = nearest(given[:2], given[:3], 5)
    assert (few[:, 3:] == -1).all()
    assert (few[:, :3] >= 0).all()


def test_mlknn_against_the_formulas_of_the_paper() -> None:
    rng = np.random.default_rng(1)
    X, k, s = rng.normal(size=(40, 3)), 3, 1.0
    Y = (X[:, :2] + rng.normal(0, 0.5, size=(40, 2)) > 0).astype(float)
    new = rng.normal(size=(6, 3))
    got = MLkNN(k=k, smoothing=s).fit(X, Y).predict_proba(new)
    for label in range(2):
        y = Y[:, label]
        prior = (s + y.sum()) / (2 * s + len(y))
        table = np.zeros((2, k + 1))
        for i in range(len(X)):
            distance = ((X - X[i]) ** 2).sum(axis=1)
            distance[i] = np.inf
            table[int(y[i]), int(y[np.argsort(distance)[:k]].sum())] += 1
        for i, row in enumerate(new):
            c = int(y[np.argsort(((X - row) ** 2).sum(axis=1))[:k]].sum())
            present = prior * (s + table[1, c]) / (s * (k + 1) + table[1].sum())
            absent = (1 - prior) * (s + table[0, c]) / (s * (k + 1) + table[0].sum())
            assert got[i, label] == pytest.approx(present / (present + absent))


def test_mean_of_nodes_ignores_padding() -> None:
    z = torch.tensor([[[1.0], [3.0], [float("nan")]], [[5.0], [7.0], [9.0]]])
    present = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_of_nodes(z, present).tolist() == [[2.0], [0.0]]


def test_batches_hold_every_row_once() -> None:
    lengths = np.random.default_rng(0).integers(0, 50, size=333)
    batches = shuffled_batches(lengths, 8, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(333))
    assert max(len(b) for b in batches) == 8


def test_take_nodes() -> None:
    X, _ = word_rows(9, seed=7)
    index = np.array([4, 0, 8])
    taken, expected = NodeRows.from_csr(X).take(index), NodeRows.from_csr(X[index])
    np.testing.assert_array_equal(taken.offsets, expected.offsets)
    np.testing.assert_array_equal(taken.ids, expected.ids)
    np.testing.assert_array_equal(taken.values, expected.values)


@pytest.fixture(scope="module")
def decoder() -> tuple[Seq2Seq, NodeRows, np.ndarray]:
    X, Y = word_rows(60, seed=8)
    nodes = NodeRows.from_csr(X)
    return Seq2Seq(width=16, epochs=3, learning_rate=1e-2, beams=200).fit(nodes, Y), nodes, Y


def test_beam_search_against_every_sequence(decoder: tuple[Seq2Seq, NodeRows, np.ndarray]) -> None:
    """With as many beams as sequences the search is exhaustive: compare with scoring every sequence."""
    model, nodes, _ = decoder
    stop, start = 4, 5
    row = np.array([3])
    with torch.inference_mode():
        memory, present, state = model.network_.encode(model._in_order(nodes).batch(row))
        scored = []
        for size in range(min(4, model.longest_) + 1):
            for labels in permutations(range(4), size):
                named = torch.tensor([[start, *labels]])
                log_p, _ = model.network_.decode(named, state, memory, present)
                total = sum(float(log_p[0, t, label]) for t, label in enumerate([*labels, stop]))
                scored.append((total, frozenset(labels)))
    weights = np.exp([total for total, _ in scored])
    expected = np.array([sum(w for w, (_, s) in zip(weights, scored, strict=True) if j in s) for j in range(4)])
    got = model.predict_proba(nodes.take(row))[0]
    np.testing.assert_allclose(got, expected / weights.sum(), atol=1e-4)
    best = max(scored)[1]
    assert set(np.flatnonzero(model.predict(nodes.take(row))[0])) == set(best)


def test_seq2seq_orders_labels_by_frequency_and_stops(decoder: tuple[Seq2Seq, NodeRows, np.ndarray]) -> None:
    model, _, _ = decoder
    Y = np.array([[1.0, 0, 1, 1], [0, 0, 0, 0], [np.nan, 1, 0, 0]])
    sequences = model._sequences(Y)
    expected = [label for label in model.order_ if label in (0, 2, 3)]
    assert [list(s) for s in sequences] == [[*expected, 4], [4], [1, 4]]


def test_seq2seq_handles_rows_without_nodes(decoder: tuple[Seq2Seq, NodeRows, np.ndarray]) -> None:
    model, _, _ = decoder
    empty = NodeRows.from_csr(sparse.csr_matrix((2, 12), dtype=np.float32))
    assert np.isfinite(model.predict_proba(empty)).all()


def test_prediction_does_not_depend_on_the_batch(decoder: tuple[Seq2Seq, NodeRows, np.ndarray]) -> None:
    model, nodes, _ = decoder
    whole = model.predict_proba(nodes)
    for row in (0, 17):
        np.testing.assert_allclose(model.predict_proba(nodes.take(np.array([row])))[0], whole[row], atol=1e-5)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'forest'"):
        baseline("forrest")
    X, Y = word_rows(5, seed=9)
    for name in REGISTRY:
        with pytest.raises(DataError, match="5 rows were given with labels of shape"):
            baseline(name).fit(as_input(name, X), Y[:3])
    with pytest.raises(DataError, match="0, 1 or NaN"):
        baseline("logistic").fit(X, Y + 1)
    with pytest.raises(DataError, match="NaN or infinite"):
        baseline("logistic").fit(np.full((5, 2), np.nan), Y)


def texts_in_order(n: int, seed: int) -> tuple[NodeRows, np.ndarray]:
    """Two words and filling: label 0 where word 0 comes before word 1, else label 1. As sets all rows are alike."""
    rng = np.random.default_rng(seed)
    first = rng.random(n) < 0.5
    words = np.where(first[:, None], [0, 2, 1, 3], [1, 2, 0, 3])
    offsets, positions = 4 * np.arange(n + 1), np.tile(np.arange(4), n)[:, None].astype(np.int32)
    ids, values = words.ravel().astype(np.int32), np.ones(4 * n, dtype=np.float32)
    return NodeRows(offsets=offsets, ids=ids, values=values, positions=positions), np.stack([first, ~first], 1) * 1.0


def test_seq2seq_reads_words_in_their_order() -> None:
    X, Y = texts_in_order(200, seed=0)
    new_X, new_Y = texts_in_order(50, seed=1)
    settings = {"width": 16, "epochs": 12, "learning_rate": 1e-2, "patience": 12, "dropout": 0.0}
    model = Seq2Seq(**settings).fit(X, Y, new_X, new_Y)
    np.testing.assert_array_equal(model.predict(new_X), new_Y)
    as_sets = NodeRows(offsets=X.offsets, ids=X.ids, values=X.values)
    assert model._in_order(X) is X
    shuffled = Seq2Seq(**settings | {"epochs": 1}).fit(as_sets, Y)._in_order(as_sets)
    assert shuffled.ids.reshape(-1, 4).tolist() == [[0, 1, 2, 3]] * 200  # equally frequent: by number


def test_seq2seq_reads_sets_from_frequent_to_rare_words() -> None:
    rows = NodeRows.from_csr(sparse.csr_matrix([[1.0, 0, 2, 3], [0, 0, 1, 0], [0, 0, 4, 5]]))
    model = Seq2Seq(width=4, epochs=1).fit(rows, np.ones((3, 1)), rows, np.ones((3, 1)))
    read = model._in_order(rows)
    assert [read.ids_of(row).tolist() for row in range(3)] == [[2, 3, 0], [2], [2, 3]]
    assert read.values.tolist() == [2, 3, 1, 1, 4, 5]
    unseen = NodeRows.from_csr(sparse.csr_matrix([[1.0, 0, 1, 0, 1]]))
    assert model._in_order(unseen).ids.tolist() == [2, 0, 4]


def test_seq2seq_keeps_the_epoch_whose_searched_sets_are_best() -> None:
    X, Y = word_rows(120, seed=0)
    valid_X, valid_Y = word_rows(60, seed=1)
    rows, valid_rows = NodeRows.from_csr(X), NodeRows.from_csr(valid_X)
    model = Seq2Seq(width=16, epochs=6, learning_rate=2e-2, patience=6).fit(rows, Y, valid_rows, valid_Y)
    assert len(model.history_) == 6
    best = max(epoch["validation"] for epoch in model.history_)
    assert example_f1(valid_Y, model.predict(valid_rows)) == pytest.approx(best)
