"""Boosted trees over all labels at once: each tree corrects the log-loss that the trees before it left.

One tree serves all labels. It is grown on the gradients of all labels, on half of the rows; a leaf then has a step of
Newton's method for each label. Separate trees for each label (one-vs-rest) would take many times as long. The number of
trees is chosen on held-out rows, out-of-fold. Missing values come as the encoders give them: as 0 with a column
that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.base_learners.grown_trees import (
    GrownTree,
    drawn,
    grow,
    highest_variance,
    joined,
    no_trees,
    restored_trees,
    seen,
    small,
    stored_trees,
    whole_numbers,
)
from lampnet.base_learners.protocol import QUIET, Features, FitContext, OnProgress, no_progress, part_of
from lampnet.base_learners.tree_terms import LeafSums, SplitMeans
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.data.weights import Weights, rows_of
from lampnet.runtime.side_by_side import Pulse, side_by_side

ROUNDS = 300
#: a fold ends early after this many rounds without a lower loss on its held-out rows
PATIENCE = 40
#: rounds that are boosted whatever the time budget; they say how long a round takes
FEWEST_ROUNDS = 16
BOOSTED_FOLDS = 5
LEARNING_RATE = 0.1
MAX_DEPTH = 5
MIN_ROWS_PER_LEAF = 3
#: added to the curvature of a leaf, so that leaves of few or certain rows take short steps
PULL = 1.0
#: Newton's step of one leaf, before the learning rate, is at most this long
LONGEST_STEP = 4.0
MAX_ABS_LOGIT = 12.0
_BLOCK = 4096


class BoostedLearner:
    """Gradient boosting of multi-label trees.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 20, dtype=np.float32)
    >>> Y = np.array([[0.0], [1.0]] * 20, dtype=np.float32)
    >>> boosted = BoostedLearner()
    >>> boosted.fit(X, Y, seed=0).shape
    (40, 1)
    >>> bool(boosted.logits(X)[1, 0] > boosted.logits(X)[0, 0])
    True
    """

    def __init__(self) -> None:
        #: the features that trees see, and the logits that they correct
        self.columns, self.start_L = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        self.trees = no_trees()
        #: (leaves, L): what each leaf adds to the logits; and how many rows it was grown on
        self.steps_NL, self.leaf_sizes = np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype=np.int64)

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        folds = parts_of(fold_numbers(len(Y_nL), BOOSTED_FOLDS, seed) if fold_n is None else fold_n)
        self._begin(X, Y_nL, weights)
        task = _Task(seen(X, self.columns), Y_nL, np.tile(self.start_L, (len(Y_nL), 1)), seed, weights)
        rounds = self._affordable(task, len(folds) + 1, context)
        crossing, whole = part_of(context.progress, 0.0, 0.85), part_of(context.progress, 0.85, 1.0)
        boosts = _cross_fit(task, folds, rounds, crossing)
        rounds = max(1, _best_rounds(boosts))
        logits = _out_of_fold(task, folds, boosts, rounds)
        self._add(_boosted_on_all(task, rounds, whole))
        return logits

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        """New trees correct what those before say of the new rows; how many is chosen on them, none at all included."""
        known = len(self.start_L)
        prior = logit(label_priors(Y_nL, row_n=rows_of(weights)))
        self.start_L = np.concatenate([self.start_L, prior[known:]], dtype=np.float32)
        self.steps_NL = np.pad(self.steps_NL, ((0, 0), (0, Y_nL.shape[1] - known)))
        # Another seed than that of the trees before.
        task = _Task(seen(X, self.columns), Y_nL, self._sums(X), seed + len(self.trees), weights)
        folds = parts_of(fold_n)
        boosts = _cross_fit(task, folds, ROUNDS, no_progress)
        rounds = _best_rounds(boosts)
        if rounds:
            self._add(_boosted_on_all(task, rounds, no_progress))
        return _out_of_fold(task, folds, boosts, rounds)

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        rounds = len(self.trees)
        self._begin(X, Y_nL, weights)
        task = _Task(seen(X, self.columns), Y_nL, np.tile(self.start_L, (len(Y_nL), 1)), seed, weights)
        self._add(_boosted_on_all(task, rounds, progress))

    def add_silent_label(self, prior: float) -> None:
        """One more label, of which the trees say nothing."""
        self.start_L = np.append(self.start_L, np.float32(logit(prior)))
        self.steps_NL = np.pad(self.steps_NL, ((0, 0), (0, 1)))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels that are the mean of some labels before."""
        self.start_L = np.array([self.start_L[list(group)].mean() for group in groups], dtype=np.float32)
        self.steps_NL = np.column_stack([self.steps_NL[:, list(group)].mean(axis=1) for group in groups])

    def logits(self, X: Features) -> np.ndarray:
        return _bounded(self._sums(X))

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        shown = seen(X[rows_n], self.columns)
        means = SplitMeans.of(self.trees, shown, LeafSums(self.steps_NL, self.leaf_sizes), labels_K)
        return means.terms(means.roots_K + self.start_L[labels_K], 1.0, self.columns, _bounded)

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **stored_trees(self.trees),
            "columns": small(self.columns),
            "start": self.start_L,
            "steps": self.steps_NL,
            "leaf_sizes": small(self.leaf_sizes),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.trees = restored_trees("boosted", arrays)
        self.columns = whole_numbers("boosted.columns", arrays["columns"])
        self.start_L, self.steps_NL = arrays["start"], arrays["steps"]
        self.leaf_sizes = whole_numbers("boosted.leaf_sizes", arrays["leaf_sizes"])

    def _begin(self, X: Features, Y_nL: np.ndarray, weights: Weights | None) -> None:
        """No tree yet, only label priors."""
        self.columns, self.trees = highest_variance(X), no_trees()
        self.start_L = logit(label_priors(Y_nL, np.float64, rows_of(weights))).astype(np.float32)
        self.steps_NL = np.zeros((0, Y_nL.shape[1]), dtype=np.float32)
        self.leaf_sizes = np.zeros(0, dtype=np.int64)

    def _affordable(self, task: _Task, fits: int, context: FitContext) -> int:
        """Rounds per fit that keep the time budget, given the number of fits."""
        if context.budget_seconds is None:
            return ROUNDS
        began = context.clock()
        _boosted_on_all(task, min(FEWEST_ROUNDS, ROUNDS), no_progress)
        seconds = (context.clock() - began) / FEWEST_ROUNDS
        rounds = max(FEWEST_ROUNDS, int(context.budget_seconds / max(seconds * fits, 1e-9)) - 1)
        if rounds < ROUNDS:
            context.log(f"boosted: at most {rounds} rounds instead of {ROUNDS}, to keep the time budget")
        return min(rounds, ROUNDS)

    def _add(self, boost: _Boost) -> None:
        """Put the trees behind those that are there."""
        self.trees = joined(self.trees, boost.grown)
        self.steps_NL = np.concatenate([self.steps_NL, *boost.steps], dtype=np.float32)
        own = [np.bincount(tree.leaf_n[tree.rows], minlength=int(tree.is_leaf.sum())) for tree in boost.grown]
        self.leaf_sizes = np.concatenate([self.leaf_sizes, *own])

    def _sums(self, X: Features) -> np.ndarray:
        """Logits before they are bounded, float32 (n, L)."""
        shown = seen(X, self.columns)
        n = shown.shape[0]
        sums = np.tile(self.start_L, (n, 1))
        for first in range(0, n, _BLOCK):
            sums[first : first + _BLOCK] += _added(self.trees.leaves(shown[first : first + _BLOCK]), self.steps_NL)
        return sums


