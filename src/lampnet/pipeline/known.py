"""Learning to predict labels from known labels, once the model itself is fitted.

What is learned from are the labels of the held-out rows and the model's own out-of-fold logits: the input enters
through them alone. Members of the network leave out one fold each, so that whether messages help, and the cut-offs
for few and for many known labels, are decided on held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

from lampnet.base_learners.label_dependence import SHIFTS, cross_fit_dependence
from lampnet.config import Config, KnownConfig, ModelConfig, TrainingConfig
from lampnet.data.known_labels import UNKNOWN, States
from lampnet.data.splits import fold_numbers
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.known_regimes import Regime, mean_row_precision, reveal, unrevealed
from lampnet.inference.conditional import Conditional
from lampnet.model.build import member_seed
from lampnet.model.label_graph import LabelGraph
from lampnet.model.label_states import LabelStates
from lampnet.runtime.torch_state import seeded
from lampnet.training.known_masks import draw_known
from lampnet.training.known_trainer import LabelledLogits, train_label_states

FOLDS = 5
#: rows that the network learns from, and rows that weights and decisions are chosen on
MOST_ROWS, CHOICE_ROWS = 20_000, 4_000
#: by how much messages must raise the mean average precision of held-out rows to be kept
LEAST_GAIN = 0.0
#: what is revealed of held-out rows to choose the decisions
FEW = (Regime("positives", 1), Regime("positives", 2), Regime("positives", 3))
MANY = (Regime("share", 25), Regime("share", 50), Regime("share", 75))
AfterStep = Callable[[], None]


@dataclass(frozen=True)
class HeldOut:
    """Revealed labels of held-out rows, and what the candidates say about the rest."""

    rows: np.ndarray
    states: States
    shifted: np.ndarray
    corrected: np.ndarray | None


def fit_conditional(
    Y_nL: np.ndarray,
    logits_nL: np.ndarray,
    config: Config,
    graph: LabelGraph,
    log: Callable[[str], None],
    after_step: AfterStep = lambda: None,
) -> Conditional | None:
    """What the model predicts with where labels are known; None where there is nothing to learn it from.

    Y_nL       labels of the held-out rows, NaN where unknown
    logits_nL  the model's out-of-fold logits of these rows
    """
    n, L = Y_nL.shape
    if config.known.method == "none" or n < 2 * FOLDS or L < 2:
        return None
    seed = config.training.seed
    logits_nL = np.ascontiguousarray(np.clip(logits_nL, -12, 12), dtype=np.float32)
    fold_n = fold_numbers(n, FOLDS, seed)
    dependence = cross_fit_dependence(Y_nL, logits_nL, fold_n)
    data = LabelledLogits(Y_nL, logits_nL, fold_n, dependence)
    weight = fit_shift_weight(data, seed)
    members: list[LabelStates] = []
    if config.known.method == "messages":
        log(f"training {config.known.members} networks on known labels")
        members = [_member(data, config, graph, weight, number, after_step) for number in range(config.known.members)]
    few, many = (_held_out(data, regimes, weight, members, seed) for regimes in (FEW, MANY))
    if members and _gain(Y_nL, [few, many]) <= LEAST_GAIN:
        members = []
    decisions = {}
    for name, revealed in (("few", few), ("many", many)):
        said = revealed.corrected if members and revealed.corrected is not None else revealed.shifted
        truth = unrevealed(Y_nL[revealed.rows], revealed.states)
        proba = np.where(revealed.states == UNKNOWN, expit(said), 0.0)
        if not len(truth) or np.isnan(truth).all():
            return None
        decisions[name] = choose_decisions(truth, proba.astype(np.float32), seed=seed)
    return Conditional(dependence.whole, weight, members, decisions)


def fit_shift_weight(data: LabelledLogits, seed: int) -> np.ndarray:
    """What each closed-form shift counts, float32 (C,): a logistic regression with the logits as offset."""
    random = np.random.default_rng(seed)
    rows = np.sort(random.permutation(len(data.Y_nL))[:CHOICE_ROWS])
    Y, logits = data.Y_nL[rows], data.logits_nL[rows]
    states = draw_known(Y, logits, random)
    shifts = data.dependence.shifts(logits, states, data.fold_n[rows])
    counts = (states == UNKNOWN) & ~np.isnan(Y) & (states != UNKNOWN).any(axis=1, keepdims=True)
    x, y, offset = shifts[counts].astype(np.float64), Y[counts], logits[counts]
    weight = np.zeros(len(SHIFTS))
    for _ in range(20):
        p = expit(offset + x @ weight)
        slope = x.T @ (p - y) + weight
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.eye(len(weight)), slope)
        weight -= step
        if np.abs(step).max() < 1e-4:
            break
    return np.clip(weight, 0.0, 2.0).astype(np.float32)


def _member(
    data: LabelledLogits, config: Config, graph: LabelGraph, weight: np.ndarray, number: int, after_step: AfterStep
) -> LabelStates:
    """One network, trained on all folds but its own."""
    known = config.known
    rows = np.flatnonzero(data.fold_n != number % FOLDS)
    seed = member_seed(config.training.seed, number)
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST_ROWS])
    with seeded(seed):
        network = label_states(known, graph)
    with torch.no_grad():
        network.shift_weight.copy_(torch.from_numpy(weight))
    return train_label_states(network, data, rows, known_training(config, len(rows), seed), after_step)


def label_states(known: KnownConfig, graph: LabelGraph) -> LabelStates:
    """An untrained network."""
    model = ModelConfig(
        width=known.width,
        heads=known.heads,
        steps=known.steps,
        dropout=known.dropout,
        shortlist=known.shortlist,
        base_learners=(),
    )
    return LabelStates(model, graph, len(SHIFTS))


def known_training(config: Config, n_rows: int, seed: int) -> TrainingConfig:
    """About `known.train_steps` steps, at least two and at most forty passes over the rows."""
    known = config.known
    steps = max(1, -(-n_rows // known.batch_size))
    epochs = min(40, max(2, round(known.train_steps / steps)))
    return TrainingConfig(
        epochs=epochs, batch_size=known.batch_size, learning_rate=known.learning_rate, warmup_steps=100, seed=seed
    )


def _held_out(
    data: LabelledLogits, regimes: tuple[Regime, ...], weight: np.ndarray, members: list[LabelStates], seed: int
) -> HeldOut:
    """Rows that no candidate learned from, each under one of the regimes."""
    random = np.random.default_rng(seed + 1)
    fold_n = data.fold_n
    free = np.flatnonzero(fold_n < len(members)) if members else np.arange(len(fold_n))
    rows = np.sort(random.permutation(free)[:CHOICE_ROWS])
    parts: list[tuple[np.ndarray, States]] = []
    for number, regime in enumerate(regimes):
        own = rows[number :: len(regimes)]
        states, counts = reveal(data.Y_nL[own], regime, seed + 2)
        parts.append((own[counts], states[counts]))
    rows, states = (np.concatenate(same) for same in zip(*parts, strict=True))
    logits, shifts, torch_states = data.given(rows, states)
    shifted = (logits + shifts @ torch.from_numpy(weight)).numpy()
    corrected = None
    if members:
        corrected = shifted.copy()
        with torch.inference_mode():
            for number, network in enumerate(members):
                own = np.flatnonzero(fold_n[rows] == number)
                for first in range(0, len(own), 64):
                    some = torch.from_numpy(own[first : first + 64])
                    final, _ = network(logits[some], shifts[some], torch_states[some])
                    corrected[some.numpy()] = final.numpy()
    return HeldOut(rows, states, shifted, corrected)


def _gain(Y_nL: np.ndarray, held_out: list[HeldOut]) -> float:
    """How much messages raise the mean average precision of labels that were not revealed."""
    gains = []
    for part in held_out:
        assert part.corrected is not None
        truth = unrevealed(Y_nL[part.rows], part.states)
        gains.append(mean_row_precision(truth, part.corrected) - mean_row_precision(truth, part.shifted))
    return float(np.nanmean(gains)) if gains else 0.0
