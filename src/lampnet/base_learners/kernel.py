"""Kernel ridge regression of all labels at once: near rows have similar labels, and rows alike count once.

The kernel of rows x and z is exp(-sqrt(d^2 / scale^2 + ROUNDED^2)) with their Euclidean distance d, plus 1, which makes
the intercept. A label's target is y - prior in standard deviations, so rare labels count as much as frequent ones. One
inverse gives the scores of every held-out fold in closed form. The cost grows with the cube of the rows, so of many
rows a sample is stored.

Scale and ridge are those that lowered the out-of-fold log-loss of the stack most, on the labelled rows of Mediamill and
Scene. By its own error a smoother kernel would be chosen, which adds less to what the other learners know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

from lampnet.base_learners.feature_terms import FeatureTerms, through
from lampnet.base_learners.protocol import QUIET, Features, FitContext, OnProgress, no_progress
from lampnet.base_learners.stored_matrix import dense, matrix_arrays, matrix_from
from lampnet.data.label_priors import any_share, label_priors, mixed_priors
from lampnet.data.weights import Weights, rows_of

#: rows that one fit stores, and all fits on more rows together
FIT_ROWS, STORED_ROWS = 4_000, 20_000
#: rows that are stored whatever the time budget
FEWEST_ROWS = 200
#: the scale as a multiple of the median distance of two rows, and what is added to the kernel's diagonal
SCALE, RIDGE = 0.5, 0.02
#: without it the kernel has a corner at distance 0, where rounding errors of the distance would show
ROUNDED = 0.05
#: a score's logit is asinh(STEEPNESS * score): straight for small scores, bent for large ones
STEEPNESS = 2.0
#: points of the line from a row without features to a row, on which a score is divided among the features
PATH_POINTS = 24
_BLOCK = 512


class KernelLearner:
    """Kernel ridge regression with out-of-fold logits in closed form.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 20, dtype=np.float32)
    >>> Y = np.array([[0.0], [1.0]] * 20, dtype=np.float32)
    >>> kernel = KernelLearner()
    >>> kernel.fit(X, Y, seed=0).shape
    (40, 1)
    >>> bool(kernel.logits(X)[1, 0] > kernel.logits(X)[0, 0])
    True
    """

    def __init__(self) -> None:
        #: stored rows (N, F), and how much each counts for every label, (N, L)
        self.X: Features = np.zeros((0, 0), dtype=np.float32)
        self.dual_NL = np.zeros((0, 0), dtype=np.float32)
        self.prior = np.zeros(0, dtype=np.float32)
        self.scale, self.ridge = 1.0, RIDGE

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        fold_n = np.arange(len(Y_nL)) if fold_n is None else fold_n  # else each row is left out alone
        self._begin(Y_nL, weights)
        self.scale = SCALE * _median_distance(X[_sample(len(Y_nL), FEWEST_ROWS, seed)])
        chosen = _sample(len(Y_nL), self._affordable(X, Y_nL, seed, context), seed)
        context.progress(0.1, f"{len(chosen)} rows")
        return self._learn(X, self._targets(Y_nL), fold_n, chosen, weights)

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        """New rows correct what those before say of them, where that helps out-of-fold, and stand beside them."""
        known, stored = len(self.prior), len(self.dual_NL)
        before_nL = np.pad(self._scores(X), ((0, 0), (0, Y_nL.shape[1] - known)))
        self.prior = mixed_priors(self.prior, stored, Y_nL, rows_of(weights))
        self.dual_NL = np.pad(self.dual_NL, ((0, 0), (0, Y_nL.shape[1] - known)))
        left_nL = np.where(np.isnan(Y_nL), 0.0, self._targets(Y_nL) - before_nL)
        chosen = _sample(len(Y_nL), max(0, min(FIT_ROWS, STORED_ROWS - stored)), seed)
        if not len(chosen):
            return logit_of(before_nL).astype(np.float32)
        solved = self._solved(X[chosen], left_nL[chosen], _row_weights(weights, chosen))
        if not _helps(solved.held_out(fold_n[chosen])[:, :known], left_nL[chosen, :known]):
            left_nL[:, :known] = 0.0
        return self._learn(X, left_nL, fold_n, chosen, weights, before_nL)

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        self._begin(Y_nL, weights)
        chosen = _sample(len(Y_nL), FIT_ROWS, seed)
        progress(0.0, f"{len(chosen)} rows")
        solved = self._solved(X[chosen], self._targets(Y_nL[chosen]), _row_weights(weights, chosen))
        self._store(X[chosen], solved)

    def add_silent_label(self, prior: float) -> None:
        """One more label, of which the stored rows say nothing."""
        self.prior = np.append(self.prior, np.float32(prior))
        self.dual_NL = np.pad(self.dual_NL, ((0, 0), (0, 1)))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels whose scores are the mean of those of some labels before."""
        self.prior = any_share(self.prior, groups)
        self.dual_NL = np.column_stack([self.dual_NL[:, list(group)].mean(axis=1) for group in groups])

    def logits(self, X: Features) -> np.ndarray:
        return logit_of(self._scores(X)).astype(np.float32)

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        """Integrated gradients along the line from a row without features, scaled so that they add up."""
        rows = sparse.csr_matrix(X[rows_n], dtype=np.float64)
        stored_NF, dual_NK = dense(self.X).astype(np.float64), self.dual_NL[:, labels_K].astype(np.float64)
        start_K = (self._kernel(np.zeros((1, rows.shape[1])), self.X) @ dual_NK)[0]
        values_EK = np.zeros((rows.nnz, len(labels_K)))
        for row, end_K in enumerate(self._kernel(rows, self.X) @ dual_NK):
            own = slice(rows.indptr[row], rows.indptr[row + 1])
            slopes_FK = self._mean_slopes(rows[row].toarray()[0], stored_NF, dual_NK)
            terms_EK = rows.data[own, None] * slopes_FK[rows.indices[own]]
            size_EK = np.abs(terms_EK) + 1e-12
            terms_EK += (end_K - start_K - terms_EK.sum(axis=0)) * size_EK / size_EK.sum(axis=0)
            values_EK[own] = terms_EK * through(logit_of, start_K, end_K)
        return FeatureTerms(np.tile(logit_of(start_K), (len(rows_n), 1)), rows.indptr, rows.indices, values_EK)

    def arrays(self) -> dict[str, np.ndarray]:
        settings = np.array([self.scale, self.ridge])
        return {"dual": self.dual_NL, "prior": self.prior, "settings": settings} | matrix_arrays("X", self.X)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.X, self.dual_NL, self.prior = matrix_from("X", arrays), arrays["dual"], arrays["prior"]
        self.scale, self.ridge = (float(number) for number in arrays["settings"])

    def _begin(self, Y_nL: np.ndarray, weights: Weights | None) -> None:
        self.prior = label_priors(Y_nL, row_n=rows_of(weights))
        self.X, self.dual_NL = np.zeros((0, 0), dtype=np.float32), np.zeros((0, Y_nL.shape[1]), dtype=np.float32)

    def _affordable(self, X: Features, Y_nL: np.ndarray, seed: int, context: FitContext) -> int:
        """How many rows can be stored in the time budget: the time grows with their cube."""
        wanted = min(len(Y_nL), FIT_ROWS)
        if context.budget_seconds is None:
            return wanted
        some, began = _sample(len(Y_nL), FEWEST_ROWS, seed), context.clock()
        self._solved(X[some], self._targets(Y_nL[some]), None)
        allowed = context.budget_seconds / max(context.clock() - began, 1e-9)
        stored = min(wanted, max(len(some), int(len(some) * allowed ** (1 / 3))))
        if stored < wanted:
            context.log(f"kernel: {stored} rows are stored instead of {wanted}, to keep the time budget")
        return stored

    def _learn(
        self,
        X: Features,
        targets_nL: np.ndarray,
        fold_n: np.ndarray,
        chosen: np.ndarray,
        weights: Weights | None,
        before_nL: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Store the chosen rows, which add to the scores of all; return the logits of all, out-of-fold."""
        solved = self._solved(X[chosen], targets_nL[chosen], _row_weights(weights, chosen))
        scores_nL = np.zeros(targets_nL.shape)
        scores_nL[chosen] = solved.held_out(fold_n[chosen])
        others = np.setdiff1d(np.arange(len(fold_n)), chosen)
        for first in range(0, len(others), _BLOCK):
            block = others[first : first + _BLOCK]
            kernel_nN = self._kernel(X[block], X[chosen])
            for fold in np.unique(fold_n[block]):
                own = fold_n[block] == fold
                scores_nL[block[own]] = kernel_nN[own] @ solved.dual_without(fold_n[chosen] == fold)
        self._store(X[chosen], solved)
        return logit_of(before_nL + scores_nL).astype(np.float32)

    def _store(self, X: Features, solved: Solved) -> None:
        """Put rows behind those that are stored."""
        rows = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if len(self.dual_NL):
            joined = [self.X, rows]
            rows = sparse.csr_matrix(sparse.vstack(joined)) if sparse.issparse(rows) else np.vstack(joined)
        self.X = rows.astype(np.float32)
        self.dual_NL = np.concatenate([self.dual_NL, solved.dual_NL], dtype=np.float32)

    def _targets(self, Y_nL: np.ndarray) -> np.ndarray:
        """Labels in standard deviations, float64; unknown ones are 0."""
        prior = self.prior.astype(np.float64)
        return np.where(np.isnan(Y_nL), 0.0, (Y_nL - prior) / np.sqrt(prior * (1 - prior)))

    def _solved(self, X: Features, targets_nL: np.ndarray, row_n: np.ndarray | None) -> Solved:
        return Solved.of(self._kernel(X, X), self.ridge, targets_nL, row_n)

    def _scores(self, X: Features) -> np.ndarray:
        """Sums over the stored rows, float64 (n, L)."""
        scores_nL = np.zeros((X.shape[0], self.dual_NL.shape[1]))
        dual_NL = self.dual_NL.astype(np.float64)
        for first in range(0, X.shape[0], _BLOCK):
            scores_nL[first : first + _BLOCK] = self._kernel(X[first : first + _BLOCK], self.X) @ dual_NL
        return scores_nL

    def _kernel(self, X: Features, Z: Features) -> np.ndarray:
        """float64 (n, N)."""
        return np.asarray(np.exp(-np.sqrt(squared_distances(X, Z) / self.scale**2 + ROUNDED**2)) + 1.0)

    def _mean_slopes(self, x_F: np.ndarray, stored_NF: np.ndarray, dual_NK: np.ndarray) -> np.ndarray:
        """The gradient (F, K) of the scores, on average over the line from 0 to x."""
        points, shares = np.polynomial.legendre.leggauss(PATH_POINTS)
        points, shares = (points + 1) / 2, shares / 2
        product_N, square_N = stored_NF @ x_F, (stored_NF**2).sum(axis=1)
        square_NQ = points**2 * (x_F @ x_F) - 2 * points * product_N[:, None] + square_N[:, None]
        root_NQ = np.sqrt(np.maximum(square_NQ, 0.0) / self.scale**2 + ROUNDED**2)
        slope_NQ = shares * np.exp(-root_NQ) / (root_NQ * self.scale**2)
        towards_FK = stored_NF.T @ (slope_NQ.sum(axis=1)[:, None] * dual_NK)
        return np.asarray(towards_FK - x_F[:, None] * ((slope_NQ @ points) @ dual_NK))


@dataclass(frozen=True)
class Solved:
    """(kernel + ridge)^-1 of N rows, and what it makes of their targets, both (N, L).

    >>> kernel, targets = np.array([[2.0, 1.5], [1.5, 2.0]]), np.array([[1.0], [-1.0]])
    >>> solved = Solved.of(kernel, 0.5, targets)
    >>> solved.held_out(np.array([0, 1])).round(6).tolist()
    [[-0.6], [0.6]]
    >>> (kernel[:1, 1:] / (2.0 + 0.5) @ targets[1:]).round(6).tolist()
    [[-0.6]]
    """

    inverse_NN: np.ndarray
    targets_NL: np.ndarray
    dual_NL: np.ndarray

    @classmethod
    def of(cls, kernel_NN: np.ndarray, ridge: float, targets_NL: np.ndarray, row_n: np.ndarray | None = None) -> Solved:
        """A row that counts w is the same as w rows: its ridge is 1 / w of the others'."""
        system = torch.tensor(kernel_NN)
        system.diagonal().add_(ridge if row_n is None else torch.as_tensor(ridge / row_n))
        inverse_NN = torch.cholesky_inverse(torch.linalg.cholesky(system)).numpy()
        return cls(inverse_NN, targets_NL, inverse_NN @ targets_NL)

    def held_out(self, fold_N: np.ndarray) -> np.ndarray:
        """The scores (N, L) of each fold by the other folds alone."""
        groups = np.unique(fold_N, return_inverse=True)[1]
        if groups.max() + 1 == len(groups):  # each row alone
            return np.asarray(self.targets_NL - self.dual_NL / self.inverse_NN.diagonal()[:, None])
        scores_NL = self.targets_NL.copy()
        for group in range(groups.max() + 1):
            own = np.flatnonzero(groups == group)
            scores_NL[own] -= np.linalg.solve(self.inverse_NN[np.ix_(own, own)], self.dual_NL[own])
        return scores_NL

    def dual_without(self, left_out_N: np.ndarray) -> np.ndarray:
        """What would be made of the other rows' targets alone, (N, L): 0 in the rows that are left out."""
        if not left_out_N.any():
            return self.dual_NL
        own = np.flatnonzero(left_out_N)
        wrong_oL = np.linalg.solve(self.inverse_NN[np.ix_(own, own)], self.dual_NL[own])
        return np.asarray(self.dual_NL - self.inverse_NN[:, own] @ wrong_oL)


def squared_distances(X: Features, Z: Features) -> np.ndarray:
    """float64 (n, N).

    >>> squared_distances(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0], [3.0, 0.0]])).tolist()
    [[25.0, 0.0]]
    """
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    squares = _squares(X)[:, None] + _squares(Z) - 2 * dense(X @ Z.T)
    return np.asarray(np.maximum(squares, 0.0))


def _squares(X: Features) -> np.ndarray:
    """The squared length of each row."""
    return np.asarray((X.multiply(X) if sparse.issparse(X) else X * X).sum(axis=1)).ravel()


def _helps(correction_nL: np.ndarray, left_nL: np.ndarray) -> bool:
    """Whether less is left with the correction."""
    return bool(((left_nL - correction_nL) ** 2).sum() < (left_nL**2).sum())


def logit_of(score: np.ndarray) -> np.ndarray:
    """A rising function, 0 at 0."""
    return np.asarray(np.arcsinh(STEEPNESS * score))


def _median_distance(X: Features) -> float:
    """Of two different rows; 1 where all are the same."""
    distances = np.sqrt(squared_distances(X, X))
    apart = distances[distances > 1e-6 * max(1.0, float(distances.max(initial=0.0)))]
    return float(np.median(apart)) if len(apart) else 1.0


def _row_weights(weights: Weights | None, rows: np.ndarray) -> np.ndarray | None:
    return None if weights is None else weights.row_n[rows]


def _sample(n: int, most: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])
