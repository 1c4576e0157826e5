"""Prediction where some labels are known: p(label | input, known labels).

It starts from the logits that the model has with nothing known, so that rows about which nothing is known are
predicted as before. For the others these logits are shifted in closed form and, where that is better on held-out rows,
corrected by label messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import expit, logit

from lampnet.base_learners.label_dependence import LabelDependence
from lampnet.base_learners.shift_weights import ShiftWeights
from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States, is_soft
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.rules import Rule
from lampnet.evaluation.whole_set import WholeSet
from lampnet.model.label_states import LabelStates

#: the logit of a label that is known to be true
KNOWN_LOGIT = np.float32(30.0)
#: rows predicted at once
BATCH_ROWS = 64
#: more than this share of the labels known is many
MANY = 0.2
#: labels known by a probability whose combinations are all gone through
MOST_COMBINED = 5


@dataclass(frozen=True)
class Conditional:
    """What turns logits with nothing known into logits given what is known.

    dependence    closed-form shifts
    shift_weights what each counts, by how much is known
    members       networks whose mean corrects the shifted logits; none where that is no better
    correction    the share of their correction that counts
    decisions     for few and for many known labels, chosen on held-out rows; without the hierarchy
    hierarchy     known labels say what is above and below them, and no label is more probable than its parents
    """

    dependence: LabelDependence
    shift_weights: ShiftWeights
    members: list[LabelStates] = field(default_factory=list)
    correction: float = 1.0
    decisions: dict[str, Decisions] = field(default_factory=dict)
    hierarchy: LabelHierarchy | None = None

    def implied(self, states_nL: States) -> States:
        """What is known, with what follows from it by the hierarchy."""
        return states_nL if self.hierarchy is None else self.hierarchy.implied(states_nL)

    def logits(self, logits_nL: np.ndarray, states_nL: States) -> np.ndarray:
        """(n, L) float32; a known label has ±30, and rows with nothing known keep their logits."""
        if is_soft(states_nL).any():
            return np.asarray(np.clip(logit(self.proba(logits_nL, states_nL)), -KNOWN_LOGIT, KNOWN_LOGIT))
        states_nL = self.implied(states_nL)
        result = np.array(logits_nL, dtype=np.float32)
        some = np.flatnonzero((states_nL != UNKNOWN).any(axis=1))
        for first in range(0, len(some), BATCH_ROWS):
            rows = some[first : first + BATCH_ROWS]
            result[rows] = self.free_logits(result[rows], states_nL[rows])
        result = np.where(states_nL == UNKNOWN, result, KNOWN_LOGIT * states_nL).astype(np.float32)
        return result if self.hierarchy is None else self.hierarchy.lowered(result)

    def without_each(self, logits_L: np.ndarray, states_L: States) -> np.ndarray:
        """Logits of one row's unknown labels, then those without each of the k known labels, float32 (1 + k, L).

        The others count as if the label were known, so that one which says nothing about another moves it by nothing.
        """
        known = np.flatnonzero(states_L != UNKNOWN)
        states_KL = np.repeat(states_L[None], 1 + len(known), axis=0)
        states_KL[np.arange(1, 1 + len(known)), known] = UNKNOWN
        logits_KL = np.repeat(logits_L[None], len(states_KL), axis=0).astype(np.float32)
        if is_soft(states_L).any():
            return self.logits(logits_KL, states_KL)
        states_KL = self.implied(states_KL)
        if len(known):
            for first in range(0, len(states_KL), BATCH_ROWS):
                rows = slice(first, first + BATCH_ROWS)
                counted_BL = np.repeat(states_KL[:1], len(states_KL[rows]), axis=0)
                logits_KL[rows] = self.free_logits(logits_KL[rows], states_KL[rows], counted_BL)
        if self.hierarchy is None:
            return logits_KL
        known_KL = np.where(states_KL == UNKNOWN, logits_KL, KNOWN_LOGIT * states_KL)
        return self.hierarchy.lowered(known_KL.astype(np.float32))

    def free_logits(self, logits_BL: np.ndarray, states_BL: States, counted_BL: States | None = None) -> np.ndarray:
        """As `logits` for one batch, but what is known does not decide a label's own logit.

        counted_BL  how much is known, if other than states_BL
        """
        shifts_BLC = self.dependence.shifts(logits_BL, states_BL)
        shifted_BL = self.shift_weights.shifted(logits_BL, shifts_BLC, states_BL if counted_BL is None else counted_BL)
        if not self.members:
            return shifted_BL
        given = [torch.from_numpy(np.ascontiguousarray(one)) for one in (shifted_BL, logits_BL, shifts_BLC)]
        states = torch.from_numpy(states_BL.astype(np.int64))
        with torch.inference_mode():
            corrected_BL = torch.stack([network(*given, states) for network in self.members]).mean(0).numpy()
        return blended(shifted_BL, corrected_BL, self.correction)

    def proba(self, logits_nL: np.ndarray, states_nL: States) -> np.ndarray:
        """(n, L) probabilities; exactly 1 and 0 where a label is known, and what is known of it where that is less."""
        if (soft := is_soft(states_nL)).any():
            return self._proba_given_soft(logits_nL, states_nL, soft)
        states_nL = self.implied(states_nL)
        proba = expit(self.logits(logits_nL, states_nL))
        return np.asarray(np.where(states_nL == UNKNOWN, proba, states_nL == TRUE), dtype=np.float32)

    def _proba_given_soft(self, logits_nL: np.ndarray, states_nL: States, soft_nL: np.ndarray) -> np.ndarray:
        """Jeffrey's rule: the mean over what may be true, each weighted by how probable it is."""
        proba = np.empty(states_nL.shape, dtype=np.float32)
        certain = ~soft_nL.any(axis=1)
        proba[certain] = self.proba(logits_nL[certain], states_nL[certain].astype(np.int8))
        for row in np.flatnonzero(~certain):
            states_KL, weight_K = resolved(states_nL[row], soft_nL[row])
            proba[row] = weight_K @ self.proba(np.repeat(logits_nL[row][None], len(weight_K), axis=0), states_KL)
        if self.hierarchy is not None:  # where what is known of a child and of its parent do not fit together
            return self.hierarchy.lowered(proba)
        return np.asarray(np.where(soft_nL, (1 + states_nL) / 2, proba), dtype=np.float32)


