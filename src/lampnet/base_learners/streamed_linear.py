"""Linear one-vs-rest classifiers of rows too many to hold in memory, by stochastic gradient descent.

The loss is the squared hinge: its gradient is zero for most pairs of a row and a label, so a step costs little more
than the row's predictions. Labels are solved side by side, because each product with the rows serves all of them.
scikit-learn's SGD takes one label at a time.

Steps need no tuning. For one row of unit length, a step of rate 1 moves the row's margin to 1. A batch in which a label
is wrong for `a` rows takes a step that is safe for rows this alike, 1 / (1 + (a - 1) s): s is the largest share of
the rows' energy that lies in one direction (mini-batches after Takac, Bijral, Richtarik and Srebro, 2013). The rate
falls linearly. Weights start at zero and take few passes, which keeps them small: there is no penalty to choose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import svds
from torch import Tensor
from torch.nn.functional import embedding_bag

from lampnet.base_learners.linear import Solution
from lampnet.base_learners.protocol import Features
from lampnet.base_learners.row_stream import RowStream, stacked_rows
from lampnet.runtime.side_by_side import Pulse, side_by_side

#: rows of a step
BATCH = 256
#: passes over the rows: as many as visit this many rows, within these bounds; and the initial rate
ROW_VISITS, FEWEST_PASSES, MOST_PASSES = 400_000, 2, 8
RATE = 1.5
#: labels that are solved together; weights of one such group that are in memory at once
LABELS_AT_ONCE, MOST_WEIGHTS = 512, 1 << 27
#: the squared length of the constant feature that belongs to the intercept
CONSTANT = 0.1
#: rows that say how alike rows are
ALIKE_ROWS = 2_000


def fit_streamed(
    rows: RowStream,
    left_out: list[int],
    start: Solution | None = None,
    report: Callable[[float], None] = lambda share: None,
    seed: int = 0,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Solution]:
    """For each number in `left_out` the weights (F, L) and intercepts (L,) without that fold; -1 leaves out none.

    start    of all of them; then one pass suffices, at half the rate
    seconds  by the clock, after which they end with the rows they have seen; None for whole passes

    >>> from lampnet.base_learners.row_stream import HeldFeatures
    >>> X = np.array([[-1.0], [1.0]] * 50, dtype=np.float32)
    >>> Y = sparse.csr_matrix(X > 0, dtype=np.float32)
    >>> [(W, b)] = fit_streamed(RowStream(HeldFeatures(X), Y, np.arange(100) % 2), [-1])
    >>> bool(W[0, 0] > 0.8)
    True
    """
    n_features, n_labels = rows.features.shape[1], rows.labels.shape[1]
    at_once = max(1, min(LABELS_AT_ONCE, MOST_WEIGHTS // max(1, n_features)))
    groups = np.array_split(np.arange(n_labels), -(-n_labels // at_once))
    scale = _Scale.of(rows)
    solutions = [(np.empty((n_features, n_labels), np.float32), np.empty(n_labels, np.float32)) for _ in left_out]

    def solve(task: tuple[int, np.ndarray], pulse: Pulse) -> None:
        number, some = task
        own = None if start is None else (start[0][:, some], start[1][some])
        problem = _Problem(sparse.csr_matrix(rows.labels[:, some]), n_features, scale, own)
        passes, rate = (1, RATE / 2) if start is not None else (_passes(len(rows)), RATE)
        steps, began = passes * -(-len(rows) // BATCH), clock()
        for step, (numbers, X) in enumerate(_batches(rows, passes, seed, left_out[number])):
            pulse()
            done = step / steps
            if each is not None:
                done = max(done, (clock() - began) / each)
                if done >= 1:
                    break
            problem.step(X, numbers, rate * (1 - done))
        weights, intercepts = solutions[number]
        weights[:, some], intercepts[some] = problem.W.numpy(), problem.b.numpy()

    tasks = [(number, some) for number in range(len(left_out)) for some in groups]
    at_a_time = min(torch.get_num_threads(), len(tasks))
    each = None if seconds is None else max(1e-9, seconds * at_a_time / len(tasks))
    side_by_side(solve, tasks, report)
    return solutions


def _batches(rows: RowStream, passes: int, seed: int, left_out: int) -> Iterator[tuple[np.ndarray, Features]]:
    """Numbers and features of a few rows at a time, those of one fold left out, shuffled anew in every pass."""
    for number_of_pass in range(passes):
        for numbers, X in rows.shuffled(seed * 1000 + number_of_pass):
            kept = np.flatnonzero(rows.fold_n[numbers] != left_out)
            for first in range(0, len(kept), BATCH):
                batch = kept[first : first + BATCH]
                yield numbers[batch], X[batch]


def _passes(n: int) -> int:
    return int(np.clip(-(-ROW_VISITS // max(1, n)), FEWEST_PASSES, MOST_PASSES))


class _Scale:
    """How long rows are (the median of their squared lengths), and how alike."""

    def __init__(self, squared_length: float, alike: float) -> None:
        self.squared_length, self.alike = squared_length, alike

    @classmethod
    def of(cls, rows: RowStream) -> _Scale:
        some: list[Features] = []
        for _, X in rows.shuffled(0):
            some.append(X[: ALIKE_ROWS - sum(part.shape[0] for part in some)])
            if sum(part.shape[0] for part in some) >= ALIKE_ROWS:
                break
        X = sparse.csr_matrix(stacked_rows(some), dtype=np.float32)
        X = sparse.hstack([X, np.full((X.shape[0], 1), CONSTANT**0.5, np.float32)], format="csr")
        lengths = _squared_lengths(X)
        typical = float(np.median(lengths))  # a few rows far longer than the others must not slow all steps
        X = sparse.csr_matrix(X.multiply(1 / np.sqrt(np.maximum(lengths, typical))[:, None]))
        if min(X.shape) < 2:
            return cls(typical, 1.0)
        largest = float(svds(X, k=1, v0=np.ones(min(X.shape)), return_singular_vectors=False)[0])
        return cls(typical, min(1.0, largest**2 / X.shape[0]))


class _Problem:
    """The weights of some labels while they are learned."""

    def __init__(self, labels: sparse.csr_matrix, n_features: int, scale: _Scale, start: Solution | None) -> None:
        self.labels, self.scale = labels, scale
        n_labels = labels.shape[1]
        if start is None:  # with logits of -1, a label is wrong only for the rows that have it
            self.W, self.b = torch.zeros(n_features, n_labels), torch.full((n_labels,), -1.0)
        else:
            self.W, self.b = (torch.from_numpy(np.array(part, dtype=np.float32, order="C")) for part in start)

    def step(self, X: Features, numbers: np.ndarray, rate: float) -> None:
        """One step for a batch of rows."""
        logits = product(X, self.W) + self.b
        Y = self.labels[numbers]
        row_E, label_E = np.repeat(np.arange(len(numbers)), np.diff(Y.indptr)), Y.indices
        logits_BL = logits.numpy()
        own_E = logits_BL[row_E, label_E]
        wrong_BL = np.maximum(logits_BL + 1, 0)  # as if no row had any label
        wrong_BL[row_E, label_E] = np.where(
            Y.data > 0, np.minimum(own_E - 1, 0), np.where(np.isnan(Y.data), 0, np.maximum(own_E + 1, 0))
        )
        count_L = np.count_nonzero(wrong_BL, axis=0)
        step_L = rate / (1 + np.maximum(count_L - 1, 0) * self.scale.alike)
        length_B = _squared_lengths(X) + CONSTANT
        wrong_BL *= step_L.astype(np.float32)
        wrong_BL /= np.maximum(length_B, self.scale.squared_length)[:, None].astype(np.float32)
        if sparse.issparse(X):
            self._move(X, sparse.csr_matrix(wrong_BL))
        else:
            self.W -= torch.from_numpy(np.asarray(X, dtype=np.float32)).T @ torch.from_numpy(wrong_BL)
        self.b -= CONSTANT * torch.from_numpy(wrong_BL.sum(axis=0))

    def _move(self, X: sparse.csr_matrix, wrong: sparse.csr_matrix) -> None:
        """W -= X^T wrong, where only the entries that change are touched."""
        used, column = np.unique(X.indices, return_inverse=True)
        compact = sparse.csr_matrix((X.data, column.astype(np.int32), X.indptr), shape=(X.shape[0], len(used)))
        change = sparse.csr_matrix(compact.T) @ wrong
        entry = np.repeat(used.astype(np.int64) * self.W.shape[1], np.diff(change.indptr)) + change.indices
        self.W.view(-1).index_add_(0, torch.from_numpy(entry), torch.from_numpy(change.data), alpha=-1)


def product(X: Features, W_FL: Tensor) -> Tensor:
    """X @ W; for sparse rows by the kernel of embedding bags, which is twice as fast as a sparse product."""
    if not sparse.issparse(X):
        return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)) @ W_FL
    columns, starts = (torch.from_numpy(part.astype(np.int64)) for part in (X.indices, X.indptr))
    values = torch.from_numpy(X.data.astype(np.float32))
    return embedding_bag(columns, W_FL, starts, mode="sum", per_sample_weights=values, include_last_offset=True)


def _squared_lengths(X: Features) -> np.ndarray:
    squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
