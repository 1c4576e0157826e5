"""What rows and labels count: in the base learners, the stacking weights, the network's loss and the decisions.

A row of weight 2 counts as two rows would, a row of weight 0 as none. Only ratios matter: the weights of the rows are
scaled to a mean of 1, those of the labels too. A label's weight says what it counts beside the other labels, wherever
labels are pooled; it does not move the label's own probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.errors import ConfigError, DataError, did_you_mean

BALANCED = "balanced"
#: how far the weights of two rows may be apart; beyond it, a fold of light rows would have no weight
MOST_APART = 1e12
#: "balanced", weights by label name (all others count 1), or None for labels that count the same
LabelWeight = str | Mapping[str, float] | None


def row_weights(sample_weight: Any, n: int) -> np.ndarray:
    """What each of n rows counts, float64 (n,); not negative, and not all 0.

    >>> row_weights([1, 0.5], 2).tolist()
    [1.0, 0.5]
    """
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight must be numbers, one per row") from None
    if weight.shape != (n,):
        raise DataError(f"sample_weight has shape {weight.shape} for {n} rows; give one number per row")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if len(bad):
        raise DataError(f"sample_weight is {weight[bad[0]]:g} in row {bad[0]}; it must be finite numbers of at least 0")
    if not weight.any():
        raise DataError("sample_weight is zero in every row; some rows must count")
    least, most = weight[weight > 0].min(), weight.max()
    if most / MOST_APART > least:
        raise DataError(
            f"sample_weight goes from {least:g} to {most:g}, so that some rows would count nothing; give weights that "
            f"differ by at most a factor of {MOST_APART:g}, and 0 to rows that are to be left out"
        )
    return weight


def check_label_weight(given: Any, label_names: Sequence[str]) -> LabelWeight:
    """What labels count as it was given, its names and numbers checked.

    >>> check_label_weight({"rain": 2}, ["rain", "snow"])
    {'rain': 2.0}
    """
    if given is None or (isinstance(given, str) and given == BALANCED):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"label_weight={given!r:.80} is neither 'balanced' nor a mapping of labels to weights")
    there, checked = frozenset(label_names), {}
    for label, value in given.items():
        name = str(label)
        if name not in there:
            raise ConfigError(f"label_weight: there is no label {name[:80]!r}; {did_you_mean(name, label_names)}")
        try:
            number = float(value) if isinstance(value, (int, float, np.number)) else math.nan
        except OverflowError:
            number = math.inf
        if not 0 < number < math.inf:
            raise ConfigError(
                f"label_weight: the weight of {name[:80]!r} is {value!r:.40}; give a finite number above 0, or leave "
                "the label out of y"
            )
        checked[name] = number
    return checked


@dataclass(frozen=True)
class Weights:
    """What rows and labels count.

    row_n    float64 (n,), 1 on average over the rows of a fit
    entry_L  float64 (L,): what a (row, label) entry counts where entries are pooled; "balanced" is inverse to how
             many rows have the label
    label_L  float64 (L,): what a label counts where each counts as one whole (macro-F1, a forest's splits);
             "balanced" is 1
    """

    row_n: np.ndarray
    entry_L: np.ndarray
    label_L: np.ndarray

    @classmethod
    def of(
        cls,
        rows: Sequence[float] | np.ndarray | None,
        labels: LabelWeight,
        label_names: Sequence[str],
        Y_nL: np.ndarray,
    ) -> Weights | None:
        """Of labelled rows; None where all rows and labels count the same.

        >>> Y = np.array([[1, 0], [1, 1], [1, 0.0]])
        >>> Weights.of(None, "balanced", ["a", "b"], Y).entry_L.tolist()
        [0.5, 1.5]
        >>> Weights.of([1, 1, 4], {"b": 3.0}, ["a", "b"], Y)
        Weights(row_n=array([0.5, 0.5, 2. ]), entry_L=array([0.5, 1.5]), label_L=array([0.5, 1.5]))
        """
        if rows is None and labels is None:
            return None
        n, L = Y_nL.shape
        row_n = np.ones(n) if rows is None else row_weights(rows, n)
        row_n = row_n / row_n.mean()
        if labels is None:
            return cls(row_n, np.ones(L), np.ones(L))
        if isinstance(labels, str):
            positives = row_n @ np.nan_to_num(Y_nL)
            entry = 1 / np.maximum(positives, row_n.min())  # a label without positives: as if it had one
            return cls(row_n, entry / entry.mean(), np.ones(L))
        own = np.array([labels.get(name, 1.0) for name in label_names])
        own = own / own.mean()
        return cls(row_n, own, own)

    def take(self, rows: np.ndarray) -> Weights:
        """Of some of the rows; not scaled again."""
        return Weights(self.row_n[rows], self.entry_L, self.label_L)

    @staticmethod
    def joined(parts: Sequence[Weights | None]) -> Weights | None:
        """Of the rows of several parts, one below the other."""
        some = [part for part in parts if part is not None]
        if len(some) < len(parts):
            return None
        return Weights(np.concatenate([part.row_n for part in some]), some[0].entry_L, some[0].label_L)

    def entries(self, known_nL: np.ndarray) -> np.ndarray:
        """What each entry counts, float32 (n, L); 0 where it is unknown."""
        return np.asarray(known_nL * (self.row_n[:, None] * self.entry_L), dtype=np.float32)

    def by_row(self, known_nL: np.ndarray) -> np.ndarray:
        """What each entry counts beside the other rows of its label, float32 (n, L); 0 where it is unknown."""
        return np.asarray(known_nL * self.row_n[:, None], dtype=np.float32)


def rows_of(weights: Weights | None) -> np.ndarray | None:
    """What each row counts; None where all count the same."""
    return None if weights is None else weights.row_n


def taken(weights: Weights | None, rows: np.ndarray) -> Weights | None:
    """Of some of the rows."""
    return None if weights is None else weights.take(rows)
