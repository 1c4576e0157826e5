"""Learning to predict labels from known labels, once the model itself is fitted.

What is learned from are the labels of the held-out rows and the model's own out-of-fold logits: the input enters
through them alone. Members of the network leave out one fold each, so that whether messages help, and the cut-offs
for few and for many known labels, are decided on held-out rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit, logit

from lampnet.base_learners.label_dependence import SHIFTS, cross_fit_dependence
from lampnet.base_learners.shift_weights import ShiftWeights, how_known
from lampnet.config import Config, TrainingConfig
from lampnet.data.known_labels import TRUE, UNKNOWN, States
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.splits import fold_numbers
from lampnet.evaluation.calibration import Calibration
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.known_regimes import Regime, mean_row_precision, reveal, unrevealed
from lampnet.inference.conditional import BATCH_ROWS, Conditional, blended
from lampnet.model.build import member_seed
from lampnet.model.label_graph import LabelGraph
from lampnet.model.label_states import LabelStates, build_label_states
from lampnet.pipeline.control import Control
from lampnet.pipeline.members import cores
from lampnet.pipeline.plan import Plan
from lampnet.runtime.torch_state import seeded
from lampnet.training.known_masks import draw_known
from lampnet.training.known_trainer import LabelledLogits, train_label_states

FOLDS = 5
#: rows that the network learns from, and rows that weights and decisions are chosen on
MOST_ROWS, CHOICE_ROWS = 20_000, 4_000
#: of fewer rows, weights are fitted on several draws of what is known; and on at most this many labels of all rows
FEWEST_DRAWS, CHOICE_ENTRIES = 3_000, 200_000
#: how far weights are pulled to zero, and their dependence on how much is known
PULL, PULL_OF_HOW = 1.0, 10.0
#: shares of the networks' correction that are tried on held-out rows
CORRECTIONS = (0.0, 0.5, 1.0)
LEAST_PROBA = 1e-5
#: what is revealed of held-out rows to choose the decisions
FEW = (Regime("positives", 1), Regime("positives", 2), Regime("positives", 3))
MANY = (Regime("share", 25), Regime("share", 50), Regime("share", 75))


@dataclass(frozen=True)
class HeldOut:
    """Revealed labels of held-out rows, and what the candidates say about the rest.

    truth      labels that were not revealed, the others NaN
    shifted    logits after the shifts in closed form
    corrected  and after the networks' messages
    """

    truth: np.ndarray
    states: States
    shifted: np.ndarray
    corrected: np.ndarray

    def said(self, correction: float) -> np.ndarray:
        return blended(self.shifted, self.corrected, correction)


def known_rows(
    plan: Plan, truth: np.ndarray, proba: np.ndarray, calibration: Calibration | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and out-of-fold logits of the rows to learn from.

    truth, proba  of the held-out rows. Where these are validation rows alone, training rows join them with the
                  stacked logits of the base learners, which are out-of-fold too.
    calibration   of these stacked logits
    """
    logits = logit(np.clip(proba, LEAST_PROBA, 1 - LEAST_PROBA)).astype(np.float32)
    fold = plan.folds[0]
    if len(truth) > len(fold.valid[0]) or fold.train.base_logits is None:
        return truth, logits
    n = len(fold.train) // len(fold.valid)  # the other view of a row has the same labels and base logits
    some = np.unique(np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(np.int64))
    assert fold.train.weights is not None
    stacked = fold.train.weights.stacked(np.asarray(fold.train.base_logits[some]))
    stacked = stacked if calibration is None else calibration.apply(stacked)
    return np.concatenate([fold.train.truth(some).numpy(), truth]), np.concatenate([stacked, logits])


