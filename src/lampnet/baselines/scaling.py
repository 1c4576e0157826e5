"""Features as linear models want them: sparse ones as they are, dense ones standardised on the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lampnet.baselines.rows import check_features

MOSTLY_ZEROS = 0.25


class Scaling:
    """What the training rows say about the features; calling it brings other rows to the same scale.

    >>> Scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[3.0, 5.0]])).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, X: Any) -> None:
        X = check_features(X)
        # Mostly zeros, such as fingerprints, become sparse: on dense ones liblinear takes minutes per label.
        self.sparse = bool(sparse.issparse(X) or np.mean(X != 0) < MOSTLY_ZEROS)
        self.mean = np.zeros(0) if self.sparse else X.mean(axis=0)
        spread = np.ones(0) if self.sparse else X.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)

    def __call__(self, X: Any) -> Any:
        X = check_features(X)
        return sparse.csr_matrix(X) if self.sparse else (X - self.mean) / self.spread
