"""What the neighbours' opinion says of the rows it was learned from."""

from __future__ import annotations

import numpy as np
import pytest

from lampnet.base_learners.knn import KNNLearner
from lampnet.evaluation.metrics import roc_auc_macro


@pytest.mark.parametrize("n", [20, 60, 200])
def test_neighbours_of_few_rows_do_not_give_a_row_its_own_labels_turned_round(n: int) -> None:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, 30)) < 0.5).astype(np.float32)
    same = np.ones((n, 3), dtype=np.float32)  # every row is everybody's neighbour, and says nothing
    heard = KNNLearner().fit(same, Y, seed=0)
    assert roc_auc_macro(Y, heard) > 0.25
