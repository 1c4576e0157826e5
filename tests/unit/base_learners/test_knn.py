"""Out-of-fold logits of the nearest neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import knn
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.protocol import FitContext
from lampnet.evaluation.metrics import ranking_metrics


@pytest.mark.parametrize("n", [20, 60, 200])
def test_few_rows_do_not_get_their_own_labels_inverted(n: int) -> None:
    random = np.random.default_rng(0)
    Y = (random.random((n, 30)) < 0.5).astype(np.float32)
    same = np.ones((n, 3), dtype=np.float32)  # all rows are equally near, so the neighbours carry no information
    logits = KNNLearner().fit(same, Y, seed=0)
    assert ranking_metrics(Y, logits)["roc_auc_macro"] > 0.25


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_small_time_budget_costs_reference_rows_and_says_so(is_sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_BLOCK", 100)
    random = np.random.default_rng(0)
    dense = random.random((1000, 8)).astype(np.float32) * (random.random((1000, 8)) < 0.4)
    X, Y = sparse.csr_matrix(dense) if is_sparse else dense, (random.random((1000, 3)) < 0.3).astype(np.float32)
    kept, said = [], list[str]()
    for budget in (None, 10.0, 5.0, 0.0):  # a block takes a second by this clock, all rows ten
        learner, seconds = KNNLearner(), itertools.count()
        context = FitContext(budget_seconds=budget, log=said.append, clock=lambda now=seconds: float(next(now)))
        assert np.isfinite(learner.fit(X, Y, 0, None, context)).all()
        kept.append(learner.X.shape[0])
    assert kept == [1000, 1000, 500, knn.FEW_ROWS]
    assert said == [f"knn: {count} reference rows instead of 1000, to keep the time budget" for count in kept[2:]]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_logits_are_those_of_a_slow_reference(is_sparse: bool) -> None:
    random = np.random.default_rng(1)
    dense = random.random((90, 12)).astype(np.float32) * (random.random((90, 12)) < 0.5)
    Y, new = (random.random((90, 4)) < 0.3).astype(np.float32), dense[::7] + random.random((13, 12)).astype(np.float32)
    learner = KNNLearner()
    learner.refit(sparse.csr_matrix(dense) if is_sparse else dense, Y, 0)
    for _ in range(2):  # the second time from what the first one kept
        found = learner.logits(sparse.csr_matrix(new) if is_sparse else new)
        for row, logits in zip(new, found, strict=True):
            cosine = np.array([row @ x / max(1e-12, np.linalg.norm(row) * np.linalg.norm(x)) for x in dense])
            nearest = np.argsort(-cosine, kind="stable")[: knn.NEIGHBOURS]
            weight = np.maximum(cosine[nearest], 0) ** knn.SIMILARITY_POWER
            weight /= weight.max()
            share = (weight @ Y[nearest] + learner.prior) / (weight.sum() + 1)
            np.testing.assert_allclose(logits, np.log(share / (1 - share)), atol=2e-3)
