"""Label covariance: what the surprise of known labels says about the others.

The residual of a label is its truth minus the probability that the input gives it. Residuals of related labels move
together: their covariance S, estimated from out-of-fold probabilities, is all that the input does not explain. Where
some labels K are known, so are their residuals r_K, and the best linear guess of the others is

    S_iK (S_KK + ridge)^-1 r_K

An expected label that is true says nothing (its residual is small); ten labels that repeat each other count as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from lampnet.base_learners.cooccurrence import sparse_product
from lampnet.data.known_labels import TRUE, UNKNOWN

#: added to the variance of each known label, as a share of it: residuals of few rows are not trusted to the last digit
RIDGE = 0.1
LEAST_VARIANCE = 1e-4
#: of each row, only the known labels with the largest residuals count: the others say next to nothing
MOST_KNOWN = 96
#: probabilities stay this far from 0 and 1 when the guess is turned into a shift of the log-odds
MARGIN = 1e-4


def residual_products(Y_nL: np.ndarray, logits_nL: np.ndarray) -> np.ndarray:
    """The sum over rows of r r^T, float32 (L, L); an unknown label (NaN) has no residual.

    Divided by the number of rows this is S.
    """
    residuals = np.nan_to_num(Y_nL - expit(logits_nL)).astype(np.float32)
    return np.asarray(residuals.T @ residuals)


def covariance_shift(covariance_LL: np.ndarray, logits_BL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
    """The shift of every label's log-odds by what is known, float32 (B, L); 0 for rows with nothing known.

    >>> S = np.array([[0.2, 0.15], [0.15, 0.2]])
    >>> shift = covariance_shift(S, np.zeros((2, 2)), np.array([[1, 0], [-1, 0]]))
    >>> bool(shift[0, 1] > 1), bool(shift[1, 1] < -1)
    (True, True)
    """
    p_BL = expit(logits_BL).astype(np.float32)
    known = _known_residuals(covariance_LL, p_BL, states_BL)
    if known is None:
        return np.zeros(p_BL.shape, dtype=np.float32)
    weight_BK = np.linalg.solve(known.S_BKK, known.r_BK[..., None])[..., 0]
    return _as_shift(p_BL, sparse_product(known.spread(weight_BK), covariance_LL))


def covariance_shift_by_others(covariance_LL: np.ndarray, logits_BL: np.ndarray, states_BL: np.ndarray) -> np.ndarray:
    """The shift of each label by the row's other known labels, float32 (B, L): its own state does not count.

    With P the inverse of S_KK + ridge, the best guess of a known residual from the others is r_i - (P r)_i / P_ii:
    one inverse serves all labels of a row.

    >>> S = np.array([[0.2, 0.15], [0.15, 0.2]])
    >>> shift = covariance_shift_by_others(S, np.zeros((1, 2)), np.array([[1, -1]]))
    >>> bool(shift[0, 0] < -1), bool(shift[0, 1] > 1)
    (True, True)
    """
    p_BL = expit(logits_BL).astype(np.float32)
    known = _known_residuals(covariance_LL, p_BL, states_BL)
    if known is None:
        return np.zeros(p_BL.shape, dtype=np.float32)
    P_BKK = np.linalg.inv(known.S_BKK)
    weight_BK = (P_BKK @ known.r_BK[..., None])[..., 0]
    guess_BL = known.spread(weight_BK) @ covariance_LL
    own_BK = known.r_BK - weight_BK / np.diagonal(P_BKK, axis1=1, axis2=2)
    own_BK = np.where(known.padding_BK, np.take_along_axis(guess_BL, known.chosen_BK, axis=1), own_BK)
    np.put_along_axis(guess_BL, known.chosen_BK, own_BK.astype(np.float32), axis=1)
    return _as_shift(p_BL, guess_BL)


@dataclass(frozen=True)
class _KnownResiduals:
    """Of each row the K known labels with the largest residuals; rows with fewer are padded.

    chosen_BK   their numbers
    padding_BK  where a row has no further known label
    S_BKK       their covariance with the ridge; for padding the identity
    r_BK        their residuals, 0 for padding
    """

    chosen_BK: np.ndarray
    padding_BK: np.ndarray
    S_BKK: np.ndarray
    r_BK: np.ndarray
    n_labels: int

    def spread(self, values_BK: np.ndarray) -> np.ndarray:
        """Values of the chosen labels among all labels, float32 (B, L), 0 elsewhere."""
        values_BL = np.zeros((len(values_BK), self.n_labels), dtype=np.float32)
        np.put_along_axis(values_BL, self.chosen_BK, values_BK.astype(np.float32), axis=1)
        return values_BL


def _known_residuals(covariance_LL: np.ndarray, p_BL: np.ndarray, states_BL: np.ndarray) -> _KnownResiduals | None:
    """None where nothing is known of any row."""
    residual_BL = np.where(states_BL == UNKNOWN, 0.0, (states_BL == TRUE) - p_BL).astype(np.float32)
    most = min(MOST_KNOWN, int((states_BL != UNKNOWN).sum(axis=1).max(initial=0)))
    if not most:
        return None
    # Known labels come before unknown ones also where the residual is 0.
    size_BL = np.where(states_BL == UNKNOWN, -1.0, np.abs(residual_BL))
    chosen_BK = np.argpartition(-size_BL, most - 1, axis=1)[:, :most]
    padding_BK = np.take_along_axis(states_BL, chosen_BK, axis=1) == UNKNOWN
    S_BKK = covariance_LL[chosen_BK[:, :, None], chosen_BK[:, None, :]].astype(np.float64)
    S_BKK[padding_BK[:, :, None] | padding_BK[:, None, :]] = 0.0
    diagonal = np.arange(most)
    variance = S_BKK[:, diagonal, diagonal]
    S_BKK[:, diagonal, diagonal] += np.where(padding_BK, 1.0, RIDGE * variance + LEAST_VARIANCE)
    r_BK = np.take_along_axis(residual_BL, chosen_BK, axis=1)
    return _KnownResiduals(chosen_BK, padding_BK, S_BKK, r_BK, p_BL.shape[1])


def _as_shift(p_BL: np.ndarray, guess_BL: np.ndarray) -> np.ndarray:
    """A guess of the residuals as a shift of the log-odds."""
    moved_BL = np.clip(p_BL + guess_BL, MARGIN, 1 - MARGIN)
    return np.asarray(logit(moved_BL) - logit(np.clip(p_BL, MARGIN, 1 - MARGIN)), dtype=np.float32)