def fit_conditional(
    Y_nL: np.ndarray,
    logits_nL: np.ndarray,
    config: Config,
    graph: LabelGraph,
    control: Control,
    hierarchy: LabelHierarchy | None = None,
) -> Conditional | None:
    """What the model predicts with where labels are known; None where there is nothing to learn it from.

    Y_nL       labels of labelled rows, NaN where unknown
    logits_nL  the model's out-of-fold logits of these rows
    hierarchy  what is revealed of the rows to choose the decisions also says what is above and below it
    """
    n, L = Y_nL.shape
    if config.known.method == "none" or n < 2 * FOLDS or L < 2:
        return None
    report = control.part("what known labels say about the others")
    seed = config.training.seed
    logits_nL = np.ascontiguousarray(logits_nL, dtype=np.float32)
    fold_n = fold_numbers(n, FOLDS, seed)
    dependence = cross_fit_dependence(Y_nL, logits_nL, fold_n)
    data = LabelledLogits(Y_nL, logits_nL, fold_n, dependence)
    report(0.3)
    weights = fit_shift_weights(data, seed)
    report(0.5)
    members: list[LabelStates] = []
    if config.known.method == "messages":
        members = _Members(data, config, graph, weights, control).trained()
    few, many = (_held_out(data, regimes, weights, members, seed, hierarchy) for regimes in (FEW, MANY))
    correction = _best_correction([few, many]) if members else 0.0
    report(0.8)
    if members:
        control.log(f"known labels: {correction:.0%} of the networks' correction counts")
    decisions = {}
    for name, revealed in (("few", few), ("many", many)):
        if not (revealed.truth == 1).any():  # rows with one label each have none left to predict
            continue
        unknown, proba = revealed.states == UNKNOWN, expit(revealed.said(correction))
        if hierarchy is not None:
            proba = hierarchy.lowered(np.where(unknown, proba, revealed.states == TRUE))
        proba = np.where(unknown, proba, 0.0)
        decisions[name] = choose_decisions(revealed.truth, proba.astype(np.float32), seed=seed)
    return Conditional(dependence.whole, weights, members if correction else [], correction, decisions, hierarchy)


