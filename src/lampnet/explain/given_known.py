"""What known labels change about predicted rows, and what they would: p(label | input, known labels)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States, nothing_known
from lampnet.evaluation.rules import Rule
from lampnet.explain.attention import PredictedRows
from lampnet.inference.match_schema import known_states
from lampnet.inference.predictor import FittedModel


@dataclass(frozen=True)
class GivenKnown:
    """Predicted rows given what is known of their labels.

    logits  float32 (n, L), of the input alone
    states  see `data/known_labels.py`
    given_logits  float32 (n, L), given what is known
    proba   float32 (n, L), given what is known
    chosen  bool (n, L), the label sets
    """

    model: FittedModel
    logits: np.ndarray
    states: States
    given_logits: np.ndarray
    proba: np.ndarray
    chosen: np.ndarray

    @classmethod
    def of(cls, predicted: PredictedRows, rule: Rule, metric: str) -> GivenKnown:
        """With what the rows say of their labels; `rule` decides where they say nothing."""
        model, logits, proba = predicted.model, predicted.logits, predicted.proba
        states = known_states(model, predicted.data)
        chosen = rule.apply(proba)
        if states is None:
            return cls(model, logits, nothing_known(*proba.shape), logits, proba, chosen)
        states = model.implied(states)
        some = (states != UNKNOWN).any(axis=1)
        given = np.where(some[:, None], model.proba_given(logits, states), proba)
        decided = np.where(some[:, None], model.decided(metric, given, states), chosen)
        return cls(model, logits, states, model.given_known().logits(logits, states), given, decided)

    def any_known(self, row: int) -> bool:
        return bool((self.states[row] != UNKNOWN).any())

    def known_true(self, row: int) -> list[int]:
        """Numbers of the labels of one row that are known to be true: they are always shown."""
        return np.flatnonzero(self.states[row] == TRUE).tolist() if self.any_known(row) else []

    def known(self, row: int, index: np.ndarray) -> np.ndarray | None:
        """States (K,) of the labels `index`, int (K,); None where nothing is known of the row."""
        return self.states[row, index] if self.any_known(row) else None

    def what_if(self, row: int, index: np.ndarray) -> np.ndarray | None:
        """Probabilities float32 (K, 2, K) of the labels `index`, int (K,), if each were known to be true, and false.

        Entry [i, 0, j] is that of label j if label i were true, [i, 1, j] if it were false.
        """
        if self.model.conditional is None:
            return None
        states = np.repeat(self.states[row][None], 2 * len(index), axis=0)
        states[np.arange(0, len(states), 2), index] = TRUE
        states[np.arange(1, len(states), 2), index] = FALSE
        logits = np.repeat(self.logits[row][None], len(states), axis=0)
        proba = self.model.given_known().proba(logits, states)  # a label above a known one stays true
        return np.asarray(proba[:, index].reshape(len(index), 2, len(index)))
