"""The constant guess: every row gets the label priors of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.baselines.rows import check_labels, row_count


class LabelFrequencies:
    """Knows nothing of the row; what a score is worth shows only beside it.

    >>> model = LabelFrequencies().fit(np.zeros((4, 1)), np.array([[1, 0], [1, 0], [0, np.nan], [0, 1]]))
    >>> model.predict_proba(np.zeros((1, 1))).round(2).tolist()
    [[0.5, 0.33]]
    """

    frequencies_: np.ndarray

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> LabelFrequencies:
        Y = check_labels(X, Y)
        known = (~np.isnan(Y)).sum(axis=0)
        self.frequencies_ = np.nansum(Y, axis=0) / np.maximum(known, 1)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self.frequencies_, (row_count(X), 1))
