"""Which labels of training rows are known: the masks by which a network learns to predict labels from other labels.

A third of the rows has a random number of true labels known, and half of these some promising labels refused: a user
who tags. A third has a random share of all labels known, up to three quarters: a half-labelled archive. A third has
nothing known, or nearly: what the network adds must fade as less is known.
"""

from __future__ import annotations

import numpy as np

from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States, nothing_known, states_of_truth

#: labels are refused among this many of the most promising ones of a row, and at most this many are refused
PROMISING, MOST_REFUSED = 32, 8
LARGEST_SHARE = 0.75


def draw_known(Y_nL: np.ndarray, logits_nL: np.ndarray, random: np.random.Generator) -> States:
    """States of labelled rows in which some labels are known, int8 (n, L); an unknown label (NaN) stays unknown."""
    truth = states_of_truth(Y_nL)
    n, L = truth.shape
    kind_n = random.random(n)
    few_n, share_n = kind_n < 1 / 3, kind_n >= 2 / 3
    states = nothing_known(n, L)
    states[few_n] = _some_true(truth[few_n], random)
    refusing = few_n & (random.random(n) < 0.5)
    states[refusing] += _refused(truth[refusing], logits_nL[refusing], random)
    share = random.random((np.count_nonzero(share_n), 1)) * LARGEST_SHARE
    states[share_n] = np.where(random.random((len(share), L)) < share, truth[share_n], UNKNOWN)
    return states


def _some_true(truth: States, random: np.random.Generator) -> States:
    """Of each row some of its true labels: mostly few, sometimes any number of them."""
    n, L = truth.shape
    true = truth == TRUE
    counts = true.sum(axis=1)
    few = np.minimum(random.geometric(0.5, n), counts)
    any_number = random.integers(0, counts + 1)
    wanted = np.where(random.random(n) < 0.5, few, any_number)
    rank = _ranks(np.where(true, random.random((n, L)), np.inf))
    return np.where(rank < wanted[:, None], truth, UNKNOWN).astype(np.int8)


def _refused(truth: States, logits: np.ndarray, random: np.random.Generator) -> States:
    """Of each row up to `MOST_REFUSED` false labels among its most promising ones."""
    n, L = truth.shape
    promising = _ranks(-logits) < PROMISING
    false = promising & (truth == FALSE)
    rank = _ranks(np.where(false, random.random((n, L)), np.inf))
    wanted = np.minimum(random.integers(0, MOST_REFUSED + 1, n), false.sum(axis=1))
    return np.where(rank < wanted[:, None], FALSE, UNKNOWN).astype(np.int8)


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each entry in its row, 0 for the smallest."""
    order = np.argsort(values, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks
