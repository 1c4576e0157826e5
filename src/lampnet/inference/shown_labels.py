"""Labels that were added, merged or dropped since a model was trained: what it shows of what it predicts.

The network passes messages among the labels that it was trained with, whatever is shown: so no other label moves. A
label that was dropped is predicted and not shown; labels that were merged are predicted apart and shown as one, true
where any of them is (as if they were independent); a label that was added is a further column of the base learners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.errors import ModelFolderError


@dataclass(frozen=True)
class ShownLabels:
    """For each label that is shown, the columns that it is made of.

    groups    the numbers of its columns, rising
    priors_S  of all columns: how often each is true
    trained   this many columns, the first ones, are the labels of the training and of the network
    """

    groups: tuple[tuple[int, ...], ...]
    priors_S: np.ndarray
    trained: int

    @classmethod
    def as_trained(cls, priors: np.ndarray) -> ShownLabels:
        """Every label as it was trained."""
        return cls(tuple((column,) for column in range(len(priors))), priors, len(priors))

    def logits(self, logits_nS: np.ndarray) -> np.ndarray:
        """Logits (n, L) of what is shown, in the type of the logits.

        >>> two = ShownLabels(((0, 1), (2,)), np.full(3, 0.5), 3)
        >>> two.logits(np.array([[0.0, 0.0, 7.0]])).round(3).tolist()
        [[1.099, 7.0]]
        """
        shown = logits_nS[:, [group[0] for group in self.groups]]
        for number, group in enumerate(self.groups):
            if len(group) > 1:
                shown[:, number] = any_of(logits_nS[:, list(group)])
        return shown

    def to_json(self) -> dict[str, Any]:
        return {"groups": [list(group) for group in self.groups], "trained": self.trained}

    @classmethod
    def from_json(cls, data: Any, priors: np.ndarray | None, n_labels: int) -> ShownLabels:
        """Read what `to_json` wrote; anything else is refused."""
        groups = data.get("groups") if isinstance(data, dict) else None
        trained = data.get("trained") if isinstance(data, dict) else None
        if priors is None or priors.ndim != 1 or priors.dtype != np.float32 or not ((priors > 0) & (priors < 1)).all():
            raise ModelFolderError("the model's changed labels are damaged: they lack their priors")
        if not isinstance(groups, list) or len(groups) != n_labels or type(trained) is not int:
            raise ModelFolderError("the model's changed labels are damaged: they are described in another form")
        if not all(_rising(group, len(priors)) for group in groups) or not 1 <= trained <= len(priors):
            raise ModelFolderError("the model's changed labels are damaged: they name columns that do not exist")
        return cls(tuple(map(tuple, groups)), priors, trained)


def any_of(logits_nG: np.ndarray) -> np.ndarray:
    """The log-odds (n,) that at least one of independent events with these log-odds happens.

    >>> any_of(np.array([[0.0, 0.0]])).round(3).tolist()  # three quarters
    [1.099]
    """
    none = np.logaddexp(0, np.asarray(logits_nG, dtype=np.float64)).sum(axis=1)  # -log P(none of them)
    # Where it is hardly possible or all but certain, the difference to 1 would be lost.
    return np.asarray(np.where(none > 1, none + np.log(-np.expm1(-none)), np.log(np.expm1(np.minimum(none, 2)))))


def _rising(group: Any, columns: int) -> bool:
    whole = isinstance(group, list) and bool(group) and all(type(column) is int for column in group)
    return whole and all(a < b for a, b in zip([-1, *group], [*group, columns], strict=True))
