"""What the labels' names say: how near a text is to each label's name or description, by a pretrained encoder.

Nothing is learned from labelled rows, so the logits of training rows need no folds, and a label that no row has yet is
found by its name alone. Rare labels gain most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.base_learners.protocol import QUIET, Features, FitContext, OnProgress, no_progress
from lampnet.data.weights import Weights

#: the logit that a text gains where it means what the name means
NAME_LOGIT = 8.0


def words_of(name: str) -> str:
    """A label's name as it would be written in a text.

    >>> words_of("interest-rates_up")
    'interest rates up'
    """
    return " ".join(name.replace("_", " ").replace("-", " ").split())


class LabelNameLearner:
    """logit = `NAME_LOGIT` * cosine of the text's state and that of the label's name, both of length one.

    >>> learner = LabelNameLearner()
    >>> learner.name_labels(np.eye(2, dtype=np.float32))
    >>> learner.logits(np.array([[0.5, 1.0]], dtype=np.float32)).tolist()
    [[4.0, 8.0]]
    """

    def __init__(self) -> None:
        self.states_LH = np.zeros((0, 0), dtype=np.float32)

    def name_labels(self, states_LH: np.ndarray) -> None:
        """The states of the labels' names, of length one; a label without words has zeros, as have all before this."""
        self.states_LH = np.asarray(states_LH, dtype=np.float32)

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        weights: Weights | None = None,
    ) -> np.ndarray:
        if not self.states_LH.size:
            self.states_LH = np.zeros((Y_nL.shape[1], X.shape[1]), dtype=np.float32)
        context.progress(0.5, "label names")
        return self.logits(X)

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        """Labels that are new have no name here until the next training."""
        self.states_LH = np.pad(self.states_LH, ((0, Y_nL.shape[1] - len(self.states_LH)), (0, 0)))
        return self.logits(X)

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        """Names stay what they are."""

    def add_silent_label(self, prior: float) -> None:
        """One more label, whose name says nothing."""
        self.states_LH = np.pad(self.states_LH, ((0, 1), (0, 0)))

    def regroup(self, groups: Sequence[Sequence[int]]) -> None:
        """Labels that are the mean of some labels before."""
        self.states_LH = np.stack([self.states_LH[list(group)].mean(axis=0) for group in groups])

    def logits(self, X: Features) -> np.ndarray:
        found = X @ (NAME_LOGIT * self.states_LH.T)
        return np.asarray(found, dtype=np.float32)

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> FeatureTerms:
        rows = sparse.csr_matrix(X[rows_n])
        added_EK = rows.data[:, None] * (NAME_LOGIT * self.states_LH[labels_K].T.astype(np.float64))[rows.indices]
        return FeatureTerms(np.zeros((rows.shape[0], len(labels_K))), rows.indptr, rows.indices, added_EK)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"states": self.states_LH}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.states_LH = arrays["states"]
