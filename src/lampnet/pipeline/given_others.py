"""p(label | input, the row's other labels) of labelled rows, cross-fitted so that no row scores itself.

The base learners leave each row out, and a network of the ensemble its own fold. What the other labels of a row say
comes from tables of label dependence and from weights that are learned on the other folds. As in all stacking, the
out-of-fold logits of these other rows come from learners that saw the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from lampnet.base_learners.label_dependence import SHIFTS, LabelDependence, cross_fit_dependence
from lampnet.config import Config, folds_for
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import TRUE, UNKNOWN, States, states_of_truth
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import Splits, parts_of
from lampnet.errors import DataError
from lampnet.inference.conditional import BATCH_ROWS
from lampnet.pipeline.control import IN_MEMORY, FitRun
from lampnet.pipeline.fit import fit
from lampnet.pipeline.known import CHOICE_ROWS, LEAST_PROBA, newton_weights
from lampnet.pipeline.plan import check_training_rows, ensemble_folds
from lampnet.training.known_trainer import LabelledLogits

#: fewer rows than this cannot be cross-fitted
FEWEST_ROWS = 10
#: (row, label) entries that the weights are learned on, at most
CHOICE_ENTRIES = 1_000_000
#: no weight is negative or larger than this: few rows can ask for anything
MOST_WEIGHT = 2.0


@dataclass(frozen=True)
class GivenOthers:
    """What the input and a row's other labels say about each of its labels.

    states_nL    the labels as they were given
    logits_nL    what the input says, out-of-fold
    priors_L     how often each label is true
    log_odds_nL  float32, given the input and the row's other labels; of an unknown label, given all known ones
    dependence   what labels say about each other, learned without each fold; None where each row has one class, so that
                 the other labels give a label away
    weights_fC   of each fold: what the input's logit counts, and each shift
    fold_n       the fold of each row
    """

    states_nL: States
    logits_nL: np.ndarray
    priors_L: np.ndarray
    log_odds_nL: np.ndarray
    dependence: list[LabelDependence] | None
    weights_fC: np.ndarray
    fold_n: np.ndarray

    def proba(self) -> np.ndarray:
        """Probabilities, float32 (n, L)."""
        return np.asarray(expit(self.log_odds_nL), dtype=np.float32)

    def from_input(self, row: int, label: int) -> float:
        """How far the input moves the label's log-odds away from its prior."""
        counted = self.weights_fC[self.fold_n[row], 0] * self.logits_nL[row, label]
        return float(counted - logit(self.priors_L[label]))

    def from_others(self, row: int, label: int) -> dict[int, float]:
        """How far each of the row's other true labels moves the label's log-odds: what would be lost without it."""
        if self.dependence is None:
            return {}
        others = np.flatnonzero(self.states_nL[row] == TRUE)
        others = others[others != label]
        states = np.repeat(self.states_nL[row][None], len(others) + 1, axis=0)
        states[:, label] = UNKNOWN
        states[np.arange(1, len(others) + 1), others] = UNKNOWN  # row k + 1 does not know the k-th other label
        tables = self.dependence[self.fold_n[row]]
        shifts = tables.shifts(np.repeat(self.logits_nL[row][None], len(states), axis=0), states)[:, label]
        moved = shifts @ self.weights_fC[self.fold_n[row], 1:]
        return {int(other): float(moved[0] - moved[k]) for k, other in enumerate(others, start=1)}


def cross_fit_given_others(data: Dataset, config: Config, run: FitRun = IN_MEMORY) -> GivenOthers:
    """Fit on labelled rows, and predict each label of each of them from its input and its other labels.

    Raises `Stopped` where a signal asks for the end: predictions of half a fit would mislead.
    """
    check_training_rows(data)
    if len(data) < FEWEST_ROWS:
        raise DataError(f"{data.name}: {len(data)} row(s) were given; at least {FEWEST_ROWS} are needed to cross-fit")
    splits = Splits(train=data)
    folds = config.training.folds if config.training.folds > 1 else folds_for(0)
    config = config.updated({"training.folds": folds, "known.method": "none"})
    model = fit(splits, config, run=run)
    assert model.valid_proba is not None
    fold_n = ensemble_folds(splits, config)
    proba = np.empty_like(model.valid_proba)
    proba[np.argsort(fold_n, kind="stable")] = model.valid_proba  # which has one fold after the other
    run.phase(0.0, "what the labels of a row say about each other")
    logits = logit(np.clip(proba, LEAST_PROBA, 1 - LEAST_PROBA)).astype(np.float32)
    return given_others(data.indicator(), logits, fold_n, config.training.seed)


def given_others(Y_nL: np.ndarray, logits_nL: np.ndarray, fold_n: np.ndarray, seed: int = 0) -> GivenOthers:
    """The same from out-of-fold logits: the tables and weights of each fold are learned on the others."""
    states, priors = states_of_truth(Y_nL), label_priors(Y_nL)
    alone = GivenOthers(
        states_nL=states,
        logits_nL=logits_nL,
        priors_L=priors,
        log_odds_nL=logits_nL,
        dependence=None,
        weights_fC=np.tile([1.0, *[0.0] * len(SHIFTS)], (int(fold_n.max()) + 1, 1)),
        fold_n=fold_n,
    )
    if Y_nL.shape[1] < 2 or bool(np.all(np.sum(Y_nL, axis=1) == 1)):  # NaN where a label is unknown: no
        return alone
    dependence, weights, log_odds = [], [], alone.log_odds_nL.copy()
    for fold, (rest, own) in enumerate(parts_of(fold_n)):
        # Tables without this fold for its rows and, to learn what they count, tables without yet another fold.
        inner_n = fold_n[rest] - (fold_n[rest] > fold)
        inner = cross_fit_dependence(Y_nL[rest], logits_nL[rest], inner_n, with_sets=False)
        weight = _weight(LabelledLogits(Y_nL[rest], logits_nL[rest], inner_n, inner), states[rest], seed)
        for rows in batches_of(own):
            moved = inner.whole.shifts_by_others(logits_nL[rows], states[rows]) @ weight[1:]
            log_odds[rows] = weight[0] * logits_nL[rows] + moved
        dependence.append(inner.whole)
        weights.append(weight)
    return replace(alone, log_odds_nL=log_odds, dependence=dependence, weights_fC=np.array(weights))


def _weight(data: LabelledLogits, states_nL: States, seed: int) -> np.ndarray:
    """What the input's logit counts, and each shift by the row's other labels: a logistic regression, (1 + C,)."""
    n, L = states_nL.shape
    most = min(CHOICE_ROWS, max(CHOICE_ENTRIES // L, 1))
    some = np.sort(np.random.default_rng(seed).permutation(n)[:most])
    parts = [
        data.dependence.shifts_by_others(data.logits_nL[b], states_nL[b], data.fold_n[b]) for b in batches_of(some)
    ]
    known = states_nL[some] != UNKNOWN
    x = np.concatenate([data.logits_nL[some][..., None], np.concatenate(parts)], axis=-1)
    weight = newton_weights(x[known].astype(np.float64), data.Y_nL[some][known])
    return np.asarray(np.clip(weight, 0.0, MOST_WEIGHT))


def batches_of(rows: np.ndarray) -> list[np.ndarray]:
    """Row numbers in batches."""
    return np.array_split(rows, -(-len(rows) // BATCH_ROWS)) if len(rows) else []
