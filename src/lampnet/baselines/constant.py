"""The constant guess: every row gets the label priors of the training rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lampnet.baselines.rows import check_labels, label_shares, row_count


class LabelPriors:
    """Ignores the row; any useful model must score higher.

    >>> model = LabelPriors().fit(np.zeros((4, 1)), np.array([[1, 0], [1, 0], [0, np.nan], [0, 1]]))
    >>> model.predict_proba(np.zeros((1, 1))).round(2).tolist()
    [[0.5, 0.33]]
    """

    tuned_: ClassVar[dict[str, Any]] = {}

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> LabelPriors:
        self.priors_ = label_shares(check_labels(X, Y))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile(self.priors_, (row_count(X), 1))
