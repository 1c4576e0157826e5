"""Linear one-vs-rest classifiers; loss and C are chosen on a held-out fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.base_learners.feature_terms import FeatureTerms, through
from lampnet.base_learners.newton import Loss, Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import FOLDS, QUIET, Features, FitContext, OnProgress, no_progress, part_of
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.data.weights import Weights, rows_of, taken
from lampnet.runtime.side_by_side import Pulse, side_by_side

#: (loss, C) to choose from; the solutions of one loss lie on a path, so each is a warm start for the next
CHOICES: tuple[tuple[Loss, float], ...] = (
    ("squared_hinge", 0.1),
    ("squared_hinge", 0.3),
    ("squared_hinge", 1.0),
    ("logistic", 0.1),
    ("logistic", 1.0),
    ("logistic", 10.0),
)
CHOICE_LABELS, CHOICE_ROWS = 96, 20_000  # a choice uses at most this many labels and rows
#: with more rows than these, fewer folds: what a fit loses with a quarter of many rows is little
MANY_ROWS, FOLDS_FOR_MANY_ROWS = 20_000, 4
#: the folds' fits start near their solutions
FOLD_STEPS, CHOICE_STEPS = Stopping(6, tolerance=3e-3), Stopping(6, 8)
#: a label with fewer positives among the rows of a start does not start there
FEW_POSITIVES = 5
#: shares of the work, and of a time budget: choosing, the two halves, all rows; the folds have the rest
CHOOSING, HALVES, ALL_ROWS = 0.35, 0.15, 0.2
MAX_ABS_LOGIT = 12.0
#: how far more rows may move weights that were learned before: C of the pull towards them, 0 for not at all
MOVES = (0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0)

Solution = tuple[np.ndarray, np.ndarray]  # weights (F, L), intercepts (L,)


class LinearLearner:
    """One-vs-rest linear SVMs or logistic regressions, whichever ranks the labels of a held-out fold better."""

    def __init__(self) -> None:
        self.weights = np.zeros((0, 0), dtype=np.float32)
        self.intercepts = np.zeros(0, dtype=np.float32)
        self.loss, self.C = CHOICES[0]

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        if fold_n is None:
            fold_n = fold_numbers(len(Y_nL), FOLDS if len(Y_nL) <= MANY_ROWS else FOLDS_FOR_MANY_ROWS, seed)
        time, progress = _Time(context), context.progress
        choosing = part_of(progress, 0.0, CHOOSING)
        tried, (self.loss, self.C) = _best_choice(X, Y_nL, fold_n == 0, seed, choosing, time, weights)
        if tried < len(CHOICES):
            context.log(f"linear: {tried} of {len(CHOICES)} settings tried, to keep the time budget")

        def solve(rows: np.ndarray, start: Solution | None, stopping: Stopping, pulse: Pulse) -> Solution:
            matrix = Matrix(X if len(rows) == len(Y_nL) else X[rows])
            own = rows_of(taken(weights, rows))
            return fit_linear(matrix, Y_nL[rows], self.C, self.loss, start, stopping, lambda share: pulse(), own)

        # Each fold starts from a solution that never saw it: that of the other half of the folds. So a few steps
        # suffice, and nothing of the fold's own labels is in its logits.
        in_second_half_n = fold_n >= (fold_n.max() + 1) // 2
        halves = [np.flatnonzero(in_second_half_n), np.flatnonzero(~in_second_half_n)]
        stopping = time.stopping(Stopping(), CHOOSING + HALVES)
        second, first = side_by_side(
            lambda rows, pulse: solve(rows, None, stopping, pulse),
            halves,
            _reporting(progress, CHOOSING, CHOOSING + HALVES, "fitting on halves of the rows"),
        )
        stopping = time.stopping(Stopping(), CHOOSING + HALVES + ALL_ROWS)
        report = _reporting(progress, CHOOSING + HALVES, CHOOSING + HALVES + ALL_ROWS, "fitting on all rows")
        row_n = rows_of(weights)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.C, self.loss, None, stopping, report, row_n)

        folds = parts_of(fold_n)
        if len(folds) > 2 and time.is_up():
            context.log(f"linear: 2 folds instead of {len(folds)}, to keep the time budget")
            folds = [(halves[0], halves[1]), (halves[1], halves[0])]
        if len(folds) == 2:
            solutions = [second, first]
        else:
            stopping = time.stopping(FOLD_STEPS, 1.0, -(-len(folds) // 2))
            few = [_positives(Y_nL[half], taken(weights, half)) < FEW_POSITIVES for half in halves]
            starts = [(first, few[1]) if in_second_half_n[own[0]] else (second, few[0]) for _, own in folds]
            solutions = side_by_side(
                lambda number, pulse: solve(
                    folds[number][0],
                    _start(*starts[number], Y_nL[folds[number][0]], taken(weights, folds[number][0])),
                    stopping,
                    pulse,
                ),
                range(len(folds)),
                _reporting(progress, CHOOSING + HALVES + ALL_ROWS, 1.0, f"{len(folds)} folds"),
            )
        logits = np.empty(Y_nL.shape, dtype=np.float32)
        for (rest, own), (W, b) in zip(folds, solutions, strict=True):
            logits[own] = bounded(X[own] @ W + b)
            logits[np.ix_(own, ~_has_both(Y_nL[rest]))] = np.nan
        return _neutral_where_missing(logits, self.logits(X).mean(axis=0))

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        known, L = self.weights.shape[1], Y_nL.shape[1]
        prior = logit(label_priors(Y_nL, row_n=rows_of(weights))).astype(np.float32)
        centre = (
            np.pad(self.weights, ((0, 0), (0, L - known))),
            np.concatenate([self.intercepts, prior[known:]]).astype(np.float32),
        )
        # Every choice is scored on all new rows, each by a fit that never saw it.
        parts = parts_of(fold_n)
        paths = side_by_side(
            lambda part, pulse: self._path(X, Y_nL, part, centre, weights, pulse), parts, lambda share: None
        )
        logits = np.empty((len(MOVES), *Y_nL.shape), dtype=np.float32)
        for (_, own), path in zip(parts, paths, strict=True):
            logits[:, own] = path
        counts = None if weights is None else weights.row_n[:, None] * weights.entry_L
        out_of_fold = np.empty(Y_nL.shape, dtype=np.float32)
        moved = [part.copy() for part in centre]
        for some in (slice(0, known), slice(known, L)):  # new labels have nothing to be pulled towards
            if some.start == some.stop:
                continue
            counted = None if counts is None else counts[:, some]
            scores = [average_precision(tried[:, some], Y_nL[:, some], counted) for tried in logits]
            best = int(np.argmax(scores))
            out_of_fold[:, some] = logits[best][:, some]
            if MOVES[best]:
                near = (centre[0][:, some], centre[1][some])
                moved[0][:, some], moved[1][some] = fit_linear(
                    Matrix(X), Y_nL[:, some], MOVES[best], self.loss, near, row_n=rows_of(weights), centre=near
                )
        self.weights, self.intercepts = moved
        return out_of_fold

    def add_silent_label(self, prior: float) -> None:
        """One more label, of which the features say nothing."""
        self.weights = np.pad(self.weights, ((0, 0), (0, 1)))
        self.intercepts = np.append(self.intercepts, np.float32(logit(prior)))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels that are the mean of some labels before."""
        self.weights = np.column_stack([self.weights[:, list(group)].mean(axis=1) for group in groups])
        self.intercepts = np.array([self.intercepts[list(group)].mean() for group in groups], dtype=np.float32)

    def _path(
        self,
        X: Features,
        Y_nL: np.ndarray,
        part: tuple[np.ndarray, np.ndarray],
        centre: Solution,
        weights: Weights | None,
        pulse: Pulse,
    ) -> np.ndarray:
        """Logits of the second rows by fits on the first, for each of `MOVES`, (M, n, L)."""
        rest, own = part
        matrix, start, found = Matrix(X[rest]), centre, []
        for C in MOVES:
            if C:
                row_n = rows_of(taken(weights, rest))
                report = _pulsing(pulse)
                start = fit_linear(matrix, Y_nL[rest], C, self.loss, start, FOLD_STEPS, report, row_n, centre)
            found.append(bounded(X[own] @ start[0] + start[1]))
        return np.stack(found)

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        start = (self.weights, self.intercepts)
        report = _reporting(progress, 0.0, 1.0, "fitting again")
        self.weights, self.intercepts = fit_linear(
            Matrix(X), Y_nL, self.C, self.loss, start, report=report, row_n=rows_of(weights)
        )

    def logits(self, X: Features) -> np.ndarray:
        return bounded(X @ self.weights + self.intercepts)

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        rows = sparse.csr_matrix(X[rows_n])
        W, b = self.weights[:, labels_K].astype(np.float64), self.intercepts[labels_K].astype(np.float64)
        added_EK = rows.data[:, None] * W[rows.indices]
        slope_nK = through(_limited, np.broadcast_to(b, (rows.shape[0], len(b))), rows @ W + b)
        row_E = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        start_nK = np.broadcast_to(_limited(b), slope_nK.shape)
        return FeatureTerms(start_nK, rows.indptr, rows.indices, added_EK * slope_nK[row_E])

    def arrays(self) -> dict[str, np.ndarray]:
        choice = np.array([CHOICES.index((self.loss, self.C))], dtype=np.int64)
        return {"weights": self.weights, "intercepts": self.intercepts, "choice": choice}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights, self.intercepts = arrays["weights"], arrays["intercepts"]
        choice = arrays["choice"].item()
        if choice not in range(len(CHOICES)):
            raise ValueError("linear.choice names a loss and C that do not exist")
        self.loss, self.C = CHOICES[int(choice)]


