"""Base learners of rows too many to hold in memory, in time linear in the rows.

linear  learns from all rows (`streamed_linear`): a row's out-of-fold logits are those of a model without its fold
knn     searches inverted lists: of a sample of all rows, each is stored under its heaviest features; held-out rows
        choose how many rows. A stored row is not its own neighbour.
forest  is grown on a sample, boosted trees too, and a kernel stores one; these rows get out-of-fold logits, all
        others were never seen

What stacks them is fitted on out-of-fold logits of evenly spread rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import FEW_ROWS, KNNLearner
from lampnet.base_learners.linear import LinearLearner, average_precision, bounded
from lampnet.base_learners.protocol import FOLDS, QUIET, Features, FitContext, part_of
from lampnet.base_learners.row_stream import RowStream
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stacking_weights import CHOICE_ENTRIES
from lampnet.base_learners.streamed_linear import fit_streamed
from lampnet.data.splits import fold_numbers

#: folds of the rows: with so many rows, half of them teach nearly what all do
STREAMED_FOLDS = 2
#: how many stored rows neighbours may be searched among
STORED_ROWS = (10_000, 20_000, 40_000)
#: the features of a sparse row that it is stored under: frequent ones weigh little and make lists long
STORED_FEATURES = 64
#: fewer stored rows are kept where they cost no more average precision than this on held-out rows
NEARLY_AS_GOOD = 0.002
HELD_OUT_ROWS = 1_000
#: rows that trees are grown on, and of which a kernel stores some
TREE_ROWS = 50_000
#: (row, label) entries that the stack's scale and weights are fitted on
STACK_ENTRIES = 5 * CHOICE_ENTRIES

#: the logits (n, L) of rows with these numbers and features, by models that never saw them
OutOfFold = Callable[[np.ndarray, Features], np.ndarray]


@dataclass(frozen=True)
class StreamedStack:
    """A fitted stack, and what gives out-of-fold logits to the rows that it was fitted on."""

    stack: Stack
    out_of_fold: list[OutOfFold]

    def logits(self, numbers: np.ndarray, X: Features) -> np.ndarray:
        """Scaled out-of-fold logits (n, L, K) of the rows with these numbers, whose features are X."""
        return self.stack.scaled(np.stack([of(numbers, X) for of in self.out_of_fold], axis=-1))


def fit_streamed_stack(stack: Stack, rows: RowStream, seed: int, context: FitContext = QUIET) -> StreamedStack:
    """Fit every learner and the stacking weights."""
    out_of_fold = []
    for number, learner in enumerate(stack.learners):
        own = replace(context, progress=stack.part(context.progress, number))
        if isinstance(learner, LinearLearner):
            out_of_fold.append(_linear(learner, rows, seed, own))
        elif isinstance(learner, KNNLearner):
            out_of_fold.append(_knn(learner, rows, seed, own))
        else:
            assert isinstance(learner, (ForestLearner, BoostedLearner, KernelLearner))
            out_of_fold.append(_of_sample(stack.names[number], learner, rows, seed, own))
    n, n_labels = rows.labels.shape
    some = np.unique(np.linspace(0, n - 1, min(n, max(200, STACK_ENTRIES // n_labels))).astype(np.int64))
    X, Y = rows.take(some)
    stack.set_scale(np.stack([of(some, X) for of in out_of_fold], axis=-1))
    fitted = StreamedStack(stack, out_of_fold)
    fold_n = fold_numbers(len(some), FOLDS, seed, rows.blocked)
    stack.choose_and_fit_weights(fitted.logits(some, X), Y, fold_n)
    return fitted


def _linear(learner: LinearLearner, rows: RowStream, seed: int, context: FitContext) -> OutOfFold:
    folds = list(range(int(rows.fold_n.max()) + 1))
    first, second = part_of(context.progress, 0.0, 0.6), part_of(context.progress, 0.6, 1.0)
    solutions = fit_streamed(rows, folds, None, lambda share: first(share, f"{len(folds)} folds of all rows"), seed)
    mean = tuple(np.mean([solution[part] for solution in solutions], axis=0) for part in (0, 1))
    [(weights, intercepts)] = fit_streamed(
        rows, [-1], (mean[0], mean[1]), lambda share: second(share, "all rows"), seed
    )
    learner.weights, learner.intercepts = weights, intercepts

    def out_of_fold(numbers: np.ndarray, X: Features) -> np.ndarray:
        logits = np.empty((len(numbers), rows.labels.shape[1]), dtype=np.float32)
        for fold, (W, b) in enumerate(solutions):
            own = np.flatnonzero(rows.fold_n[numbers] == fold)
            logits[own] = bounded(X[own] @ W + b)
        return logits

    return out_of_fold


def _knn(learner: KNNLearner, rows: RowStream, seed: int, context: FitContext) -> OutOfFold:
    context.progress(0.0, "choosing how many rows are stored")
    n = len(rows)
    order = np.random.default_rng(seed).permutation(n)
    held_out = np.sort(order[: min(HELD_OUT_ROWS, n // 10)])
    X_held_out, Y_held_out = rows.take(held_out)
    stored = order[len(held_out) :]
    scores: dict[int, float] = {}
    for most in sorted({max(FEW_ROWS, min(size, len(stored))) for size in STORED_ROWS}):
        some = np.sort(stored[:most])
        X, Y = rows.take(some)
        learner.store(_heaviest_features(X), Y, some)
        scores[most] = average_precision(learner.logits(X_held_out), Y_held_out)
    fewest = min(most for most, score in scores.items() if score >= max(scores.values()) - NEARLY_AS_GOOD)
    context.log(f"knn: {fewest:,} of {n:,} rows are stored ({_described(scores)} on held-out rows)")
    chosen = np.sort(stored[:fewest])
    if fewest != max(scores):
        X, Y = rows.take(chosen)
        learner.store(_heaviest_features(X), Y, chosen)

    def out_of_fold(numbers: np.ndarray, X: Features) -> np.ndarray:
        folds = (rows.fold_n[numbers], rows.fold_n[chosen]) if rows.blocked else (numbers, chosen)
        return learner.logits_apart(X, folds)

    return out_of_fold


def _heaviest_features(X: Features) -> Features:
    """The largest entries of each sparse row; dense rows as they are."""
    if not sparse.issparse(X):
        return X
    lengths = np.diff(X.indptr)
    row = np.repeat(np.arange(X.shape[0]), lengths)
    order = np.lexsort((-np.abs(X.data), row))
    rank = np.arange(X.nnz) - np.repeat(X.indptr[:-1], lengths)
    kept = np.sort(order[rank < STORED_FEATURES])
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, STORED_FEATURES))])
    return sparse.csr_matrix((X.data[kept], X.indices[kept], offsets), shape=X.shape)


def _described(scores: dict[int, float]) -> str:
    return ", ".join(f"{most:,}: average precision {score:.3f}" for most, score in scores.items())


def _of_sample(
    name: str,
    learner: ForestLearner | BoostedLearner | KernelLearner,
    rows: RowStream,
    seed: int,
    context: FitContext,
) -> OutOfFold:
    n = len(rows)
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:TREE_ROWS])
    if len(chosen) < n:
        context.log(f"{name}: fitted on {len(chosen):,} of {n:,} rows")
    X_chosen, Y_chosen = rows.take(chosen)
    own = learner.fit(X_chosen, Y_chosen, seed, rows.fold_n[chosen] if rows.blocked else None, context)

    def out_of_fold(numbers: np.ndarray, X: Features) -> np.ndarray:
        logits = learner.logits(X)
        index = np.minimum(np.searchsorted(chosen, numbers), len(chosen) - 1)
        fitted_on = np.flatnonzero(chosen[index] == numbers)
        logits[fitted_on] = own[index[fitted_on]]
        return logits

    return out_of_fold
