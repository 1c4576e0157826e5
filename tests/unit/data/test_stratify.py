"""Iterative stratification: exact sizes, every label shared out, equal to the published algorithm written plainly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.data import stratify
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, fold_numbers
from lampnet.data.stratify import stratified_parts


def labels(n: int, n_labels: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.random((n, n_labels)) < random.random(n_labels) ** 3).astype(np.float32)


@given(st.integers(0, 2**31), st.integers(1, 60), st.integers(1, 8), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_parts_have_their_sizes_and_the_same_seed_gives_the_same(seed: int, n: int, n_labels: int, parts: int) -> None:
    Y = labels(n, n_labels, seed)
    Y[0] = np.nan
    sizes = np.random.default_rng(seed).multinomial(n, np.full(parts, 1 / parts)).tolist()
    found = stratified_parts(Y, sizes, seed)
    assert np.bincount(found, minlength=parts).tolist() == sizes
    np.testing.assert_array_equal(found, stratified_parts(sparse.csr_matrix(Y), sizes, seed))


@given(st.integers(0, 2**31), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_labels_of_different_rows_are_shared_out_as_evenly_as_can_be(seed: int, folds: int) -> None:
    classes = np.random.default_rng(seed).choice(12, size=100, p=np.arange(1, 13) / 78)
    fold_n = fold_numbers(100, folds, seed, labels=np.eye(12)[classes])
    for label in range(12):
        counts = np.bincount(fold_n[classes == label], minlength=folds)
        assert counts.max() - counts.min() <= 2


def test_rare_labels_that_share_rows_are_in_more_folds_than_by_chance() -> None:
    Y = labels(300, 40, 0)
    Y = Y[:, (Y.sum(axis=0) >= 2) & (Y.sum(axis=0) <= 10)]

    def covered(fold_n: np.ndarray) -> float:
        """Of the folds that a label could be in, the share that it is in."""
        here = [len(np.unique(fold_n[y == 1])) / min(5, int(y.sum())) for y in Y.T]
        return float(np.mean(here))

    stratified = [covered(fold_numbers(300, 5, seed, labels=Y)) for seed in range(5)]
    chance = [covered(fold_numbers(300, 5, seed)) for seed in range(5)]
    assert min(stratified) > 0.97
    assert np.mean(chance) < 0.9


def test_the_parts_are_those_of_the_published_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The label with the fewest rows left is looked for anew after each label, as the paper has it."""

    class Rigged:
        """Chance that always takes the first."""

        def random(self, n: int) -> np.ndarray:
            return np.arange(n, dtype=float)

        def permutation(self, rows: np.ndarray) -> np.ndarray:
            return rows

        def choice(self, some: np.ndarray) -> int:
            return int(some[0])

    monkeypatch.setattr(stratify.np.random, "default_rng", lambda seed: Rigged())
    random = np.random.Generator(np.random.PCG64(0))
    for _ in range(20):
        Y = (random.random((25, 6)) < random.random(6) ** 2).astype(float)
        sizes = [10, 8, 7]
        room, part_n = list(sizes), [-1] * 25
        wanted = [[Y[:, j].sum() * size / 25 for size in sizes] for j in range(6)]
        while True:
            left = [(sum(1 for i in range(25) if part_n[i] < 0 and Y[i, j]), j) for j in range(6)]
            left = [pair for pair in left if pair[0]]
            if not left:
                break
            label = min(left)[1]
            for row in [i for i in range(25) if part_n[i] < 0 and Y[i, label]]:
                best = max((round(wanted[label][p], 6), room[p], -p) for p in range(3) if room[p])
                part = -best[2]
                part_n[row], room[part] = part, room[part] - 1
                for j in range(6):
                    wanted[j][part] -= Y[row, j]
        found = stratified_parts(Y, sizes, 0)
        some = np.array(part_n) >= 0
        np.testing.assert_array_equal(found[some], np.array(part_n)[some])


def test_labels_with_many_rows_are_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stratify, "MANY", 5)
    Y = np.zeros((100, 2))
    Y[:90, 0], Y[-4:, 1] = 1, 1
    found = stratified_parts(Y, [50, 50], 0)
    assert np.bincount(found[-4:]).tolist() == [2, 2]
    assert np.bincount(found).tolist() == [50, 50]


def test_validation_and_test_rows_have_their_share_of_rare_labels() -> None:
    Y = np.zeros((200, 5), dtype=np.float32)
    for label in range(5):
        Y[label * 20 : label * 20 + 12, label] = 1
    data = Dataset(
        name="x", kind="vector", rows=np.zeros((200, 1)), labels=sparse.csr_matrix(Y), label_names=tuple("abcde")
    )
    for seed in range(10):
        splits = Splits(train=data).with_test(0.25, seed).with_validation(0.2, seed)
        for part in (splits.test, splits.valid):
            assert part is not None
            assert part.indicator().sum(axis=0).min() >= 1
        assert splits.test is not None
        assert (splits.test.indicator().sum(axis=0) == 3).all()