def _has_both(Y_nL: np.ndarray) -> np.ndarray:
    """(L,) whether rows with and rows without the label are known."""
    return np.asarray((Y_nL == 1).any(axis=0) & (Y_nL == 0).any(axis=0))


def _neutral_where_missing(logits_nL: np.ndarray, otherwise_L: np.ndarray) -> np.ndarray:
    """Fill NaN, where a fold had nothing to learn a label from, with the label's mean logit in the other folds.

    The intercept of such a fit is arbitrary. With one of its own, the only positive of a rare label would always have
    the lowest logit of all rows, and the stack would learn that a low logit speaks for a label. A label that no fold
    could learn gets `otherwise_L`.

    >>> _neutral_where_missing(np.float32([[1, np.nan], [np.nan, np.nan], [3, np.nan]]), np.float32([0, -9]))
    array([[ 1., -9.],
           [ 2., -9.],
           [ 3., -9.]], dtype=float32)
    """
    missing = np.isnan(logits_nL)
    counts_L = (~missing).sum(axis=0)
    mean_L = np.where(counts_L, np.nansum(logits_nL, axis=0) / np.maximum(counts_L, 1), otherwise_L)
    return np.where(missing, mean_L.astype(np.float32), logits_nL)


def _positives(Y_nL: np.ndarray, weights: Weights | None) -> np.ndarray:
    """How many rows have each label, (L,)."""
    return np.asarray(np.nansum(Y_nL if weights is None else weights.row_n[:, None] * Y_nL, axis=0))


