"""One linear model per label: logistic regression and linear SVM, as scikit-learn users run them.

C is tuned on validation rows. Sparse features are used as they are (tf-idf); dense ones are standardised on the
training rows, unless they are mostly zeros.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import expit, logit

from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.scaling import Scaling
from lampnet.baselines.tuning import C_GRID, climb, mean_f1


class OneVsRestLogistic:
    """liblinear's logistic regression for each label; `C=None` tunes it.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 1], [1, 1]] * 5)
    >>> (OneVsRestLogistic(C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])) > 0.5).astype(int).tolist()
    [[0, 1], [1, 1]]
    """

    #: slope and shift from scores to log-odds; None where `fit` chooses them
    sigmoid: tuple[float, float] | None = (1.0, 0.0)

    def __init__(self, C: float | None = None, seed: int = 0) -> None:
        self.C, self.seed = C, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Any:
        self.scaling_ = Scaling(X)
        X, Y = self.scaling_(X), check_labels(X, Y)
        train_X, train_Y = X, Y
        sampled = X_valid is None or Y_valid is None
        if sampled:
            learn, tune = held_out_tenth(len(Y), self.seed)
            train_X, train_Y, valid_X, valid_Y = X[learn], Y[learn], X[tune], Y[tune]
        else:
            valid_X, valid_Y = self.scaling_(X_valid), check_labels(X_valid, Y_valid)
        fitted: dict[float, tuple[np.ndarray, np.ndarray, tuple[float, float]]] = {}

        def score(C: float) -> float:
            weights, intercepts = self._fit_labels(train_X, train_Y, C)
            scores = self._scores(valid_X, weights, intercepts)
            sigmoid = self.sigmoid or platt(scores, valid_Y)
            fitted[C] = weights, intercepts, sigmoid
            return mean_f1(valid_Y, expit(sigmoid[0] * scores + sigmoid[1]))

        if self.C is not None:
            self.C_ = float(self.C)
            if self.sigmoid is None:
                score(self.C_)
        else:
            # Standardised numbers need stronger regularisation than tf-idf, and converge slowly without it.
            usual = 3.0 if self.scaling_.sparse else 0.03
            self.C_ = climb(score, C_GRID, usual) if np.isfinite(valid_Y).any() else usual
        self.sigmoid_ = fitted[self.C_][2] if self.C_ in fitted else self.sigmoid or (1.0, 0.0)
        self.tuned_: dict[str, Any] = {"C": self.C_}
        if sampled or self.C_ not in fitted:
            self.weights_, self.intercepts_ = self._fit_labels(X, Y, self.C_)
        else:
            self.weights_, self.intercepts_ = fitted[self.C_][:2]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, L)."""
        return self._scores(self.scaling_(X), self.weights_, self.intercepts_)

    def predict_proba(self, X: Any) -> np.ndarray:
        slope, shift = self.sigmoid_
        return np.asarray(expit(slope * self.decision_function(X) + shift))

    def _scores(self, X: Any, weights: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
        return np.asarray(np.asarray(X @ weights) + intercepts)

    def _fit_labels(self, X: Any, Y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
        weights, intercepts = np.zeros((X.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
        for label in range(Y.shape[1]):
            weights[:, label], intercepts[label] = fit_one_label(X, Y[:, label], self._estimator(C))
        return weights, intercepts

    def _estimator(self, C: float) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=C, solver="liblinear", random_state=self.seed)


class OneVsRestSVM(OneVsRestLogistic):
    """Linear SVM for each label; one sigmoid for all labels, fitted on validation rows, gives probabilities.

    sigmoid  its slope and shift; by default fitted
    """

    def __init__(self, C: float | None = None, seed: int = 0, sigmoid: tuple[float, float] | None = None) -> None:
        super().__init__(C, seed)
        self.sigmoid = sigmoid

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Any:
        super().fit(X, Y, X_valid, Y_valid)
        self.tuned_["sigmoid"] = self.sigmoid_
        return self

    def _estimator(self, C: float) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(C=C, random_state=self.seed)


def fit_one_label(X: Any, y: np.ndarray, estimator: Any) -> tuple[np.ndarray, float]:
    """Weights (F,) and intercept from the rows where y is known; a constant label gets its prior log-odds."""
    from sklearn.exceptions import ConvergenceWarning

    known = ~np.isnan(y)
    if not known.all():
        X, y = X[known], y[known]
    positives = float(y.sum())
    if positives in (0.0, float(len(y))):  # liblinear needs two classes
        return np.zeros(X.shape[1]), float(logit((positives + 0.5) / (len(y) + 1.0)))
    with warnings.catch_warnings():
        # A label that has not fully converged still gives the model that a user would get.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, y)
    return estimator.coef_[0], float(estimator.intercept_[0])


def platt(scores: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Slope and shift of the sigmoid that best turns all labels' scores into probabilities (Platt 1999)."""
    from sklearn.linear_model import LogisticRegression

    known = ~np.isnan(Y)
    truth = Y[known]
    if not known.any() or truth.min() == truth.max():
        return 1.0, 0.0
    model = LogisticRegression(C=1e6).fit(scores[known][:, None], truth)
    # A falling sigmoid would reverse the ranking, which a few noisy rows must not do.
    return max(float(model.coef_[0, 0]), 1e-3), float(model.intercept_[0])
