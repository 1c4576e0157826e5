"""FastXML (Prabhu and Varma 2014): trees whose nodes rank the labels of their rows as well as they can.

A node divides its rows in two so that the sum of nDCG over both sides is largest: each side orders all labels by the
gains of its rows, each row goes to the side that ranks its labels higher, and so on until nothing changes. A sparse
linear classifier (logistic loss, L1) then learns that division from the features. Leaves keep the mean of their rows'
labels, and trees are averaged.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.scaling import Scaling
from lampnet.baselines.tuning import mean_f1

STRENGTHS = (0.3, 1.0, 3.0)
_ROUNDS = 50


@dataclass
class _Split:
    """Rows with x w + b > 0 go right. A leaf has no weights, and its number instead."""

    weights: sparse.csc_matrix | None
    intercept: float = 0.0
    left: int = -1
    right: int = -1
    leaf: int = -1


class FastXML:
    """`trees` trees with leaves of at most `leaf_rows` rows; C, the strength of the node classifiers, is tuned.

    Unknown labels count as absent.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 9), np.array([[0, 1], [0, 1], [1, 0], [1, 0]] * 9)
    >>> FastXML(trees=5, C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, trees: int = 50, leaf_rows: int = 10, C: float | None = None, seed: int = 0) -> None:
        self.trees, self.leaf_rows, self.C, self.seed = trees, leaf_rows, C, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Self:
        self.scaling_ = Scaling(X)
        X, Y = self._features(X), check_labels(X, Y)
        best = self.C
        if best is None:
            if X_valid is not None and Y_valid is not None:
                train, valid = (X, Y), (self._features(X_valid), check_labels(X_valid, Y_valid))
            else:
                learn, tune = held_out_tenth(len(Y), self.seed)
                train, valid = (X[learn], Y[learn]), (X[tune], Y[tune])
            few = max(1, self.trees // 5)  # as good a guide as all of them
            scores = {}
            for C in STRENGTHS:
                self._grow(*train, C, few)
                scores[C] = mean_f1(valid[1], self._proba(valid[0]))
            best = max(scores, key=lambda C: scores[C])
        self.tuned_: dict[str, Any] = {"C": best}
        self._grow(X, Y, best, self.trees)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._proba(self._features(X))

    def _features(self, X: Any) -> sparse.csr_matrix:
        return sparse.csr_matrix(self.scaling_(X))

    def _grow(self, X: sparse.csr_matrix, Y: np.ndarray, C: float, trees: int) -> None:
        labels = sparse.csr_matrix(np.nan_to_num(Y))
        self.n_labels_ = Y.shape[1]
        grown = [self._tree(X, labels, C, np.random.default_rng((self.seed, number))) for number in range(trees)]
        self.splits_ = [splits for splits, _ in grown]
        self.leaves_ = [leaves for _, leaves in grown]

    def _tree(
        self, X: sparse.csr_matrix, labels: sparse.csr_matrix, C: float, rng: np.random.Generator
    ) -> tuple[list[_Split], np.ndarray]:
        """The splits, root first, and the leaves' mean labels (leaves, L)."""
        splits: list[_Split] = [_Split(None)]
        leaves: list[np.ndarray] = []
        waiting = [(0, np.arange(X.shape[0]))]
        while waiting:
            number, rows = waiting.pop()
            divided = None if len(rows) <= self.leaf_rows else self._divide(X[rows], labels[rows], C, rng)
            if divided is None:
                splits[number].leaf = len(leaves)
                leaves.append(np.asarray(labels[rows].mean(axis=0)).ravel().astype(np.float32))
                continue
            splits[number].weights, splits[number].intercept, goes_right = divided
            splits[number].left, splits[number].right = len(splits), len(splits) + 1
            splits += [_Split(None), _Split(None)]
            waiting += [(splits[number].left, rows[~goes_right]), (splits[number].right, rows[goes_right])]
        return splits, np.stack(leaves)

    def _divide(
        self, X: sparse.csr_matrix, labels: sparse.csr_matrix, C: float, rng: np.random.Generator
    ) -> tuple[sparse.csc_matrix, float, np.ndarray] | None:
        """Weights (F, 1), intercept and which rows go right; None where the rows cannot be divided."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        right = ndcg_division(labels, rng)
        if right.all() or not right.any():
            return None
        model = LogisticRegression(
            l1_ratio=1.0, C=C, solver="liblinear", max_iter=20, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a rough division is refined further down
            model.fit(X, right)
        weights, intercept = sparse.csc_matrix(model.coef_.T), float(model.intercept_[0])
        goes_right = np.asarray((X @ weights).toarray()).ravel() + intercept > 0
        return None if goes_right.all() or not goes_right.any() else (weights, intercept, goes_right)

    def _proba(self, X: sparse.csr_matrix) -> np.ndarray:
        total = np.zeros((X.shape[0], self.n_labels_))
        for splits, leaves in zip(self.splits_, self.leaves_, strict=True):
            waiting = [(0, np.arange(X.shape[0]))]
            while waiting:
                number, rows = waiting.pop()
                split = splits[number]
                if not len(rows):
                    continue
                if split.weights is None:
                    total[rows] += leaves[split.leaf]
                    continue
                goes_right = np.asarray((X[rows] @ split.weights).toarray()).ravel() + split.intercept > 0
                waiting += [(split.left, rows[~goes_right]), (split.right, rows[goes_right])]
        return np.asarray(total / len(self.splits_))


def ndcg_division(labels: sparse.csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Which rows go right, bool (n,): a local maximum of the sum of nDCG of the rows' labels on their sides.

    labels  CSR (n, L) of ones
    """
    n, n_labels = labels.shape
    counts = np.diff(labels.indptr)
    discount = 1 / np.log2(np.arange(n_labels) + 2)
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[counts]
    gains = sparse.diags(np.where(counts > 0, 1 / np.where(counts > 0, ideal, 1.0), 0.0)) @ labels
    right = rng.random(n) < 0.5
    for _ in range(_ROUNDS):
        left_worth, right_worth = (gains @ _discounts(gains, side, discount) for side in (~right, right))
        level = left_worth == right_worth
        if level.all():  # both sides rank alike: another random division may not
            right = rng.random(n) < 0.5
            continue
        moved = np.where(level, right, right_worth > left_worth)
        if (moved == right).all():
            break
        right = moved
    return np.asarray(right)


def _discounts(gains: sparse.csr_matrix, rows: np.ndarray, discount: np.ndarray) -> np.ndarray:
    """For each label the discount of its place in the best ranking of these rows, (L,)."""
    total = np.asarray(gains[rows].sum(axis=0)).ravel()
    # Labels that none of the rows has share no place: they are worth nothing here.
    order = np.argsort(-total, kind="stable")
    placed = np.zeros_like(discount)
    placed[order] = discount
    placed[total == 0] = 0.0
    return placed
