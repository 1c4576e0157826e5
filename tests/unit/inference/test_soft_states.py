"""Labels that are known by a probability: what may be true is gone through, or drawn where that is too much."""

from __future__ import annotations

import numpy as np

from lampnet.inference.conditional import MOST_COMBINED, resolved


def test_all_combinations_of_few_labels_with_their_probabilities():
    states = np.array([0.5, 1, -0.6, 0, -1], dtype=np.float32)
    soft = np.array([True, False, True, False, False])
    found, weight = resolved(states, soft)
    assert len(np.unique(found, axis=0)) == 4
    assert (found[:, ~soft] == states[~soft]).all()
    np.testing.assert_allclose(weight.sum(), 1)
    np.testing.assert_allclose(weight @ (found[:, soft] == 1), [0.75, 0.2], atol=1e-6)


def test_of_many_labels_each_is_true_as_often_as_it_is_probable():
    proba = np.linspace(0.05, 0.95, MOST_COMBINED + 6)
    found, weight = resolved((2 * proba - 1).astype(np.float32), np.ones(len(proba), dtype=bool))
    assert len(found) == 2**MOST_COMBINED
    np.testing.assert_allclose(weight @ (found == 1), proba, atol=1 / len(found))
    again, _ = resolved((2 * proba - 1).astype(np.float32), np.ones(len(proba), dtype=bool))
    np.testing.assert_array_equal(found, again)