def resolved(states_L: States, soft_L: np.ndarray) -> tuple[States, np.ndarray]:
    """States of one row in which probable labels are true or false, int8 (K, L), and how probable each is, (K,).

    All combinations of up to `MOST_COMBINED` labels; of more, as many draws, in which each label is true as often as
    it is probable.

    >>> states, weight = resolved(np.array([1, 0.5, 0]), np.array([False, True, False]))
    >>> states.tolist(), weight.tolist()
    ([[1, -1, 0], [1, 1, 0]], [0.25, 0.75])
    """
    labels, K = np.flatnonzero(soft_L), 2 ** min(MOST_COMBINED, int(soft_L.sum()))
    true_L = (1 + states_L[labels].astype(np.float64)) / 2
    if len(labels) <= MOST_COMBINED:
        true_KL = np.arange(K)[:, None] >> np.arange(len(labels)) & 1 == 1
        weight_K = np.where(true_KL, true_L, 1 - true_L).prod(axis=1)
    else:
        random = np.random.default_rng(0)
        places = random.permuted(np.repeat(np.arange(K)[:, None], len(labels), axis=1), axis=0)
        true_KL = (places + random.random(len(labels))) / K < true_L
        weight_K = np.full(K, 1 / K)
    states_KL = np.repeat(np.where(soft_L, 0, states_L)[None], K, axis=0).astype(np.int8)
    states_KL[:, labels] = np.where(true_KL, TRUE, FALSE)
    return states_KL, weight_K


def blended(shifted: np.ndarray, corrected: np.ndarray, share: float) -> np.ndarray:
    """Shifted logits with this share of the networks' correction."""
    return np.asarray(shifted + np.float32(share) * (corrected - shifted), dtype=np.float32)


def regime_of(states_nL: States) -> np.ndarray:
    """By which decisions each row is decided: "nothing", "few" or "many" labels known, (n,)."""
    known = (states_nL != UNKNOWN).sum(axis=1)
    return np.where(known == 0, "nothing", np.where(known > MANY * states_nL.shape[1], "many", "few"))


def decide(rules: dict[str, Rule], proba_nL: np.ndarray, states_nL: States) -> np.ndarray:
    """Label sets, bool (n, L): known labels as they are, the others by the rule of the row's regime.

    A rule sees unknown labels only: a known one has the probability 0 there. A regime without a rule of its own is
    decided as rows about which nothing is known.
    """
    chosen = np.zeros(proba_nL.shape, dtype=bool)
    unknown = states_nL == UNKNOWN
    free = np.where(unknown, proba_nL, 0.0)
    regimes = regime_of(states_nL)
    for regime in np.unique(regimes):
        rows = regimes == regime
        rule = rules.get(str(regime), rules["nothing"])
        # A rule about whole sets takes known labels for what they are.
        chosen[rows] = rule.apply(proba_nL[rows] if isinstance(rule, WholeSet) else free[rows])
    return np.where(unknown, chosen, states_nL > 0)
