"""Out-of-fold logits of the nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from lampnet.base_learners.knn import KNNLearner
from lampnet.evaluation.metrics import roc_auc_macro


@pytest.mark.parametrize("n", [20, 60, 200])
def test_few_rows_do_not_get_their_own_labels_inverted(n: int) -> None:
    random = np.random.default_rng(0)
    Y = (random.random((n, 30)) < 0.5).astype(np.float32)
    same = np.ones((n, 3), dtype=np.float32)  # all rows are equally near, so the neighbours carry no information
    logits = KNNLearner().fit(same, Y, seed=0)
    assert roc_auc_macro(Y, logits) > 0.25
