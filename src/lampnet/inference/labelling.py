"""Help for someone who labels a row: which labels to add next, and which one to ask about.

Both work on one row: its logits with nothing known (L,), and what is known of its labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, expit, logit

from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States
from lampnet.inference.conditional import Conditional

#: labels that a question is chosen among: those whose answers are least certain
MOST_QUESTIONS = 20


@dataclass(frozen=True)
class Suggestion:
    """A label that a row may have.

    label       its number
    proba       its probability, given the input and what is known
    from_input  how far the input moves its log-odds away from its prior
    from_known  how far each known label moves its log-odds, by number; the number of known labels is not part of it
    """

    label: int
    proba: float
    from_input: float
    from_known: dict[int, float]


def suggest(
    conditional: Conditional, logits_L: np.ndarray, states_L: States, priors_L: np.ndarray, most: int
) -> list[Suggestion]:
    """The most probable unknown labels, at most `most`, each with what moved it."""
    known = np.flatnonzero(states_L != UNKNOWN)
    logits = conditional.without_each(logits_L, states_L)
    unknown = np.flatnonzero(conditional.implied(states_L[None])[0] == UNKNOWN)
    ranked = unknown[np.argsort(-logits[0, unknown], kind="stable")][:most]
    return [
        Suggestion(
            label=int(label),
            proba=float(expit(logits[0, label])),
            from_input=float(logits_L[label] - logit(priors_L[label])),
            from_known={int(j): float(logits[0, label] - logits[k, label]) for k, j in enumerate(known, start=1)},
        )
        for label in ranked
    ]


def next_question(conditional: Conditional, logits_L: np.ndarray, states_L: States) -> tuple[int, float] | None:
    """The unknown label whose answer would tell most about the other unknown labels, and how much, in bits.

    That is the expected drop of the sum of their entropies. None where fewer than two labels are unknown.
    """
    unknown = np.flatnonzero(conditional.implied(states_L[None])[0] == UNKNOWN)
    if len(unknown) < 2:
        return None
    proba = conditional.proba(logits_L[None], states_L[None])[0]
    asked = unknown[np.argsort(-_entropy(proba[unknown]), kind="stable")][:MOST_QUESTIONS]
    states = np.repeat(states_L[None], 2 * len(asked), axis=0)
    states[np.arange(len(asked)), asked] = TRUE
    states[np.arange(len(asked), 2 * len(asked)), asked] = FALSE
    entropy = _entropy(conditional.proba(np.repeat(logits_L[None], len(states), axis=0), states)).sum(axis=1)
    p = proba[asked]
    expected = p * entropy[: len(asked)] + (1 - p) * entropy[len(asked) :]
    drop = _entropy(proba[unknown]).sum() - _entropy(p) - expected
    best = int(np.argmax(drop))
    return int(asked[best]), float(drop[best])


def _entropy(p: np.ndarray) -> np.ndarray:
    """Of each label alone, in bits; 0 for a known one."""
    p = np.asarray(p, dtype=np.float64)
    return np.asarray((entr(p) + entr(1 - p)) / np.log(2))