def fit_shift_weights(data: LabelledLogits, seed: int) -> ShiftWeights:
    """What each closed-form shift counts: a logistic regression on masked labels, with the logits as offset."""
    random = np.random.default_rng(seed)
    n = len(data.Y_nL)
    draws = max(1, min(10, FEWEST_DRAWS // n))
    rows = np.sort(np.concatenate([random.permutation(n) for _ in range(draws)])[:CHOICE_ROWS])
    Y, logits = data.Y_nL[rows], data.logits_nL[rows]
    states = draw_known(Y, logits, random)
    shifts = data.dependence.shifts(logits, states, data.fold_n[rows])
    counts = (states == UNKNOWN) & ~np.isnan(Y) & (states != UNKNOWN).any(axis=1, keepdims=True)
    row, label = np.nonzero(counts)
    if len(row) > CHOICE_ENTRIES:
        some = random.permutation(len(row))[:CHOICE_ENTRIES]
        row, label = row[some], label[some]
    offset = logits[row, label]
    x = np.column_stack([offset, np.ones(len(row)), shifts[row, label]]).astype(np.float64)
    how = how_known(states)[row].astype(np.float64)
    each = (how[:, :, None] * x[:, None, :]).reshape(len(row), how.shape[1] * x.shape[1])
    pull = np.repeat([PULL, *[PULL_OF_HOW] * (how.shape[1] - 1)], x.shape[1]) * draws
    table = newton_weights(each, Y[row, label], offset, pull).reshape(how.shape[1], -1)
    return ShiftWeights(table.astype(np.float32))


def newton_weights(
    x: np.ndarray, y: np.ndarray, offset: np.ndarray | float = 0.0, pull: np.ndarray | float = 1.0
) -> np.ndarray:
    """Weights (C,) of a logistic regression without intercept on few features x (n, C), lightly pulled to zero."""
    weight = np.zeros(x.shape[1])
    ridge = np.diag(np.broadcast_to(pull, weight.shape))
    for _ in range(20):
        p = expit(offset + x @ weight)
        slope = x.T @ (p - y) + ridge @ weight
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge, slope)
        weight -= step
        if np.abs(step).max() < 1e-4:
            break
    return weight


class _Members:
    """The networks on known labels, trained side by side on the processor's cores."""

    def __init__(
        self, data: LabelledLogits, config: Config, graph: LabelGraph, weights: ShiftWeights, control: Control
    ) -> None:
        self.data, self.config, self.graph, self.weights, self.control = data, config, graph, weights, control
        self.steps = [0] * config.known.members

    def trained(self) -> list[LabelStates]:
        """All networks, or none where the time is up or a signal came."""
        numbers = range(self.config.known.members)
        workers = cores(self.config.training.threads, len(numbers))
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = [pool.submit(self._train, number) for number in numbers]
            try:
                made = [future.result() for future in futures]
            except BaseException:
                self.control.received.append(0)  # the others end at their next step
                raise
        networks = [network for network in made if network is not None]
        return networks if len(networks) == len(made) else []

    def _train(self, number: int) -> LabelStates | None:
        """One network, trained on all folds but its own; None where it was asked to end."""
        known = self.config.known
        rows = np.flatnonzero(self.data.fold_n != number)
        seed = member_seed(self.config.training.seed, number)
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST_ROWS])
        with seeded(seed):
            network = build_label_states(known, self.graph, len(SHIFTS))
        training = known_training(self.config, len(rows), seed)
        total = training.epochs * -(-len(rows) // training.batch_size) * known.members

        def goes_on() -> bool:
            self.steps[number] += 1
            self.control.phase(sum(self.steps) / total, "networks on known labels")
            return not self.control.received and self.control.budget.left() > 0

        return train_label_states(network, self.data, self.weights, rows, training, goes_on)


def known_training(config: Config, n_rows: int, seed: int) -> TrainingConfig:
    """About `known.train_steps` steps, at least two and at most forty passes over the rows."""
    known = config.known
    steps = max(1, -(-n_rows // known.batch_size))
    epochs = min(40, max(2, round(known.train_steps / steps)))
    return TrainingConfig(
        epochs=epochs, batch_size=known.batch_size, learning_rate=known.learning_rate, warmup_steps=100, seed=seed
    )


def _held_out(
    data: LabelledLogits,
    regimes: tuple[Regime, ...],
    weights: ShiftWeights,
    members: list[LabelStates],
    seed: int,
    hierarchy: LabelHierarchy | None = None,
) -> HeldOut:
    """Rows that no candidate learned from, each under one of the regimes."""
    random = np.random.default_rng(seed + 1)
    fold_n = data.fold_n
    free = np.flatnonzero(fold_n < len(members)) if members else np.arange(len(fold_n))
    sample = np.sort(random.permutation(free)[:CHOICE_ROWS])
    parts: list[tuple[np.ndarray, States]] = []
    for number, regime in enumerate(regimes):
        own = sample[number :: len(regimes)]
        states, counts = reveal(data.Y_nL[own], regime, seed + 2)
        parts.append((own[counts], states[counts]))
    rows, states = (np.concatenate(same) for same in zip(*parts, strict=True))
    if hierarchy is not None:
        states = hierarchy.implied(states)
    shifted = np.empty(states.shape, dtype=np.float32)
    corrected = np.empty_like(shifted)
    with torch.inference_mode():
        for number in range(len(members)) if members else (0,):
            own = np.flatnonzero(fold_n[rows] == number) if members else np.arange(len(rows))
            for first in range(0, len(own), BATCH_ROWS):
                some = own[first : first + BATCH_ROWS]
                given = data.given(rows[some], states[some], weights)
                shifted[some] = given[0].numpy()
                if members:
                    corrected[some] = members[number](*given).numpy()
    return HeldOut(unrevealed(data.Y_nL[rows], states), states, shifted, corrected if members else shifted)


def _best_correction(held_out: list[HeldOut]) -> float:
    """The share of the networks' correction with the best mean average precision of labels that were not revealed."""
    scores = []
    for share in CORRECTIONS:
        found = [mean_row_precision(part.truth, part.said(share)) for part in held_out]
        scores.append(float(np.nansum(found)))
    return CORRECTIONS[int(np.argmax(scores))]
