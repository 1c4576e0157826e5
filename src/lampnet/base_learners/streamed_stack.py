"""Base learners of rows too many to hold in memory, in time linear in the rows.

linear  learns from all rows (`streamed_linear`): a row's out-of-fold logits are those of a model without its fold
knn     searches inverted lists: of a sample of all rows, each is stored under its heaviest features; held-out rows
        choose how many rows. A stored row is not its own neighbour.
forest  is grown on a sample, boosted trees too, and a kernel stores one; these rows get out-of-fold logits, all
        others were never seen

What stacks them is fitted on out-of-fold logits of evenly spread rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from scipy import sparse

from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import FEW_ROWS, KNNLearner
from lampnet.base_learners.linear import LinearLearner, average_precision, bounded
from lampnet.base_learners.protocol import FOLDS, QUIET, BaseLearner, Features, FitContext, part_of
from lampnet.base_learners.row_stream import RowStream
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stacking_weights import CHOICE_ENTRIES
from lampnet.base_learners.streamed_linear import fit_streamed
from lampnet.data.splits import fold_numbers

#: folds of the rows: where there are many, half of them are nearly as good as all
STREAMED_FOLDS = 2
#: how many stored rows neighbours may be searched among
STORED_ROWS = (10_000, 20_000, 40_000)
#: the features of a sparse row that it is stored under: frequent ones have little weight and make lists long
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
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StreamedLearner:
    """A learner that was fitted already: what its `arrays` returned, and what out-of-fold logits are computed from.

    apart  linear: the solutions without each fold. knn: the numbers of the stored rows. Others: the numbers of the
           rows that they were fitted on, and the out-of-fold logits of these
    """

    arrays: dict[str, np.ndarray]
    apart: dict[str, np.ndarray]


OnStreamed = Callable[[str, BaseLearner, Arrays], None]


@dataclass(frozen=True)
class StreamedStack:
    """A fitted stack, and what gives out-of-fold logits to the rows that it was fitted on."""

    stack: Stack
    out_of_fold: list[OutOfFold]

    def logits(self, numbers: np.ndarray, X: Features) -> np.ndarray:
        """Scaled out-of-fold logits (n, L, K) of the rows with these numbers, whose features are X."""
        return self.stack.scaled(np.stack([of(numbers, X) for of in self.out_of_fold], axis=-1))


def fit_streamed_stack(
    stack: Stack,
    rows: RowStream,
    seed: int,
    context: FitContext = QUIET,
    on_fitted: OnStreamed | None = None,
    fitted: Mapping[str, StreamedLearner] = MappingProxyType({}),
) -> StreamedStack:
    """Fit every learner and the stacking weights.

    on_fitted  called after each learner with its name, the learner and what its out-of-fold logits are computed from
    fitted     what an earlier fit on the same rows handed to `on_fitted`: these learners are not fitted again
    """
    out_of_fold, began = [], context.clock()
    for number, (name, learner) in enumerate(zip(stack.names, stack.learners, strict=True)):
        if name in fitted:
            learner.restore(fitted[name].arrays)
            apart: Arrays = fitted[name].apart
        else:
            budget = context.budget_seconds
            if budget is not None:  # what is left, shared by the learners that are left
                budget = max(0.0, budget - (context.clock() - began)) / (len(stack.names) - number)
            own = replace(context, progress=stack.part(context.progress, number), budget_seconds=budget)
            apart = _fitted(name, learner, rows, seed, own)
            if on_fitted is not None:
                on_fitted(name, learner, apart)
        out_of_fold.append(_out_of_fold(learner, rows, apart))
    n, n_labels = rows.labels.shape
    some = np.unique(np.linspace(0, n - 1, min(n, max(200, STACK_ENTRIES // n_labels))).astype(np.int64))
    X, Y = rows.take(some)
    stack.set_scale(np.stack([of(some, X) for of in out_of_fold], axis=-1))
    made = StreamedStack(stack, out_of_fold)
    fold_n = fold_numbers(len(some), FOLDS, seed, rows.blocked)
    stack.choose_and_fit_weights(made.logits(some, X), Y, fold_n)
    return made


def _fitted(name: str, learner: BaseLearner, rows: RowStream, seed: int, context: FitContext) -> Arrays:
    if isinstance(learner, LinearLearner):
        return _linear(learner, rows, seed, context)
    if isinstance(learner, KNNLearner):
        return _knn(learner, rows, seed, context)
    assert isinstance(learner, (ForestLearner, BoostedLearner, KernelLearner))
    return _of_sample(name, learner, rows, seed, context)


def _out_of_fold(learner: BaseLearner, rows: RowStream, apart: Arrays) -> OutOfFold:
    if isinstance(learner, LinearLearner):
        return lambda numbers, X: _linear_logits(rows, apart, numbers, X)
    if isinstance(learner, KNNLearner):
        return lambda numbers, X: _knn_logits(learner, rows, apart["chosen"], numbers, X)
    return lambda numbers, X: _sample_logits(learner, apart, numbers, X)


def _linear(learner: LinearLearner, rows: RowStream, seed: int, context: FitContext) -> Arrays:
    folds = list(range(int(rows.fold_n.max()) + 1))
    first, second = part_of(context.progress, 0.0, 0.6), part_of(context.progress, 0.6, 1.0)
    budget, clock = context.budget_seconds, context.clock
    solutions = fit_streamed(
        rows,
        folds,
        None,
        lambda share: first(share, f"{len(folds)} folds of all rows"),
        seed,
        None if budget is None else 0.6 * budget,
        clock,
    )
    mean = tuple(np.mean([solution[part] for solution in solutions], axis=0) for part in (0, 1))
    [(weights, intercepts)] = fit_streamed(
        rows,
        [-1],
        (mean[0], mean[1]),
        lambda share: second(share, "all rows"),
        seed,
        None if budget is None else 0.4 * budget,
        clock,
    )
    learner.weights, learner.intercepts = weights, intercepts
    apart = {f"weights{fold}": W for fold, (W, _) in enumerate(solutions)}
    return apart | {f"intercepts{fold}": b for fold, (_, b) in enumerate(solutions)}


def _linear_logits(rows: RowStream, apart: Arrays, numbers: np.ndarray, X: Features) -> np.ndarray:
    logits = np.empty((len(numbers), rows.labels.shape[1]), dtype=np.float32)
    for fold in range(len(apart) // 2):
        own = np.flatnonzero(rows.fold_n[numbers] == fold)
        logits[own] = bounded(X[own] @ apart[f"weights{fold}"] + apart[f"intercepts{fold}"])
    return logits


def _knn(learner: KNNLearner, rows: RowStream, seed: int, context: FitContext) -> Arrays:
    began, budget = context.clock(), context.budget_seconds
    context.progress(0.0, "choosing how many rows are stored")
    n = len(rows)
    order = np.random.default_rng(seed).permutation(n)
    held_out = np.sort(order[: min(HELD_OUT_ROWS, n // 10)])
    X_held_out, Y_held_out = rows.take(held_out)
    stored = order[len(held_out) :]
    scores: dict[int, float] = {}
    for number, most in enumerate(sizes := sorted({max(FEW_ROWS, min(size, len(stored))) for size in STORED_ROWS})):
        context.progress(number / len(sizes), f"{most:,} stored rows")
        if scores and budget is not None and context.clock() - began > budget / 2:
            break  # the next size takes longer than this one
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
    return {"chosen": chosen}


def _knn_logits(
    learner: KNNLearner, rows: RowStream, chosen: np.ndarray, numbers: np.ndarray, X: Features
) -> np.ndarray:
    folds = (rows.fold_n[numbers], rows.fold_n[chosen]) if rows.blocked else (numbers, chosen)
    return learner.logits_apart(X, folds)


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
) -> Arrays:
    n = len(rows)
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:TREE_ROWS])
    if len(chosen) < n:
        context.log(f"{name}: fitted on {len(chosen):,} of {n:,} rows")
    X_chosen, Y_chosen = rows.take(chosen)
    own = learner.fit(X_chosen, Y_chosen, seed, rows.fold_n[chosen] if rows.blocked else None, context)
    return {"chosen": chosen, "logits": own}


def _sample_logits(learner: BaseLearner, apart: Arrays, numbers: np.ndarray, X: Features) -> np.ndarray:
    logits, chosen = learner.logits(X), apart["chosen"]
    index = np.minimum(np.searchsorted(chosen, numbers), len(chosen) - 1)
    fitted_on = np.flatnonzero(chosen[index] == numbers)
    logits[fitted_on] = apart["logits"][index[fitted_on]]
    return logits
