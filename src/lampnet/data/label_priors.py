"""The label prior: how often each label is true."""

from __future__ import annotations

import numpy as np


def label_priors(truth: np.ndarray) -> np.ndarray:
    """The share of the known rows that have each label, float32 (L,), never quite 0 or 1."""
    known = ~np.isnan(truth)
    return np.asarray((np.nan_to_num(truth).sum(axis=0) + 0.5) / (known.sum(axis=0) + 1.0), dtype=np.float32)