def _start(near: Solution, few_L: np.ndarray, Y_nL: np.ndarray, weights: Weights | None) -> Solution:
    """A solution of other rows to start from; zero weights for labels of which these rows had too few positives."""
    prior = logit(label_priors(Y_nL, row_n=rows_of(weights))).astype(np.float32)
    return np.where(few_L, np.float32(0), near[0]), np.where(few_L, prior, near[1])


class _Time:
    """The time budget of a fit, and how much of it is gone."""

    def __init__(self, context: FitContext) -> None:
        self.seconds, self.clock = context.budget_seconds, context.clock
        self.began = self.clock()

    def left(self, share: float) -> float | None:
        """Seconds until a share of the budget is used up; None without a budget."""
        return None if self.seconds is None else max(0.0, self.began + share * self.seconds - self.clock())

    def is_up(self, share: float = 1.0) -> bool:
        left = self.left(share)
        return left is not None and left <= 0

    def stopping(self, wanted: Stopping, share: float, rounds: int = 1) -> Stopping:
        """Stop as wanted, or when the share of the budget of that many consecutive fits is used up."""
        left = self.left(share)
        return wanted if left is None else replace(wanted, seconds=left / rounds, clock=self.clock)


def _best_choice(
    X: Features,
    Y_nL: np.ndarray,
    held_out_n: np.ndarray,
    seed: int,
    progress: OnProgress,
    time: _Time,
    weights: Weights | None,
) -> tuple[int, tuple[Loss, float]]:
    """How many choices were tried, and the one with the best average precision on held-out rows, for some labels."""
    random = np.random.default_rng(seed)
    labels = random.permutation(Y_nL.shape[1])[:CHOICE_LABELS]
    rows = np.flatnonzero(~held_out_n)
    if len(rows) > CHOICE_ROWS:
        rows = np.sort(random.permutation(rows)[:CHOICE_ROWS])
    held_out = np.flatnonzero(held_out_n)[:CHOICE_ROWS]
    X_fit, Y_fit = Matrix(X[rows]), Y_nL[np.ix_(rows, labels)]
    X_held_out, Y_held_out = X[held_out], Y_nL[np.ix_(held_out, labels)]
    row_n, counts = rows_of(taken(weights, rows)), None
    if weights is not None:
        counts = weights.take(held_out).row_n[:, None] * weights.entry_L[labels]

    def path(loss: Loss, pulse: Pulse) -> dict[tuple[Loss, float], float]:
        scores: dict[tuple[Loss, float], float] = {}
        start: Solution | None = None
        for _, C in (choice for choice in CHOICES if choice[0] == loss):
            if scores and time.is_up(CHOOSING):
                break
            stopping = time.stopping(CHOICE_STEPS, CHOOSING)
            start = fit_linear(X_fit, Y_fit, C, loss, start, stopping, lambda share: pulse(), row_n)
            scores[loss, C] = average_precision(X_held_out @ start[0] + start[1], Y_held_out, counts)
        return scores

    losses: tuple[Loss, ...] = ("squared_hinge", "logistic")
    scores: dict[tuple[Loss, float], float] = {}
    for found in side_by_side(path, losses, _reporting(progress, 0.0, 1.0, "choosing loss and C")):
        scores |= found
    return len(scores), max(scores, key=lambda choice: scores[choice])


