"""What every base learner does: fit out-of-fold, predict logits, store plain arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Features = Any  # CSR or dense (n, F)


FOLDS = 8


class BaseLearner(Protocol):
    """One quick model: logits for all labels at once."""

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        """Learn from all rows; return out-of-fold logits (n, L).

        Rows of one fold have no say about each other. Without `fold_n` (n,) an learner keeps a row from judging
        itself in its own way: random folds, leaving it out, trees that did not draw it.
        """
        ...

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        """Learn again, from more rows, with the settings that `fit` chose."""
        ...

    def logits(self, X: Features) -> np.ndarray: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...
