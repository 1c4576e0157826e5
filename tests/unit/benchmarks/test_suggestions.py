"""The clicks that complete a row, against a person who goes through the list one page at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.base_learners.label_dependence import cross_fit_dependence
from lampnet.base_learners.shift_weights import ShiftWeights
from lampnet.inference.conditional import Conditional
from suggestions import SHOWN, guided_clicks, static_clicks


def person(true, order):
    """Clicks with a list that keeps its order."""
    clicks = 0
    left, first = set(true), 0
    while left:
        page = order[first : first + SHOWN]
        found = [label for label in page if label in left]
        clicks += len(found)
        left -= set(found)
        if left:
            clicks, first = clicks + 1, first + SHOWN
    return clicks


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_static_list_is_gone_through_page_by_page(seed):
    random = np.random.default_rng(seed)
    Y, scores = (random.random((3, 45)) < 0.2).astype(float), random.random((3, 45))
    counted = static_clicks(Y, scores)
    for y, s, clicks in zip(Y, scores, counted, strict=True):
        assert clicks == person(np.flatnonzero(y).tolist(), np.argsort(-s, kind="stable").tolist())


def test_a_list_that_learns_nothing_costs_as_much_and_one_that_does_costs_less():
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(5), 8, axis=1)  # eight labels always come together
    Y = groups[random.integers(5, size=100)]
    logits = random.normal(-2, 1, Y.shape).astype(np.float32)
    tables = cross_fit_dependence(Y.astype(np.float32), logits, np.arange(100) % 5).whole
    one_each = (np.full(tables.n_shifts, w, dtype=np.float32) for w in (0.0, 1.0))
    nothing, learned = (Conditional(tables, ShiftWeights.restore(w, tables.n_shifts)) for w in one_each)
    static = static_clicks(Y[:20], logits[:20])
    ours = guided_clicks(Y[:20], logits[:20], learned)
    assert (guided_clicks(Y[:20], logits[:20], nothing) <= static).all()
    assert (ours >= Y[:20].sum(axis=1)).all()
    assert ours.mean() < static.mean() - 0.5
