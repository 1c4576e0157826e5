"""What each shift by known labels counts, by how much is known of a row.

One known label says something else than half of all labels: the shifts overlap more as more is known, labels that are
left unknown are fewer of the true ones, and what the input says counts less. So every weight is a sum over a few
numbers that say how much is known, and besides the shifts the input's own logit and a constant have weights, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States
from lampnet.errors import ModelFolderError

#: beyond this many known true labels, more of them change no weight
MOST_TRUE = 8
#: what a shift may count (less than nothing where another one says the same), and what is added to the weight 1 of the
#: input's logit
LEAST_WEIGHT, MOST_WEIGHT = -1.0, 2.0
LEAST_SLOPE, MOST_SLOPE = -0.8, 1.0
#: how many numbers `how_known` gives
N_HOW = 4


def how_known(states_BL: States) -> np.ndarray:
    """How much is known of each row, float32 (B, 4): 1; doublings of known true labels; share known; any refused.

    >>> how_known(np.array([[1, 1, 1, 1] + [0] * 12, [-1] * 4 + [0] * 12])).round(2).tolist()
    [[1.0, 1.0, 0.5, 0.0], [1.0, 0.0, 0.5, 1.0]]
    """
    true_B, false_B = (states_BL == TRUE).sum(axis=1), (states_BL == FALSE).sum(axis=1)
    doublings_B = np.log2(np.clip(true_B, 1, MOST_TRUE)) / 2
    share_B = np.sqrt((true_B + false_B) / states_BL.shape[1])
    return np.stack([np.ones(len(states_BL)), doublings_B, share_B, false_B > 0], axis=1).astype(np.float32)


@dataclass(frozen=True)
class ShiftWeights:
    """The weights of the input's logit beyond 1, of a constant, and of each shift.

    table_PC  float32 (P, 2 + C): what each number of `how_known` adds to each weight
    """

    table_PC: np.ndarray

    @property
    def n_shifts(self) -> int:
        return int(self.table_PC.shape[1]) - 2

    def without_sets(self) -> ShiftWeights:
        """For tables without label sets, whose shift is the last."""
        return ShiftWeights(self.table_PC[:, :4])

    def of_rows(self, states_BL: States) -> np.ndarray:
        """The weights of each row, float32 (B, 2 + C), between their bounds."""
        low, high = bounds(self.n_shifts)
        return np.asarray(np.clip(how_known(states_BL) @ self.table_PC, low, high), dtype=np.float32)

    def parts(self, logits_BL: np.ndarray, shifts_BLC: np.ndarray, states_BL: States) -> np.ndarray:
        """What is added to the logits (B, L, 1 + C): by how much is known, and by each shift.

        Nothing is added to rows about which nothing is known.

        >>> weights = ShiftWeights(np.array([[-0.1, 0.2, 0.5]] + [[0.0] * 3] * 3, np.float32))
        >>> weights.parts(np.array([[2.0, 0.0]]), np.ones((1, 2, 1)), np.array([[0, 1]])).round(3).tolist()
        [[[0.0, 0.5], [0.2, 0.5]]]
        """
        weight_BC = self.of_rows(states_BL) * (states_BL != UNKNOWN).any(axis=1, keepdims=True)
        by_number_BL = weight_BC[:, :1] * logits_BL + weight_BC[:, 1:2]
        return np.concatenate([by_number_BL[..., None], shifts_BLC * weight_BC[:, None, 2:]], axis=-1)

    def shifted(self, logits_BL: np.ndarray, shifts_BLC: np.ndarray, states_BL: States) -> np.ndarray:
        """The logits with all parts, float32 (B, L). Only how much is known counts of the states."""
        added_BL = self.parts(logits_BL, shifts_BLC, states_BL).sum(axis=-1)
        return np.asarray(logits_BL + added_BL, dtype=np.float32)

    @classmethod
    def restore(cls, table: np.ndarray | None, n_shifts: int) -> ShiftWeights:
        """The stored table, checked: the folder is untrusted. Older models have one number for each shift."""
        if table is not None and table.dtype == np.float32 and np.isfinite(table).all():
            if table.shape == (n_shifts,):
                made = np.zeros((N_HOW, 2 + n_shifts), dtype=np.float32)
                made[0, 2:] = table
                return cls(made)
            if table.shape == (N_HOW, 2 + n_shifts):
                return cls(table)
        raise ModelFolderError("what the shifts by known labels count is damaged; train or copy the model again")


def bounds(n_shifts: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of each weight, float32 (2 + C,)."""
    low = [LEAST_SLOPE, -np.inf, *[LEAST_WEIGHT] * n_shifts]
    high = [MOST_SLOPE, np.inf, *[MOST_WEIGHT] * n_shifts]
    return np.array(low, dtype=np.float32), np.array(high, dtype=np.float32)
