"""The label prior: how often each label is true."""

from __future__ import annotations

from typing import Any

import numpy as np


def label_priors(truth: np.ndarray, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray:
    """The share of the known rows that have each label, (L,), never quite 0 or 1."""
    known = ~np.isnan(truth)
    return np.asarray((np.nan_to_num(truth).sum(axis=0) + 0.5) / (known.sum(axis=0) + 1.0), dtype=dtype)
