"""Methods made of linear models whose strength C is tuned: what they share.

A method says how it learns from scaled features for a given C (`_learn`) and what it predicts then (`_predict`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.scaling import Scaling
from lampnet.baselines.tuning import C_GRID, climb, mean_f1


class TunedLinear(ABC):
    """`C=None` tunes the inverse strength of regularisation on validation rows, or on a tenth of the training rows."""

    def __init__(self, C: float | None = None, seed: int = 0) -> None:
        self.C, self.seed = C, seed

    @abstractmethod
    def _learn(self, X: Any, Y: np.ndarray, C: float) -> Any:
        """What was learned from scaled features and labels of 0, 1 and NaN."""

    @abstractmethod
    def _predict(self, learned: Any, X: Any) -> np.ndarray:
        """Probabilities (n, L) of scaled features."""

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Self:
        self.scaling_ = Scaling(X)
        X, Y = self.scaling_(X), check_labels(X, Y)
        given = X_valid is not None and Y_valid is not None
        if given:
            train_X, train_Y = X, Y
            valid_X, valid_Y = self.scaling_(X_valid), check_labels(X_valid, Y_valid)
        else:
            learn, tune = held_out_tenth(len(Y), self.seed)
            train_X, train_Y, valid_X, valid_Y = X[learn], Y[learn], X[tune], Y[tune]
        tried: dict[float, Any] = {}

        def score(C: float) -> float:
            tried[C] = self._learn(train_X, train_Y, C)
            return mean_f1(valid_Y, self._predict(tried[C], valid_X))

        if self.C is not None:
            self.C_ = float(self.C)
        else:
            # Standardised numbers need stronger regularisation than tf-idf, and converge slowly without it.
            usual = 3.0 if self.scaling_.sparse else 0.03
            self.C_ = climb(score, C_GRID, usual) if np.isfinite(valid_Y).any() else usual
        self.tuned_: dict[str, Any] = {"C": self.C_}
        self.learned_ = tried[self.C_] if given and self.C_ in tried else self._learn(X, Y, self.C_)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._predict(self.learned_, self.scaling_(X))


#: weights (F, K) and intercepts (K,) of K classes
ClassModel = tuple[np.ndarray, np.ndarray]


def fit_classes(X: Any, classes: np.ndarray, C: float, seed: int) -> ClassModel:
    """Multinomial logistic regression on int classes (n,), numbered from 0; a single class is certain."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if int(classes.max()) == 0:
        return np.zeros((X.shape[1], 1)), np.zeros(1)
    with warnings.catch_warnings():
        # A model that has not fully converged is still the one that a user would get.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=C, max_iter=200, random_state=seed).fit(X, classes)
    if len(model.classes_) == 2:  # scikit-learn keeps the second column only
        return np.hstack([np.zeros_like(model.coef_.T), model.coef_.T]), np.array([0.0, model.intercept_[0]])
    return model.coef_.T, model.intercept_


def class_probabilities(model: ClassModel, X: Any) -> np.ndarray:
    """float (n, K)"""
    weights, intercepts = model
    return np.asarray(softmax(np.asarray(X @ weights) + intercepts, axis=1))