def _reporting(progress: OnProgress, first: float, last: float, doing: str) -> Callable[[float], None]:
    """What `side_by_side` calls, for a part of the work."""
    part = part_of(progress, first, last)
    return lambda share: part(share, doing)


def _pulsing(pulse: Pulse) -> Callable[[float], None]:
    """What a fit calls with the share that is done, where only that it goes on is of interest."""
    return lambda share: pulse()


def average_precision(scores: np.ndarray, Y: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Of all known (row, label) pairs ranked together; `counts` say what each counts."""
    known = ~np.isnan(Y)
    order = np.argsort(-scores[known], kind="stable")
    hits = Y[known][order] > 0
    own = np.ones(len(hits)) if counts is None else counts[known][order]
    precision = np.cumsum(hits * own) / np.cumsum(own)
    return float(np.average(precision[hits], weights=own[hits])) if hits.any() else 0.0


def bounded(logits: np.ndarray) -> np.ndarray:
    """A label without positives has no finite intercept; how far the solver got must not matter."""
    return _limited(np.asarray(logits, dtype=np.float32))


def _limited(logits: np.ndarray) -> np.ndarray:
    """The same in the type of the logits."""
    return np.asarray(np.clip(logits, -MAX_ABS_LOGIT, MAX_ABS_LOGIT))
