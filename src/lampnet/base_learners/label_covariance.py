"""Label covariance: what the surprise of known labels says about the others.

The residual of a label is its truth minus the probability that the input gives it. Residuals of related labels move
together: their covariance S, estimated from out-of-fold probabilities, is all that the input does not explain. Where
some labels K are known, so are their residuals r_K, and the best linear guess of the others is

    S_iK (S_KK + ridge)^-1 r_K

An expected label that is true says nothing (its residual is small); ten labels that repeat each other count as one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

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
    residual_BL = np.where(states_BL == UNKNOWN, 0.0, (states_BL == TRUE) - p_BL).astype(np.float32)
    most = min(MOST_KNOWN, int((states_BL != UNKNOWN).sum(axis=1).max(initial=0)))
    shift_BL = np.zeros(p_BL.shape, dtype=np.float32)
    if not most:
        return shift_BL
    chosen_BK = np.argpartition(-np.abs(residual_BL), most - 1, axis=1)[:, :most]
    padding_BK = np.take_along_axis(states_BL, chosen_BK, axis=1) == UNKNOWN
    S_BKK = covariance_LL[chosen_BK[:, :, None], chosen_BK[:, None, :]].astype(np.float64)
    S_BKK[padding_BK[:, :, None] | padding_BK[:, None, :]] = 0.0
    diagonal = np.arange(most)
    variance = S_BKK[:, diagonal, diagonal]
    S_BKK[:, diagonal, diagonal] += np.where(padding_BK, 1.0, RIDGE * variance + LEAST_VARIANCE)
    r_BK = np.take_along_axis(residual_BL, chosen_BK, axis=1)
    weight_BL = np.zeros(p_BL.shape, dtype=np.float32)
    np.put_along_axis(weight_BL, chosen_BK, np.linalg.solve(S_BKK, r_BK[..., None])[..., 0].astype(np.float32), axis=1)
    moved_BL = np.clip(p_BL + weight_BL @ covariance_LL, MARGIN, 1 - MARGIN)
    shift_BL[:] = logit(moved_BL) - logit(np.clip(p_BL, MARGIN, 1 - MARGIN))
    return shift_BL