@dataclass(frozen=True)
class _Task:
    """What is boosted: X as the trees see it, labels (n, L), and the logits (n, L) that are corrected."""

    X: Any
    Y_nL: np.ndarray
    start_nL: np.ndarray
    seed: int
    weights: Weights | None


class _Boost:
    """One fit: its trees, the step of each leaf (leaves, L), and the log-loss of the held-out rows after each round."""

    def __init__(self, task: _Task, rest: np.ndarray, held_out: np.ndarray, number: int) -> None:
        from sklearn.tree import DecisionTreeRegressor  # heavy: imported only to train

        self.new_tree = DecisionTreeRegressor
        self.task, self.rest, self.held_out = task, rest, held_out
        self.random = np.random.default_rng([task.seed, number])
        self.known_nL = ~np.isnan(task.Y_nL)
        self.Y_nL = np.nan_to_num(task.Y_nL).astype(np.float32)
        self.logits_nL = task.start_nL.astype(np.float32)
        self.grown: list[GrownTree] = []
        self.steps: list[np.ndarray] = []
        self.losses = [self._held_out_loss()]

    def run(self, rounds: int, pulse: Pulse) -> _Boost:
        for _ in range(rounds):
            pulse()
            self._round()
            self.losses.append(self._held_out_loss())
            if len(self.held_out) and len(self.losses) - 1 - int(np.argmin(self.losses)) >= PATIENCE:
                break
        return self

    def _round(self) -> None:
        task, row_n = self.task, rows_of(self.task.weights)
        rows = drawn(self.rest, (len(self.rest) + 1) // 2, row_n, self.random)
        p = expit(self.logits_nL[rows])
        slope = (self.Y_nL[rows] - p) * self.known_nL[rows]
        curvature = p * (1 - p) * self.known_nL[rows]
        targets = slope / np.sqrt(curvature.mean(axis=0) + 1e-4)  # so that rare labels are split by, too
        if task.weights is not None:
            targets = targets * np.sqrt(task.weights.label_L)
        tree = self.new_tree(
            max_depth=MAX_DEPTH,
            min_samples_leaf=MIN_ROWS_PER_LEAF,
            max_features=max(1, round(task.X.shape[1] ** 0.5)),
        )
        grown = grow(tree, task.X, targets, rows, self.random)
        leaf, n_leaves = grown.leaf_n[rows], int(grown.is_leaf.sum())
        inside = sparse.csr_matrix(
            (np.ones(len(rows), np.float32), leaf, np.arange(len(rows) + 1)), (len(rows), n_leaves)
        ).T
        steps = np.clip((inside @ slope) / (inside @ curvature + PULL), -LONGEST_STEP, LONGEST_STEP)
        self.grown.append(grown)
        self.steps.append((LEARNING_RATE * steps).astype(np.float32))
        self.logits_nL += self.steps[-1][grown.leaf_n]

    def _held_out_loss(self) -> float:
        if not len(self.held_out):
            return 0.0
        z = _bounded(self.logits_nL[self.held_out])
        known = self.known_nL[self.held_out]
        counts = known if self.task.weights is None else self.task.weights.take(self.held_out).entries(known)
        return float(((np.logaddexp(0, z) - self.Y_nL[self.held_out] * z) * counts).sum(dtype=np.float64))


def _cross_fit(
    task: _Task, folds: list[tuple[np.ndarray, np.ndarray]], rounds: int, progress: OnProgress
) -> list[_Boost]:
    """A fit without the rows of each fold."""
    return side_by_side(
        lambda number, pulse: _Boost(task, *folds[number], number).run(rounds, pulse),
        range(len(folds)),
        lambda share: progress(share, f"{len(folds)} folds"),
    )


def _boosted_on_all(task: _Task, rounds: int, progress: OnProgress) -> _Boost:
    nothing = np.zeros(0, dtype=np.int64)
    [boost] = side_by_side(
        lambda rows, pulse: _Boost(task, rows, nothing, -1 % 2**31).run(rounds, pulse),
        [np.arange(len(task.Y_nL))],
        lambda share: progress(share, f"{rounds} trees on all rows"),
    )
    return boost


def _best_rounds(boosts: Sequence[_Boost]) -> int:
    """After how many rounds the held-out rows of all folds have the least loss; a fold that ended stays as it is."""
    longest = max(len(boost.losses) for boost in boosts)
    total = sum(np.pad(boost.losses, (0, longest - len(boost.losses)), mode="edge") for boost in boosts)
    return int(np.argmin(total))


def _out_of_fold(
    task: _Task, folds: list[tuple[np.ndarray, np.ndarray]], boosts: Sequence[_Boost], rounds: int
) -> np.ndarray:
    """Bounded logits (n, L), each row by the trees of the fit that never saw it."""
    logits = task.start_nL.astype(np.float32)
    for (_, own), boost in zip(folds, boosts, strict=True):
        for grown, steps in zip(boost.grown[:rounds], boost.steps[:rounds], strict=True):
            logits[own] += steps[grown.leaf_n[own]]
    return _bounded(logits)


def _added(leaf_nT: np.ndarray, steps_NL: np.ndarray) -> np.ndarray:
    """The steps of each row's leaves, added up, (n, L)."""
    n, T = leaf_nT.shape
    ones = np.ones(n * T, dtype=np.float32)
    return np.asarray(
        sparse.csr_matrix((ones, leaf_nT.ravel(), np.arange(n + 1) * T), shape=(n, len(steps_NL))) @ steps_NL
    )


def _bounded(logits: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(logits, -MAX_ABS_LOGIT, MAX_ABS_LOGIT))
