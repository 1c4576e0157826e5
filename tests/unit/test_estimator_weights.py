"""`sample_weight` and `label_weight` of `LaMPClassifier`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.data.weights import Weights
from lampnet.encoders.nodes import NodeRows
from lampnet.errors import ConfigError, DataError
from lampnet.inference.examples import Examples


def rows(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    Y = (X[:, :3] + 0.7 * random.normal(size=(n, 3)) > 0.4).astype(float)
    return X, Y, random.gamma(1.0, 1.0, n)


def quick(**changes: Any) -> LaMPClassifier:
    return LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear", "knn"], **changes)


def small_network(**changes: Any) -> LaMPClassifier:
    settings = {"training.folds": 1, "training.warmup_steps": 2, "training.keep_network": "always"}
    return LaMPClassifier(width=8, epochs=2, n_jobs=1, base_learners=["linear"], settings=settings, **changes)


@pytest.mark.parametrize("make", [quick, small_network])
def test_a_row_of_weight_0_is_no_row_and_only_ratios_matter(make: Any) -> None:
    X, Y, weight = rows()
    weight[::4] = 0.0
    some = weight > 0
    counted = make().fit(X, Y, sample_weight=weight).predict_proba(X)
    absent = make().fit(X[some], Y[some], sample_weight=weight[some]).predict_proba(X)
    scaled = make().fit(X, Y, 4 * weight).predict_proba(X)
    assert np.array_equal(counted, absent)
    assert np.array_equal(counted, scaled)
    assert not np.allclose(counted, make().fit(X[some], Y[some]).predict_proba(X), atol=1e-3)


def test_equal_weights_change_next_to_nothing() -> None:
    X, Y, _ = rows()
    weighted = quick().fit(X, Y, sample_weight=np.full(len(X), 3.0))
    assert np.allclose(weighted.predict_proba(X), quick().fit(X, Y).predict_proba(X), atol=1e-3)


def test_rows_of_little_trust_are_learned_from_less() -> None:
    X, Y, _ = rows(200)
    wrong = np.arange(200) % 2 == 0
    given = Y.copy()
    given[wrong] = 1 - given[wrong]
    clean = rows(200, seed=1)
    trusting = quick().fit(X, given).score(clean[0], clean[1])
    wary = quick().fit(X, given, sample_weight=np.where(wrong, 0.05, 1.0)).score(clean[0], clean[1])
    assert wary > trusting + 0.1


@pytest.mark.parametrize("labels", ["balanced", {0: 5.0}])
def test_label_weights_are_kept_with_the_model(labels: Any, tmp_path: Path) -> None:
    X, Y, _ = rows()
    model = quick(label_weight=labels).fit(X, Y)
    loaded = LaMPClassifier.load(model.save(tmp_path / "m"))
    assert np.allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6)
    if isinstance(labels, str):
        assert loaded.label_weight == labels


def test_weighted_neighbours_are_kept_with_the_model(tmp_path: Path) -> None:
    X, Y, weight = rows()
    model = LaMPClassifier(preset="quick", base_learners=["knn"], n_jobs=1).fit(X, Y, weight)
    loaded = LaMPClassifier.load(model.save(tmp_path / "m"))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_weights_go_with_their_rows_when_rows_are_put_in_order() -> None:
    X, Y, weight = rows()
    order = np.random.default_rng(3).permutation(len(X))
    times = np.arange(len(X))
    first = quick().fit(X, Y, weight, times=times).predict_proba(X)
    second = quick().fit(X[order], Y[order], weight[order], times=times[order]).predict_proba(X)
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("weight", "problem"),
    [
        (np.full(80, -1.0), "sample_weight is -1 in row 0; it must be finite numbers of at least 0"),
        ([1.0] * 79 + [np.nan], "sample_weight is nan in row 79"),
        (np.ones(79), r"sample_weight has shape \(79,\) for 80 rows"),
        (np.zeros(80), "sample_weight is zero in every row; some rows must count"),
        (["much"] * 80, "sample_weight must be numbers"),
    ],
)
def test_wrong_sample_weights_are_refused(weight: Any, problem: str) -> None:
    X, Y, _ = rows()
    with pytest.raises(DataError, match=problem):
        quick().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"c4": 1.0}, "label_weight: there is no label 'c4'"),
        ({0: 0.0}, "the weight of '0' is 0.0; give a finite number above 0"),
        ({1: np.inf}, "the weight of '1' is inf"),
        ({1: 10**400}, "the weight of '1' is 1000"),
        ({1: "2"}, "the weight of '1' is '2'"),
        ("balance", "is neither 'balanced' nor a mapping"),
        ([1.0, 2.0, 3.0], "is neither 'balanced' nor a mapping"),
    ],
)
def test_wrong_label_weights_are_refused(labels: Any, problem: str) -> None:
    X, Y, _ = rows()
    with pytest.raises(ConfigError, match=problem):
        quick(label_weight=labels).fit(X, Y)


def test_a_training_with_other_weights_is_another_training() -> None:
    nodes, Y = NodeRows.from_csr(sparse.csr_matrix(np.eye(3))), np.eye(3, dtype=np.float32)
    plain = Examples(nodes=nodes, targets=Y)
    digests = {plain.digest()}
    for given, labels in (([1, 1, 2], None), ([1, 2, 1], None), (None, {"a": 2.0}), (None, {"b": 2.0})):
        weights = Weights.of(given, labels, ["a", "b", "c"], Y)
        digests.add(Examples(nodes=nodes, targets=Y, row_weights=weights).digest())
    assert len(digests) == 5


def test_weights_too_far_apart_get_a_sentence() -> None:
    from lampnet.data.weights import row_weights

    with pytest.raises(DataError, match="at most a factor of"):
        row_weights([1e300, 1e-300], 2)
    assert row_weights([1e300, 0.0, 1e295], 3)[1] == 0
