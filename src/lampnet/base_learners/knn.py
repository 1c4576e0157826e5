"""k nearest training rows by cosine similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.feature_terms import FeatureTerms, Neighbours, through
from lampnet.base_learners.protocol import FOLDS, QUIET, Features, FitContext, OnProgress, no_progress
from lampnet.base_learners.row_sums import row_sums
from lampnet.base_learners.stored_matrix import dense, matrix_arrays, matrix_from
from lampnet.data.label_priors import any_share, label_priors, mixed_priors
from lampnet.data.splits import fold_numbers
from lampnet.data.weights import Weights, rows_of
from lampnet.encoders.unit_rows import unit_rows

NEIGHBOURS = 60
FEW_ROWS = 4 * NEIGHBOURS
REFERENCE_ROWS = 40_000  # neighbours are searched among at most this many training rows
SIMILARITY_POWER = 6  # a neighbour's vote is its cosine to this power
#: where a reference row comes from, as explanations call it with its number
ORIGINS = ("training row {}", "validation row {}", "row {} of an earlier training")
TRAINING, VALIDATION, EARLIER = range(len(ORIGINS))
#: up to this many entries, comparing one row directly is faster than setting up a sparse product
_FEW_ENTRIES = 400_000
_BLOCK = 512


class KNNLearner:
    """The labels of the nearest training rows, weighted by their cosine similarity."""

    def __init__(self) -> None:
        self.X: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.Y: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.prior = np.zeros(0, dtype=np.float32)
        #: what each reference row counts, float32 (n,); None where all count the same
        self.row_weight: np.ndarray | None = None
        #: where each reference row comes from and its number there, int64 (n, 2)
        self.origins_n2 = np.zeros((0, 2), dtype=np.int64)
        self._X_T: Any = None

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        rows = _unit_rows(X)
        chosen = self._store(X, Y_nL, seed, weights)
        if context.budget_seconds is not None:
            # What one block takes says how many reference rows the others can be compared with.
            began = context.clock()
            self._logits(rows[:_BLOCK], None, context.progress)
            seconds = (context.clock() - began) * rows.shape[0] / max(1, min(_BLOCK, rows.shape[0]))
            affordable = max(FEW_ROWS, int(len(chosen) * context.budget_seconds / max(seconds, 1e-9)))
            if affordable < len(chosen):
                context.log(f"knn: {affordable} reference rows instead of {len(chosen)}, to keep the time budget")
                chosen = self._store(X, Y_nL, seed, weights, affordable)
        if fold_n is None:
            # Leave-one-out, unless nearly all rows are neighbours of each other: then the others' mean is the
            # row's own labels inverted, and whole folds are left out instead.
            n = len(Y_nL)
            fold_n = np.arange(n) if n >= FEW_ROWS else fold_numbers(n, min(FOLDS, max(2, n // 10)), seed)
        return self._logits(rows, (fold_n, fold_n[chosen]), context.progress)

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        old, known, Y_old = self.X.shape[0], len(self.prior), dense(self.Y)
        self.prior = mixed_priors(self.prior, old, Y_nL, rows_of(weights))
        # The rows before say nothing of labels that are new.
        Y_old = np.hstack([Y_old, np.tile(self.prior[known:], (old, 1))])
        kept = np.sort(np.random.default_rng(seed).permutation(old)[: max(0, REFERENCE_ROWS - len(Y_nL))])
        chosen = np.sort(np.random.default_rng(seed).permutation(len(Y_nL))[:REFERENCE_ROWS])
        rows = _unit_rows(X)
        joined = [self.X[kept], rows[chosen]]
        self.X = sparse.csr_matrix(sparse.vstack(joined)) if sparse.issparse(rows) else np.vstack(joined)
        self._X_T = None
        before_n2 = np.column_stack([np.full(len(kept), EARLIER), self.origins_n2[kept, 1]])
        self.origins_n2 = np.vstack([before_n2, numbered(chosen)])
        if weights is not None or self.row_weight is not None:
            before = np.ones(old, dtype=np.float32) if self.row_weight is None else self.row_weight
            now = np.ones(len(Y_nL)) if weights is None else weights.row_n
            self.row_weight = np.concatenate([before[kept], now[chosen]], dtype=np.float32)
        self._keep_labels(np.vstack([Y_old[kept], np.where(np.isnan(Y_nL), self.prior, Y_nL)[chosen]]))
        fold_of_reference = np.concatenate([np.full(len(kept), -1), fold_n[chosen]])
        return self._logits(rows, (fold_n, fold_of_reference))

    def add_silent_label(self, prior: float) -> None:
        """One more label, of which the stored rows say nothing."""
        self.prior = np.append(self.prior, np.float32(prior))
        self._keep_labels(np.column_stack([dense(self.Y), np.zeros(self.X.shape[0], np.float32)]))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels that are true where any of some labels before is."""
        self.prior = any_share(self.prior, groups)
        Y = dense(self.Y)
        self._keep_labels(np.column_stack([Y[:, list(group)].max(axis=1) for group in groups]))

    def _keep_labels(self, Y: np.ndarray) -> None:
        self.Y = Y.astype(np.float32)
        if (self.Y != 0).mean() < 0.2:
            self.Y = sparse.csr_matrix(self.Y)

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        self._store(X, Y_nL, seed, weights)

    def store(self, X: Features, Y_nL: np.ndarray, numbers: np.ndarray) -> None:
        """Keep all of these rows, which have these numbers, as reference."""
        self._store(X, Y_nL, 0, None, len(Y_nL))
        self.origins_n2 = numbered(numbers)

    def number_rows(self, origins_n2: np.ndarray) -> None:
        """Say where the rows that were learned from last come from, int (n, 2) as in `origins_n2`."""
        new = self.origins_n2[:, 0] == TRAINING
        self.origins_n2 = self.origins_n2.copy()  # copies of the learner share the array
        self.origins_n2[new] = origins_n2[self.origins_n2[new, 1]]

    def _store(
        self, X: Features, Y_nL: np.ndarray, seed: int, weights: Weights | None, most: int | None = None
    ) -> np.ndarray:
        """Keep a sample of the rows as reference, `most` of them; return their indices."""
        most = REFERENCE_ROWS if most is None else most
        self.prior = label_priors(Y_nL, row_n=rows_of(weights))
        chosen = np.sort(np.random.default_rng(seed).permutation(len(Y_nL))[:most])
        self.X, self._X_T, self.origins_n2 = _unit_rows(X[chosen]), None, numbered(chosen)
        self.row_weight = None if weights is None else weights.row_n[chosen].astype(np.float32)
        # An unknown label counts as its prior, so it votes neither for nor against.
        Y = Y_nL[chosen]
        self._keep_labels(np.where(np.isnan(Y), self.prior, Y))
        return chosen

    def logits(self, X: Features) -> np.ndarray:
        return self._logits(_unit_rows(X), None)

    def logits_apart(self, X: Features, folds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Logits of rows whose neighbours come from other folds; `folds` of these rows and of the reference rows."""
        return self._logits(_unit_rows(X), folds)

    def _logits(
        self, X: Any, folds: tuple[np.ndarray, np.ndarray] | None, progress: OnProgress = no_progress
    ) -> np.ndarray:
        """`folds`: of the rows and of the reference rows; a row's neighbours come from other folds."""
        logits = np.empty((X.shape[0], len(self.prior)), dtype=np.float32)
        k = min(NEIGHBOURS, self.X.shape[0] - int(folds is not None))
        for first in range(0, X.shape[0], _BLOCK):
            progress(first / X.shape[0], "searching neighbours")
            block = slice(first, first + _BLOCK)
            if k < 1:
                logits[block] = _bounded_logit(self.prior)
                continue
            rows = X if X.shape[0] <= _BLOCK else X[block]
            cosine = self._cosine(rows)
            if folds is not None:
                cosine[folds[0][block, None] == folds[1]] = -np.inf
            nearest = np.argpartition(-cosine, k - 1, axis=1)[:, :k]
            weight = np.maximum(np.take_along_axis(cosine, nearest, axis=1), 0) ** SIMILARITY_POWER
            weight /= np.maximum(weight.max(axis=1, keepdims=True), 1e-12)
            if self.row_weight is not None:
                weight *= self.row_weight[nearest]
            starts = np.arange(0, weight.size + 1, k)
            votes = row_sums(weight.ravel(), nearest.ravel(), starts, self.Y)
            # One vote for the prior keeps the logits finite.
            logits[block] = _bounded_logit((votes + self.prior) / (weight.sum(axis=1, keepdims=True) + 1.0))
        return logits

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        """A neighbour's share is its vote; each of its features has the part that it has in their similarity."""
        rows, reference = sparse.csr_matrix(_unit_rows(X[rows_n]), dtype=np.float64), sparse.csr_matrix(self.X)
        n, prior = len(rows_n), self.prior[labels_K].astype(np.float64)
        k = min(NEIGHBOURS, reference.shape[0])
        index_nJ, cosine_nJ = np.zeros((n, k), dtype=np.int64), np.zeros((n, k))
        shares_nJK, values_EK = np.zeros((n, k, len(prior))), np.zeros((rows.nnz, len(prior)))
        nearest_nJ = self._nearest(X, rows_n, k) if k else index_nJ
        for row in range(n if k else 0):
            own, nearest = rows[row], nearest_nJ[row]
            near = reference[nearest].astype(np.float64)[:, own.indices].toarray() * own.data  # (J, features)
            cosine = near.sum(axis=1)
            vote = np.maximum(cosine, 0) ** SIMILARITY_POWER
            vote /= max(vote.max(), 1e-12)
            if self.row_weight is not None:
                vote *= self.row_weight[nearest]
            votes_JK = vote[:, None] * (dense(self.Y[nearest][:, labels_K]) - prior) / (vote.sum() + 1.0)
            shares = votes_JK * through(_exact_logit, prior, prior + votes_JK.sum(axis=0))
            order = np.argsort(-cosine, kind="stable")
            index_nJ[row], cosine_nJ[row], shares_nJK[row] = nearest[order], cosine[order], shares[order]
            there = vote > 0
            values_EK[rows.indptr[row] : rows.indptr[row + 1]] = (near[there] / cosine[there, None]).T @ shares[there]
        start_nK = np.broadcast_to(_exact_logit(prior), (n, len(prior)))
        neighbours = Neighbours(index_nJ, cosine_nJ, shares_nJK)
        return FeatureTerms(start_nK, rows.indptr, rows.indices, values_EK, neighbours)

    def labels_of(self, index: int) -> np.ndarray:
        """The labels of a reference row, by number; an unknown label counts as its prior and is none of them."""
        return np.flatnonzero(dense(self.Y[index : index + 1])[0] == 1)

    def name_of(self, index: int) -> str:
        """What explanations call a reference row."""
        origin, number = self.origins_n2[index].tolist()
        return ORIGINS[origin].format(number)

    def _nearest(self, X: Features, rows_n: np.ndarray, k: int) -> np.ndarray:
        """The k nearest reference rows of some rows, searched in the same blocks as `logits` does.

        Of equally near rows the same are found only if they are compared in the same products.
        """
        nearest_nJ = np.zeros((len(rows_n), k), dtype=np.int64)
        for block in np.unique(rows_n // _BLOCK):
            own = np.flatnonzero(rows_n // _BLOCK == block)
            first = block * _BLOCK
            cosine = self._cosine(_unit_rows(X[first : first + _BLOCK]))
            nearest_nJ[own] = np.argpartition(-cosine[rows_n[own] - first], k - 1, axis=1)[:, :k]
        return nearest_nJ

    def _cosine(self, rows: Any) -> np.ndarray:
        """Similarities of unit rows to the reference rows, float32 (rows, n)."""
        if sparse.issparse(rows) and rows.shape[0] == 1 and self.X.nnz <= _FEW_ENTRIES:
            return np.asarray(self.X @ rows.toarray()[0])[None].astype(np.float32, copy=False)  # the same sums
        return dense(rows @ self._transposed()).astype(np.float32, copy=False)

    def _transposed(self) -> Any:
        """(F, n) reference rows; kept, because to turn them round takes longer than to compare one row with them."""
        if self._X_T is None:
            self._X_T = sparse.csr_matrix(self.X.T) if sparse.issparse(self.X) else self.X.T
        return self._X_T

    def arrays(self) -> dict[str, np.ndarray]:
        own = {} if self.row_weight is None else {"row_weight": self.row_weight}
        own |= {"prior": self.prior, "origins": self.origins_n2}
        return own | matrix_arrays("X", self.X) | matrix_arrays("Y", self.Y)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.prior, self.row_weight = arrays["prior"], arrays.get("row_weight")
        self.X, self.Y, self._X_T = matrix_from("X", arrays), matrix_from("Y", arrays), None
        # Models of an older lampnet have no numbers: their rows are counted as they are stored.
        self.origins_n2 = arrays.get("origins", numbered(np.arange(self.X.shape[0])))


def numbered(numbers: np.ndarray, origin: int = TRAINING) -> np.ndarray:
    """Rows of one origin with these numbers, int64 (n, 2).

    >>> numbered(np.array([3, 5]), VALIDATION).tolist()
    [[1, 3], [1, 5]]
    """
    return np.column_stack([np.full(len(numbers), origin), numbers]).astype(np.int64)


def _bounded_logit(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)), dtype=np.float32)  # scipy.special.logit rounds float32 differently


def _exact_logit(p: np.ndarray) -> np.ndarray:
    """float64, bounded likewise."""
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)), dtype=np.float64)


def _unit_rows(X: Features) -> Any:
    # Not sklearn.preprocessing.normalize: it takes over a second to import, and prediction needs no scikit-learn.
    if sparse.issparse(X):
        return unit_rows(X.tocsr())
    X = np.asarray(X, dtype=np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
