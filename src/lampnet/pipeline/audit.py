"""An audit of given labels: which look wrong, and which are missing.

Every label of every row is predicted from the row's input and its other labels, by what was learned without the row
(`given_others.py`). A false label that is probable may have been forgotten; a true one that is improbable may be a
mistake. An unknown label is neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import FALSE, TRUE
from lampnet.errors import ConfigError
from lampnet.pipeline.control import IN_MEMORY, FitRun
from lampnet.pipeline.given_others import GivenOthers, cross_fit_given_others

Kind = Literal["missing", "wrong"]
#: findings that are listed unless another number is asked for
MOST_FINDINGS = 1000
#: other labels named with each finding: those that moved it most
MOST_MOVERS = 3
#: a label that is less probable than this is not listed as missing
LEAST_MISSING = 0.1


@dataclass(frozen=True)
class Finding:
    """A label of a row that does not agree with what was given.

    row         its number among the rows, from 0
    id          its name, where the rows have names
    label       the label's name
    given       whether the row was given the label
    proba       its probability by the input and the row's other labels
    kind        "missing": not given but probable; "wrong": given but improbable
    from_input  how far the input moved its log-odds from the label's prior
    from_labels how far each of the row's other true labels moved them; those that moved them most
    """

    row: int
    id: str
    label: str
    given: bool
    proba: float
    kind: Kind
    from_input: float
    from_labels: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain data, its numbers rounded."""
        moved = {name: round(by, 3) for name, by in self.from_labels.items()}
        plain = {"row": self.row, "id": self.id, "label": self.label, "given": self.given}
        return plain | {
            "proba": round(self.proba, 6),
            "kind": self.kind,
            "input": round(self.from_input, 3),
            "labels": moved,
        }


@dataclass(frozen=True)
class Audit:
    """What was found in labelled rows.

    findings     the most suspicious labels first. Missing and wrong ones take turns: how many mistakes of each kind
                 there are is not known, so the two cannot be compared
    proba        float32 (n, L), of each label by the row's input and its other labels
    label_names  the L labels
    """

    findings: list[Finding]
    proba: np.ndarray
    label_names: tuple[str, ...]


def audit(data: Dataset, config: Config, run: FitRun = IN_MEMORY, most: int = MOST_FINDINGS) -> Audit:
    """Fit on labelled rows, cross-fitted, and list at most `most` labels that look wrong or missing."""
    if most < 1:
        raise ConfigError(f"{most} findings were asked for; ask for at least one")
    found = cross_fit_given_others(data, config, run)
    ids = data.ids or tuple(map(str, range(len(data))))
    pairs = ranked(found, most)
    findings = []
    for number, (row, label, kind) in enumerate(pairs):
        if number % 64 == 0:
            run.phase(number / len(pairs), "what moved each finding")
        moved = sorted(found.from_others(row, label).items(), key=lambda pair: -abs(pair[1]))[:MOST_MOVERS]
        findings.append(
            Finding(
                row=row,
                id=ids[row],
                label=data.label_names[label],
                given=kind == "wrong",
                proba=float(expit(found.log_odds_nL[row, label])),
                kind=kind,
                from_input=found.from_input(row, label),
                from_labels={data.label_names[other]: by for other, by in moved},
            )
        )
    return Audit(findings, found.proba(), data.label_names)


def ranked(found: GivenOthers, most: int) -> list[tuple[int, int, Kind]]:
    """Row, label and kind of the most suspicious labels; the two kinds take turns while there are both."""
    log_odds = found.log_odds_nL
    could_miss = (found.states_nL == FALSE) & (log_odds >= logit(LEAST_MISSING))
    could_be_wrong = (found.states_nL == TRUE) & (log_odds < 0)
    missing = _largest(np.where(could_miss, log_odds, -np.inf), most)
    wrong = _largest(np.where(could_be_wrong, -log_odds, -np.inf), most)
    turns: Any = zip_longest(
        ((row, label, "missing") for row, label in missing), ((row, label, "wrong") for row, label in wrong)
    )
    return [pair for pair in chain.from_iterable(turns) if pair is not None][:most]


def _largest(scores_nL: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Rows and labels of the largest finite scores, in falling order; ties keep their order."""
    flat = scores_nL.ravel()
    first = np.argpartition(-flat, most - 1)[:most] if most < len(flat) else np.arange(len(flat))
    first = np.sort(first[np.isfinite(flat[first])])
    first = first[np.argsort(-flat[first], kind="stable")]
    rows, labels = np.unravel_index(first, scores_nL.shape)
    return list(zip(rows.tolist(), labels.tolist(), strict=True))
