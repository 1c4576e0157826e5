"""Where a label's logit comes from: contributions that add up to it, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: where a sum starts: how frequent the label is, and what the base learners say of a row without features
START = "start"
#: how far calibration moves the sum
CALIBRATION = "calibration"
#: how far a label's logit is lowered to its parents'
HIERARCHY = "label hierarchy"
#: what the number of known labels of the row changes, whichever they are
HOW_MUCH = "how much is known"


@dataclass(frozen=True, kw_only=True)
class Term:
    """One term of a contribution: a feature of the input or, for knn, a training row.

    name        the word, column, fragment, ...; of a training row its number among the rows of the training
    part        the part of the row or the column that it comes from; "" where there is only one
    value       what it adds to the logit
    places      where it lies in the input, as for input nodes
    labels      the labels of a training row
    similarity  of a training row, 0 to 1; None for features
    """

    name: str
    value: float
    part: str = ""
    places: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    similarity: float | None = None


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one source adds to a logit.

    source   "start", a base learner ("linear", "knn", "forest", "boosted", "kernel"), "messages from the input, step
             1", "messages from labels, step 1", ..., "calibration", "label hierarchy",
             "known labels: ..."
    value    all of it
    terms    its largest terms, by falling size; none for sources that are not divided
    n_terms  how many terms it has
    others   what the terms that are not listed add
    """

    source: str
    value: float
    terms: tuple[Term, ...] = ()
    n_terms: int = 0
    others: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LogitSum:
    """The logit of one label of one row, and the contributions that add up to it.

    >>> parts = (Contribution(source=START, value=-2.0), Contribution(source="linear", value=3.0))
    >>> LogitSum(label="red", logit=1.0, contributions=parts).total()
    1.0
    """

    label: str
    logit: float
    contributions: tuple[Contribution, ...]

    def total(self) -> float:
        """The sum of all contributions."""
        return sum(one.value for one in self.contributions)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)
