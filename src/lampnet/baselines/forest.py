"""Random forest: one forest for all labels, or one per label where some labels are unknown."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lampnet.baselines.rows import check_features, check_labels

#: Numbers that all leaves together may hold; with many labels, trees get fewer leaves.
_MOST_NUMBERS = 120_000_000


class Forest:
    """scikit-learn's forest; a leaf's mean labels are its probabilities.

    A regression forest on 0/1 labels splits as a Gini forest does and keeps half the numbers.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 1], [1, 1]] * 5)
    >>> Forest(trees=10).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])).round().tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    tuned_: ClassVar[dict[str, Any]] = {}

    def __init__(self, trees: int = 100, min_samples_leaf: int = 1, jobs: int | None = None, seed: int = 0) -> None:
        self.trees, self.min_samples_leaf, self.jobs, self.seed = trees, min_samples_leaf, jobs, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Forest:
        X, Y = check_features(X), check_labels(X, Y)
        self.n_labels_ = Y.shape[1]
        if not np.isnan(Y).any():
            self.models_: list[Any] = [self._forest(Y.shape[1]).fit(X, Y if Y.shape[1] > 1 else Y[:, 0])]
            return self
        self.models_ = []
        for y in Y.T:
            known = ~np.isnan(y)
            self.models_.append(self._forest(1).fit(X[known], y[known]) if known.any() else None)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        X = check_features(X)
        columns = [
            np.full((X.shape[0], 1), 0.5) if model is None else model.predict(X).reshape(X.shape[0], -1)
            for model in self.models_
        ]
        return np.asarray(np.clip(np.hstack(columns), 0.0, 1.0))

    def _forest(self, outputs: int) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(
            n_estimators=self.trees,
            max_features="sqrt",
            min_samples_leaf=self.min_samples_leaf,
            max_leaf_nodes=leaves_within_memory(outputs, self.trees),
            n_jobs=self.jobs,
            random_state=self.seed,
        )


def leaves_within_memory(numbers: int, trees: int) -> int | None:
    """How many leaves a tree may have when its nodes keep this many numbers each; None where any tree fits.

    >>> leaves_within_memory(159, 100), leaves_within_memory(983, 100)
    (3773, 610)
    """
    leaves = _MOST_NUMBERS // (2 * trees * numbers)
    return max(2, leaves) if leaves < 10_000 else None
