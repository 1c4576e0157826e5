"""The interface of every base learner: fit out-of-fold, predict logits, store plain arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Features = Any  # CSR or dense (n, F)
FOLDS = 8


class BaseLearner(Protocol):
    """One quick model that predicts all labels at once."""

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        """Fit on all rows; return out-of-fold logits (n, L).

        Rows with the same `fold_n` (n,) do not influence each other's logits. Without `fold_n`, each learner leaves a
        row out in its own way: random folds, leave-one-out, or trees whose bootstrap sample lacks the row.
        """

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        """Fit again, on more rows, with the hyperparameters that `fit` chose."""

    def logits(self, X: Features) -> np.ndarray:
        """Logits of new rows, float32 (n, L)."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, for the model folder."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `arrays` returned."""
