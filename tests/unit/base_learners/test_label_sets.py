"""Label sets of labelled rows against a slow reference, and what leaves a label's own state out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from lampnet.base_learners.label_dependence import LabelDependence, cross_fit_dependence
from lampnet.base_learners.label_sets import MARGIN, PSEUDO_COUNT, LabelSets, label_sets
from lampnet.errors import ModelFolderError


def labelled(seed: int, unknown: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    Y = (random.random((30, 4)) < 0.4).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return Y, random.integers(-1, 2, (6, 4)).astype(np.int8)


def slow_shift(Y: np.ndarray, states: np.ndarray, label: int) -> float:
    """Row by row, the label's own state unknown."""
    others = states.copy()
    others[label] = 0
    prior = [(np.nansum(Y[:, i]) + 0.5) / (np.count_nonzero(~np.isnan(Y[:, i])) + 1) for i in range(Y.shape[1])]

    def match(row: np.ndarray, known: np.ndarray) -> float:
        return float(sum(-np.log(prior[i]) if s > 0 else -1.0 for i, s in enumerate(known) if s != 0 and row[i] == 1))

    own = np.array([np.exp(match(row, others)) for row in Y])
    seen = ~np.isnan(Y[:, label])
    share = own[seen] @ Y[seen, label] / own[seen].sum()
    effective = own.sum() ** 2 / (own**2).sum()
    share = (effective * share + PSEUDO_COUNT * prior[label]) / (effective + PSEUDO_COUNT)
    return float(logit(np.clip(share, MARGIN, 1 - MARGIN)) - logit(prior[label]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2]))
def test_shifts_are_those_of_weighted_rows(seed: int, unknown: float) -> None:
    Y, states = labelled(seed, unknown)
    states[0] = 0
    moved = label_sets(Y).shift(states)
    assert not moved[0].any()
    for row in range(1, len(states)):
        if states[row].any():
            expected = [slow_shift(Y, states[row], label) for label in range(4)]
            assert moved[row] == pytest.approx(expected, abs=2e-3)


def test_two_labels_together_say_what_neither_does_alone() -> None:
    """The third label is true where exactly one of the first two is: pairs of labels know nothing of that."""
    random = np.random.default_rng(0)
    Y = (random.random((2000, 3)) < 0.5).astype(np.float32)
    Y[:, 2] = Y[:, 0] != Y[:, 1]
    one, both, refused = label_sets(Y).shift(np.array([[1, 0, 0], [1, 1, 0], [1, -1, 0]], np.int8))[:, 2]
    assert abs(one) < 0.05
    assert both < -0.15
    assert refused > 0.15


def test_arrays_come_back_and_forged_ones_are_refused() -> None:
    Y, states = labelled(1, 0.2)
    sets = label_sets(Y)
    arrays = sets.arrays()
    assert np.array_equal(LabelSets.restore(arrays, 4).shift(states), sets.shift(states))
    forged = {
        "count": -arrays["count"],
        "prior": np.ones(4, np.float32),
        "true.labels": arrays["true.labels"] + 4,
        "true.offsets": arrays["true.offsets"][::-1].copy(),
        "unknown.offsets": arrays["unknown.offsets"][:-1],
    }
    for name, array in forged.items():
        with pytest.raises(ModelFolderError, match="train it again"):
            LabelSets.restore(arrays | {name: array}, 4)
    with pytest.raises(ModelFolderError, match="lack"):
        LabelSets.restore({name: array for name, array in arrays.items() if name != "count"}, 4)


def test_tables_without_label_sets_have_the_other_two_shifts() -> None:
    """Audits use these, and models of an older lampnet have no others."""
    Y, states = labelled(2, 0.0)
    logits = np.zeros(Y.shape, np.float32)
    folds = np.arange(len(Y)) % 3
    both = [cross_fit_dependence(Y, logits, folds, with_sets=with_sets) for with_sets in (True, False)]
    three, two = (one.whole.shifts(logits[:6], states) for one in both)
    assert three.shape[-1] == 3
    assert np.array_equal(three[..., :2], two)
    restored = LabelDependence.restore(both[1].whole.arrays(), 4)
    assert np.array_equal(restored.shifts(logits[:6], states), two)
    assert both[1].shifts(logits[:6], states, folds[:6]).shape[-1] == 2
