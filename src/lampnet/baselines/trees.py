"""Multi-label trees: predictive clustering trees (PCT) and ML-C4.5, alone and as forests, by scikit-learn.

A PCT (Blockeel et al. 1998) splits so that the variances of all labels together fall most: scikit-learn's regression
tree of several outputs. ML-C4.5 (Clare and King 2001) splits by the entropies of all labels together: its
classification tree of several outputs with entropy. Both split in two; how far they grow is tuned on validation rows
in place of F-tests and of C4.5's pruning. A forest of PCTs is the baseline `forest`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lampnet.baselines.forest import leaves_within_memory
from lampnet.baselines.rows import check_features, check_labels, held_out_tenth
from lampnet.baselines.tuning import mean_f1

LEAF_SIZES = (1, 2, 5, 10, 20, 50)


class PredictiveClusteringTree:
    """One tree for all labels; `min_samples_leaf=None` tunes it. Where labels are unknown, one tree per label.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 1], [1, 1]] * 5)
    >>> PredictiveClusteringTree().fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])).round().tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, min_samples_leaf: int | None = None, seed: int = 0) -> None:
        self.min_samples_leaf, self.seed = min_samples_leaf, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Self:
        X, Y = check_features(X), check_labels(X, Y)
        given = X_valid is not None and Y_valid is not None
        leaf = self.min_samples_leaf
        if leaf is None:
            if given:
                train, valid = (X, Y), (check_features(X_valid), check_labels(X_valid, Y_valid))
            else:
                learn, tune = held_out_tenth(len(Y), self.seed)
                train, valid = (X[learn], Y[learn]), (X[tune], Y[tune])
            scores = {size: mean_f1(valid[1], self._learn(*train, size)._proba(valid[0])) for size in self._sizes()}
            leaf = max(scores, key=lambda size: scores[size])
        self.tuned_: dict[str, Any] = {"min_samples_leaf": leaf}
        return self._learn(X, Y, leaf)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._proba(check_features(X))

    def _sizes(self) -> tuple[int, ...]:
        return LEAF_SIZES

    def _learn(self, X: Any, Y: np.ndarray, leaf: int) -> Self:
        self.models_: list[Any] = []
        if not np.isnan(Y).any():
            self.models_.append(self._tree(leaf, Y.shape[1]).fit(X, Y if Y.shape[1] > 1 else Y[:, 0]))
            return self
        for y in Y.T:
            known = ~np.isnan(y)
            self.models_.append(self._tree(leaf, 1).fit(X[known], y[known]) if known.any() else None)
        return self

    def _proba(self, X: Any) -> np.ndarray:
        columns = [
            np.full((X.shape[0], 1), 0.5) if model is None else self._positive(model, X) for model in self.models_
        ]
        return np.asarray(np.clip(np.hstack(columns), 0.0, 1.0))

    def _tree(self, leaf: int, outputs: int) -> Any:
        from sklearn.tree import DecisionTreeRegressor

        return DecisionTreeRegressor(min_samples_leaf=leaf, random_state=self.seed)

    def _positive(self, model: Any, X: Any) -> np.ndarray:
        """Probabilities (n, outputs) of one model."""
        return np.asarray(model.predict(X).reshape(X.shape[0], -1))


class MLC45(PredictiveClusteringTree):
    """ML-C4.5: one tree, split by the entropies of all labels together."""

    def _tree(self, leaf: int, outputs: int) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(criterion="entropy", min_samples_leaf=leaf, random_state=self.seed)

    def _positive(self, model: Any, X: Any) -> np.ndarray:
        proba = model.predict_proba(X)
        proba, classes = (proba, model.classes_) if isinstance(proba, list) else ([proba], [model.classes_])
        # A label that is never or always there in training has one class only.
        columns = [
            p[:, list(c).index(1.0)] if 1.0 in c else np.zeros(len(p)) for p, c in zip(proba, classes, strict=True)
        ]
        return np.stack(columns, axis=1)


class RFMLC45(MLC45):
    """RFML-C4.5: a random forest of ML-C4.5 trees."""

    def __init__(
        self, trees: int = 100, min_samples_leaf: int | None = None, jobs: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(min_samples_leaf, seed)
        self.trees, self.jobs = trees, jobs

    def _sizes(self) -> tuple[int, ...]:
        return (1, 5)

    def _tree(self, leaf: int, outputs: int) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            n_estimators=self.trees,
            criterion="entropy",
            min_samples_leaf=leaf,
            max_leaf_nodes=leaves_within_memory(2 * outputs, self.trees),
            n_jobs=self.jobs,
            random_state=self.seed,
        )
