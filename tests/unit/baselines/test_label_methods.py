"""The problem transformations, against slow versions and special cases with known answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain as SklearnChain

from lampnet.baselines.chain import ChainEnsemble
from lampnet.baselines.homer import Homer, balanced_clusters
from lampnet.baselines.label_ranking import CalibratedLabelRanking, quick_weighted_voting
from lampnet.baselines.linear import OneVsRestLogistic
from lampnet.baselines.powerset import LabelPowerset, RAkEL, random_labelsets
from lampnet.baselines.tuned_linear import TunedLinear
from lampnet.errors import DataError


def rows_of(n: int = 90, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = (rng.random((n, 10)) < 0.4).astype(float)
    Y = np.stack([X[:, 0], X[:, 1], X[:, 0] * X[:, 1], 1 - X[:, 2]], axis=1)
    return sparse.csr_matrix(X), np.where(rng.random(Y.shape) < 0.1, 1 - Y, Y)


def test_powerset_is_a_multinomial_regression_over_the_training_sets() -> None:
    X, Y = rows_of()
    model = LabelPowerset(C=2.0).fit(X, Y)
    codes = Y @ [8, 4, 2, 1]
    reference = LogisticRegression(C=2.0, max_iter=200).fit(X, codes)
    chance = reference.predict_proba(X)
    sets = np.array([[int(bit) for bit in f"{int(code):04b}"] for code in reference.classes_])
    np.testing.assert_allclose(model.predict_proba(X), chance @ sets, atol=1e-5)
    known = {tuple(row) for row in Y.astype(bool).tolist()}
    assert {tuple(row) for row in model.predict(X).tolist()} <= known
    np.testing.assert_array_equal(model.predict(X), sets[chance.argmax(axis=1)].astype(bool))


def test_powerset_refuses_what_does_not_fit_into_memory() -> None:
    Y = np.unpackbits(np.arange(2**14, dtype=">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 2:].astype(float)
    with pytest.raises(DataError, match="16,384 distinct label sets"):
        LabelPowerset(C=1.0).fit(sparse.csr_matrix((len(Y), 1)), Y)


def test_rakel_with_all_labels_in_one_set_is_the_powerset() -> None:
    X, Y = rows_of()
    whole = RAkEL(C=2.0, k=4).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(whole, LabelPowerset(C=2.0).fit(X, Y).predict_proba(X), atol=1e-9)
    pairs = RAkEL(C=2.0, k=2, labelsets=6).fit(X, Y)  # all pairs
    expected = np.zeros(Y.shape)
    for pair in combinations(range(4), 2):
        expected[:, pair] += LabelPowerset(C=2.0).fit(X, Y[:, pair]).predict_proba(X) / 3
    np.testing.assert_allclose(pairs.predict_proba(X), expected, atol=1e-9)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 60), st.integers(0, 3))
def test_labelsets_cover_every_label_and_are_distinct(n_labels: int, k: int, count: int, seed: int) -> None:
    found = random_labelsets(n_labels, k, count, seed)
    assert set(np.concatenate(found).tolist()) == set(range(n_labels))
    assert all(len(set(part.tolist())) == min(k, n_labels) for part in found)
    assert len({tuple(part.tolist()) for part in found}) == len(found)


def test_homer_with_one_branch_per_label_is_one_vs_rest() -> None:
    X, Y = rows_of()
    flat = Homer(C=2.0, branches=4).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(flat, OneVsRestLogistic(C=2.0).fit(X, Y).predict_proba(X), atol=1e-9)


def test_homer_multiplies_along_the_path() -> None:
    X, Y = rows_of()
    model = Homer(C=2.0, branches=2).fit(X, Y)
    expected = np.ones(Y.shape)
    for child in model.learned_.children:
        has = Y[:, child.labels].any(axis=1)
        inside = LogisticRegression(C=2.0, solver="liblinear", random_state=0).fit(X, has).predict_proba(X)[:, 1]
        for label in child.labels:
            deeper = LogisticRegression(C=2.0, solver="liblinear", random_state=0).fit(X[has], Y[has, label])
            expected[:, label] = inside * deeper.predict_proba(X)[:, 1]
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-4)


@given(st.integers(1, 25), st.integers(1, 6), st.integers(0, 3))
def test_clusters_are_balanced_and_whole(m: int, k: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).random((m, 3))
    parts = balanced_clusters(vectors, k, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(m))
    assert max(len(part) for part in parts) <= -(-m // min(k, m))


def test_chain_ensemble_is_the_mean_of_scikit_learns_chains() -> None:
    X, Y = rows_of()
    model = ChainEnsemble(C=2.0, chains=3, seed=4).fit(X, Y)
    expected = []
    for seed in (4, 5, 6):
        order = np.random.default_rng(seed).permutation(4)
        rows = np.random.default_rng(seed).permutation(90)[:60]
        base = LogisticRegression(C=2.0, solver="liblinear", random_state=seed)
        expected.append(SklearnChain(base, order=order).fit(X[rows], Y[rows]).predict_proba(X))
    assert len({tuple(order) for order, _, _ in model.learned_}) > 1
    np.testing.assert_allclose(model.predict_proba(X), np.mean(expected, axis=0), rtol=1e-4)


def test_label_ranking_counts_the_votes_of_all_pairs() -> None:
    X, Y = rows_of()
    votes = np.zeros((len(Y), 5))
    base = LogisticRegression(C=2.0, solver="liblinear", random_state=0)
    for one, other in combinations(range(4), 2):
        rows = np.flatnonzero(Y[:, one] != Y[:, other])
        chance = base.fit(X[rows], Y[rows, one]).predict_proba(X)[:, 1]
        votes[:, one] += chance
        votes[:, other] += 1 - chance
    for label in range(4):
        chance = base.fit(X, Y[:, label]).predict_proba(X)[:, 1]
        votes[:, label] += chance
        votes[:, 4] += 1 - chance
    model = CalibratedLabelRanking(C=2.0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), votes[:, :4] > votes[:, 4:])
    np.testing.assert_array_equal(model.predict_proba(X) > 0.5, model.predict(X))
    sets, asked = model.quick_sets(X)
    np.testing.assert_array_equal(sets, model.predict(X))
    assert (asked <= 10).all()


def test_label_ranking_refuses_too_many_pairs() -> None:
    with pytest.raises(DataError, match="400 labels make 80,200 pairs"):
        CalibratedLabelRanking(C=1.0).fit(np.zeros((3, 1)), np.zeros((3, 400)))


@settings(max_examples=60)
@given(st.integers(2, 12), st.integers(0, 10_000))
def test_quick_voting_gives_the_sets_of_all_votes_with_fewer_games(count: int, seed: int) -> None:
    share = np.random.default_rng(seed).random((count, count))
    share = np.triu(share, 1) + np.tril(1 - share.T, -1)
    votes = share.sum(axis=1)
    relevant, games = quick_weighted_voting(count, count - 1, lambda a, b: float(share[a, b]))
    better = [i for i in range(count - 1) if votes[i] > votes[-1]]
    assert relevant == sorted(better, key=lambda i: -votes[i])
    assert games <= count * (count - 1) // 2


def test_quick_voting_asks_few_pairs_where_one_label_is_clear() -> None:
    worth = np.array([5.0, -5, -5, -5, -5, -5, -5, -5, -5, 0])  # the last is the virtual label
    relevant, games = quick_weighted_voting(10, 9, lambda a, b: float(worth[a] > worth[b]))
    assert relevant == [0]
    assert games < 25


class _Recorder(TunedLinear):
    """Predicts 1 - |log10 C|: best at C = 1."""

    def _learn(self, X: object, Y: np.ndarray, C: float) -> tuple[float, int]:
        return C, len(Y)

    def _predict(self, learned: tuple[float, int], X: np.ndarray) -> np.ndarray:
        right = abs(np.log10(learned[0])) < 0.1
        return np.tile([0.9, 0.1] if right else [0.1, 0.9], (X.shape[0], 1))


def test_strength_is_tuned_on_validation_rows_and_kept() -> None:
    Y = np.tile([1.0, 0.0], (30, 1))
    X = sparse.csr_matrix(np.ones((30, 1)))
    given_rows = _Recorder().fit(X, Y, X[:5], Y[:5])
    assert given_rows.tuned_ == {"C": 1.0}
    assert given_rows.learned_ == (1.0, 30)
    sampled = _Recorder().fit(X, Y)  # tuned on a tenth, then learned from all rows
    assert sampled.learned_ == (1.0, 30)
