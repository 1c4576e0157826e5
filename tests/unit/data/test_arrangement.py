"""Rows of one group stay together, rows in time are held out at the end, and the base learners keep to it."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.config import Config
from lampnet.data.arrangement import grouped_folds, times_of
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, arranged_rows
from lampnet.errors import DataError
from lampnet.pipeline.fit import fit


def rows(n: int, seed: int = 0) -> Dataset:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).astype(np.float32)
    Y = sparse.csr_matrix((X + random.normal(size=X.shape) > 0.3).astype(np.float32))
    return Dataset(name="x", kind="vector", rows=X, labels=Y, label_names=("a", "b", "c"))


@given(st.integers(0, 2**31), st.integers(2, 80), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_groups_stay_together_and_folds_are_about_equal(seed: int, n: int, folds: int) -> None:
    random = np.random.default_rng(seed)
    groups = random.integers(max(2, n // 4), size=n)
    Y = random.random((n, 3)) < 0.3
    fold_n = grouped_folds(Y, groups, folds, seed)
    for group in np.unique(groups):
        assert len(np.unique(fold_n[groups == group])) == 1
    assert fold_n.max() + 1 == len(np.unique(fold_n)) == min(folds, len(np.unique(groups)))
    np.testing.assert_array_equal(fold_n, grouped_folds(sparse.csr_matrix(Y), groups.tolist(), folds, seed))


def test_grouped_folds_share_out_rows_and_labels() -> None:
    random = np.random.default_rng(0)
    groups = random.integers(60, size=600)
    Y = np.eye(4)[random.choice(4, 60, p=[0.6, 0.25, 0.1, 0.05])[groups]]  # a label per group
    fold_n = grouped_folds(Y, groups, 4, 0)
    sizes = np.bincount(fold_n)
    assert sizes.max() - sizes.min() < 60
    for y in Y.T[:3]:
        assert np.bincount(fold_n, y, 4).min() > 0.4 * y.sum() / 4


def test_whatever_is_held_out_is_of_other_groups_or_later() -> None:
    data, random = rows(200), np.random.default_rng(1)
    groups = [f"g{number}" for number in random.integers(25, size=200)]
    splits = arranged_rows(data, groups=groups).with_test(0.2, 0).with_validation(0.1, 0)
    parts = [set(part.groups or ()) for part in (splits.train, splits.valid, splits.test) if part is not None]
    assert len(parts) == 3
    assert all(parts)
    assert sum(map(len, parts)) == len(set(groups))
    times = random.permutation(200)
    timed = arranged_rows(Dataset(**{**vars(data), "times": tuple(times.tolist())}), times=times)
    timed = timed.with_test(0.2, 0).with_validation(0.1, 0)
    assert timed.valid is not None
    assert timed.test is not None
    assert max(timed.train.times or ()) < min(timed.valid.times or ())
    assert max(timed.valid.times or ()) < min(timed.test.times or ())


def test_copies_of_a_row_in_one_group_do_not_predict_each_other() -> None:
    """Random labels, each row ten times: only where copies are kept apart are out-of-fold scores those of chance."""
    random = np.random.default_rng(0)
    X = np.repeat(random.normal(size=(30, 5)), 10, axis=0).astype(np.float32)
    Y = np.repeat(random.random((30, 3)) < 0.4, 10, axis=0).astype(np.float32)
    order = random.permutation(300)
    data = Dataset(name="x", kind="vector", rows=X[order], labels=sparse.csr_matrix(Y[order]), label_names=tuple("abc"))
    groups = np.repeat(np.arange(30), 10)[order]
    config = Config.preset("quick").updated({"model.base_learners": "linear,knn,forest", "known.method": "none"})
    apart, mixed = fit(Splits.of_groups(data, groups), config), fit(Splits(train=data), config)

    def auc(model) -> float:
        from sklearn.metrics import roc_auc_score

        return roc_auc_score(model.valid_truth.ravel(), model.valid_proba.ravel())

    assert auc(mixed) > 0.95
    assert auc(apart) < 0.7


def test_times_are_numbers_dates_or_texts_and_nothing_else() -> None:
    days = [date(2024, 3, 1), date(2023, 1, 5), date(2024, 2, 1)]
    assert times_of(days).argsort().tolist() == times_of([str(day) for day in days]).argsort().tolist() == [1, 2, 0]
    assert times_of(np.array(days, dtype="datetime64[D]")).argsort().tolist() == [1, 2, 0]
    for wrong, complaint in (
        (["yesterday"], "must be numbers, dates"),
        ([1.0, np.nan], "row 1 has no time"),
        (["2024-01-01", "NaT"], "row 1 has no time"),
        ([[1.0], [2.0]], "one per row"),
    ):
        with pytest.raises(DataError, match=complaint):
            times_of(wrong)


def test_times_may_state_their_zone() -> None:
    noon = ["2024-01-01T12:00", "2024-01-01T12:00Z", "2024-01-01T14:00+02:00"]
    assert len(set(times_of(noon).tolist())) == 1


def test_python_takes_groups_and_times() -> None:
    data = rows(60)
    Y = data.indicator()
    model = LaMPClassifier(preset="quick").fit(data.rows, Y, groups=np.arange(60) % 12)
    assert model.predict(data.rows).shape == (60, 3)
    LaMPClassifier(preset="quick").fit(data.rows, Y, times=np.arange(60)[::-1])
    for asked, complaint in (
        ({"groups": np.zeros(60)}, "all rows are of one group"),
        ({"groups": np.arange(59)}, "60 rows were given with 59 groups"),
        ({"times": np.arange(5)}, "60 rows were given with 5 times"),
        ({"groups": np.arange(60), "times": np.arange(60)}, "both groups and times were given"),
    ):
        with pytest.raises(DataError, match=complaint):
            LaMPClassifier(preset="quick").fit(data.rows, Y, **asked)
