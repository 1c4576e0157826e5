"""What shifts by known labels count: fitted on masked labels, bounded, and read from older models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from lampnet import LaMPClassifier
from lampnet.base_learners.label_dependence import cross_fit_dependence
from lampnet.base_learners.shift_weights import N_HOW, ShiftWeights, bounds, how_known
from lampnet.errors import ModelFolderError
from lampnet.evaluation.known_regimes import Regime, mean_row_precision, reveal, unrevealed
from lampnet.persistence.model_description import MODEL
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.known import fit_shift_weights, newton_weights
from lampnet.training.known_trainer import LabelledLogits


def labelled(n: int, L: int, seed: int) -> LabelledLogits:
    """Rows of a few topics, each of which makes some labels likely; the input says little."""
    random = np.random.default_rng(seed)
    topics = random.random((5, L)) < 0.3
    Y = (topics[random.integers(5, size=n)] & (random.random((n, L)) < 0.8)).astype(np.float32)
    logits = (Y - 0.5 + random.normal(0, 1.5, (n, L)) - 1).astype(np.float32)
    fold_n = np.arange(n) % 5
    return LabelledLogits(Y, logits, fold_n, cross_fit_dependence(Y, logits, fold_n))


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_newton_finds_what_a_general_minimizer_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, offset = random.normal(size=(200, 4)), random.normal(size=200)
    y = (random.random(200) < expit(offset + x @ [1, -0.5, 0, 0.2])).astype(float)
    pull = np.array([1.0, 10.0, 0.5, 3.0])

    def loss(weight: np.ndarray) -> float:
        z = offset + x @ weight
        return float(np.sum(np.logaddexp(0, z) - y * z) + (pull * weight**2).sum() / 2)

    found = newton_weights(x, y, offset, pull)
    assert np.allclose(found, minimize(loss, np.zeros(4), tol=1e-10).x, atol=1e-3)


@pytest.mark.parametrize("regime", ["positives:1", "positives:3", "share:50"])
def test_fitted_weights_rank_unknown_labels_of_new_rows_better(regime: str) -> None:
    data, new = labelled(600, 20, 0), labelled(300, 20, 0)
    weights = fit_shift_weights(data, 0)
    states, counts = reveal(new.Y_nL, Regime.read(regime), 0)
    states, logits = states[counts], new.logits_nL[counts]
    truth = unrevealed(new.Y_nL[counts], states)
    shifts = data.dependence.whole.shifts(logits, states)
    assert mean_row_precision(truth, weights.shifted(logits, shifts, states)) > mean_row_precision(truth, logits) + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_of_the_entries_gives_about_the_weights_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, states = labelled(600, 20, seed), np.zeros((3, 20), np.int8)
    states[0, 0], states[1, :3], states[2, :5], states[2, 5:10] = 1, 1, 1, -1
    found = []
    for entries in (10**9, 20_000):
        monkeypatch.setattr("lampnet.pipeline.known.CHOICE_ENTRIES", entries)
        found.append(fit_shift_weights(data, 0).of_rows(states))
    assert not np.array_equal(*found)  # fewer than all were taken
    assert np.allclose(*found, atol=0.3)


def test_weights_follow_how_much_is_known() -> None:
    weights = fit_shift_weights(labelled(600, 20, 1), 0)
    states = np.zeros((2, 20), np.int8)
    states[0, 0], states[1, :15] = 1, -1
    few, many = weights.of_rows(states)
    assert not np.allclose(few, many, atol=0.05)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_parts_add_up_and_nothing_known_adds_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    B, L, C = 6, int(random.integers(1, 9)), int(random.integers(2, 4))
    weights = ShiftWeights(random.normal(0, 2, (N_HOW, 2 + C)).astype(np.float32))
    states = random.integers(-1, 2, (B, L)).astype(np.int8)
    states[0] = 0
    logits, shifts = (random.normal(size=size).astype(np.float32) for size in ((B, L), (B, L, C)))
    shifted = weights.shifted(logits, shifts, states)
    assert np.array_equal(shifted[0], logits[0])
    low, high = bounds(C)
    for row in range(1, B):
        if not states[row].any():
            continue
        counts = np.clip(how_known(states[row][None])[0] @ weights.table_PC, low, high)
        expected = logits[row] * (1 + counts[0]) + counts[1] + shifts[row] @ counts[2:]
        assert np.allclose(shifted[row], expected, atol=1e-3)


@pytest.mark.parametrize(
    "table",
    [None, np.zeros((N_HOW, 4), np.float32), np.zeros(3), np.full(3, np.nan, np.float32), np.zeros((5, 5), np.float32)],
)
def test_a_damaged_table_is_refused(table: np.ndarray | None) -> None:
    with pytest.raises(ModelFolderError, match="damaged"):
        ShiftWeights.restore(table, 3)


def test_one_number_for_each_shift_counts_the_same_however_much_is_known() -> None:
    weights = ShiftWeights.restore(np.array([0.5, 0.2, 0.1], np.float32), 3)
    states = np.array([[1, 0, 0], [1, -1, 0]], np.int8)
    assert np.allclose(weights.of_rows(states), [0, 0, 0.5, 0.2, 0.1])


@pytest.mark.parametrize("method", ["shifts", "messages"])
def test_a_model_of_the_version_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Weights without how much is known are read; networks that started from them are refused with a sentence."""
    monkeypatch.setattr("lampnet.pipeline.known.CORRECTIONS", (1.0,))  # networks are kept, whatever they are worth
    data = labelled(120, 6, 0)
    known = {"known.method": method, "known.members": 1, "known.train_steps": 5, "known.width": 8}
    made = LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1, settings=known)
    made.fit(data.logits_nL, data.Y_nL)
    one_each = np.array([0.4, 0.3, 0.2], np.float32)
    table = np.zeros((N_HOW, 5), np.float32)
    table[0, 2:] = one_each
    now, before = (replace(made.model_.conditional, shift_weights=ShiftWeights(t)) for t in (table, one_each))
    folder = save_model(replace(made.model_, conditional=before), tmp_path / "model")
    described = json.loads((folder / MODEL).read_text())
    (folder / MODEL).write_text(json.dumps(described | {"version": 5}))
    if method == "messages":
        with pytest.raises(ModelFolderError, match="networks on known labels are of an earlier version"):
            load_model(folder)
        return
    states, logits = reveal(data.Y_nL, Regime("positives", 1), 0)[0], data.logits_nL
    np.testing.assert_array_equal(load_model(folder).conditional.proba(logits, states), now.proba(logits, states))
