"""Co-occurrence: how far a label that is known to be true shifts the log-odds of every other label.

For a true label j the log-odds of label i move by

    D_ji = log-odds P(i | j) - log-odds P(i)

with P(i | j) smoothed by two pseudo-counts at the prior. Several known labels repeat each other, so the sum of their
shifts is divided by the root of their number. What the shift is worth is learned later.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from lampnet.data.known_labels import TRUE
from lampnet.data.label_priors import smoothed_share

PSEUDO_COUNTS = 2.0


class Counts:
    """How often labels are true, and true together; NaN in Y is unknown and does not count.

    true_L    rows with label i
    known_L   rows where label i is known
    both_LL   rows with labels j and i
    given_LL  rows with label j where label i is known
    """

    def __init__(self, Y_nL: np.ndarray) -> None:
        known = ~np.isnan(Y_nL)
        Y = np.nan_to_num(Y_nL).astype(np.float32)
        self.true_L, self.known_L = Y.sum(axis=0), known.sum(axis=0).astype(np.float32)
        self.both_LL = Y.T @ Y
        all_known = bool(known.all())
        self.given_LL = np.repeat(self.true_L[:, None], Y.shape[1], 1) if all_known else Y.T @ known.astype(np.float32)

    def without(self, other: Counts) -> Counts:
        """The counts of the rows that are not among the other's."""
        left = object.__new__(Counts)
        for name, counted in vars(self).items():
            setattr(left, name, counted - getattr(other, name))
        return left


def log_odds_shifts(counts: Counts) -> np.ndarray:
    """D_ji, float32 (L, L): the shift of label i (column) where label j (row) is true; 0 on the diagonal.

    >>> Y = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]])
    >>> shifts = log_odds_shifts(Counts(Y))
    >>> bool(shifts[0, 1] > 0.5), bool(shifts[0, 2] < -0.5), float(shifts[0, 0])
    (True, True, 0.0)
    """
    prior_L = smoothed_share(counts.true_L, counts.known_L, np.float64)
    share_LL = (counts.both_LL + PSEUDO_COUNTS * prior_L) / (counts.given_LL + PSEUDO_COUNTS)
    shifts = logit(share_LL) - logit(prior_L)
    np.fill_diagonal(shifts, 0.0)
    return np.asarray(shifts, dtype=np.float32)


def cooccurrence_shift(shifts_LL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
    """The shift of every label's log-odds by the labels that are known to be true, float32 (B, L)."""
    true_BL = (states_BL == TRUE).astype(np.float32)
    known_B1 = np.maximum(1.0, true_BL.sum(axis=1, keepdims=True))
    return np.asarray(sparse_product(true_BL, shifts_LL) / np.sqrt(known_B1), dtype=np.float32)


def sparse_product(values_BL: np.ndarray, table_LL: np.ndarray) -> np.ndarray:
    """values @ table, over the labels that are not 0 in every row where these are few: one row knows few labels.

    >>> sparse_product(np.array([[0, 2, 0, 0, 0]]), np.arange(10).reshape(5, 2)).tolist()
    [[4, 6]]
    """
    used = np.flatnonzero(values_BL.any(axis=0))
    if 4 * len(used) < len(table_LL):
        values_BL, table_LL = values_BL[:, used], table_LL[used]
    return np.asarray(values_BL @ table_LL)


def cooccurrence_shift_by_others(shifts_LL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
    """The shift of each label by the row's other labels, float32 (B, L): whether it is itself known does not count."""
    true_BL = (states_BL == TRUE).astype(np.float32)
    others_BL = np.maximum(1.0, true_BL.sum(axis=1, keepdims=True) - true_BL)
    return np.asarray(true_BL @ shifts_LL / np.sqrt(others_BL), dtype=np.float32)  # the table's diagonal is 0
