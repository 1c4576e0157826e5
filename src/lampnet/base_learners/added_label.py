"""A label from a few examples: a linear model that starts from what the other labels say.

The linear base learner's logits of the other labels are linear in the features, so a sum of them is one more column
of its weights. That sum is where the new column starts, and what it is pulled towards: with few examples the other
labels say most, with many the features themselves. How much of each is chosen on the examples, out-of-fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.newton import Matrix, Stopping, fit_linear
from lampnet.base_learners.protocol import Features
from lampnet.data.label_priors import label_priors
from lampnet.data.splits import parts_of
from lampnet.data.stratify import stratified_folds

#: C of the messages from the other labels, and of the pull towards them; 0 for none of it
MESSAGES, OWN = (0.0, 0.01, 0.1, 1.0), (0.0, 0.01, 0.1, 1.0, 10.0)
#: without enough examples to choose by
DEFAULT = (0.1, 0.1)
FOLDS, FEWEST_OF_EACH = 5, 3
STEPS = Stopping(20, 20, 1e-3)


@dataclass(frozen=True)
class AddedColumn:
    """Weights (F,), an intercept, and the choice: C of the messages and of the pull towards them."""

    weights_F: np.ndarray
    intercept: float
    choice: tuple[float, float]


def fit_added_label(learner: LinearLearner, X: Features, y_n: np.ndarray, seed: int) -> AddedColumn:
    """A further column of the learner's weights, from examples y (n,) of 1 and 0.

    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(200, 3)).astype(np.float32)
    >>> learner = LinearLearner()
    >>> _ = learner.fit(X, np.float32(X[:, :2] > 0), seed=0)
    >>> column = fit_added_label(learner, X[:20], np.float32(X[:20, 0] + X[:20, 1] > 0), seed=0)
    >>> bool(column.weights_F[0] > column.weights_F[2]) and bool(column.weights_F[1] > column.weights_F[2])
    True
    """
    choice = DEFAULT
    if min(int(y_n.sum()), int((1 - y_n).sum())) >= FEWEST_OF_EACH:
        fold_n = stratified_folds(np.column_stack([y_n, 1 - y_n]), min(FOLDS, int(y_n.sum()), len(y_n)), seed)
        losses = {(m, o): 0.0 for m in MESSAGES for o in OWN if m or o}
        for rest, own in parts_of(fold_n):
            for tried, column in _columns(learner, X[rest], y_n[rest], list(losses)):
                z = np.asarray(X[own] @ column[0]).ravel() + column[1]
                losses[tried] += float((np.logaddexp(0, z) - y_n[own] * z).sum())
        choice = min(losses, key=lambda tried: losses[tried])
    _, (weights, intercept) = _columns(learner, X, y_n, [choice])[0]
    return AddedColumn(weights.astype(np.float32), float(intercept), choice)


def _columns(
    learner: LinearLearner, X: Features, y_n: np.ndarray, choices: Sequence[tuple[float, float]]
) -> list[tuple[tuple[float, float], tuple[np.ndarray, float]]]:
    """Weights (F,) and intercept for each choice."""
    Y, matrix = y_n[:, None].astype(np.float32), Matrix(X)
    prior = float(logit(label_priors(Y, np.float64))[0])
    others = np.asarray(X @ learner.weights, dtype=np.float32) + learner.intercepts
    mean, spread = others.mean(axis=0), np.maximum(others.std(axis=0), 1e-3)
    said = Matrix((others - mean) / spread)
    starts: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for C in {messages for messages, _ in choices}:
        gates, base = np.zeros((others.shape[1], 1), np.float32), np.array([prior], np.float32)
        if C:
            gates, base = fit_linear(said, Y, C, "logistic", None, STEPS)
        scaled = gates[:, 0] / spread
        intercept = base[0] + (learner.intercepts - mean) @ scaled
        starts[C] = ((learner.weights @ scaled)[:, None], np.array([intercept], dtype=np.float32))
    found = []
    for messages, own in choices:
        W, b = starts[messages]
        if own:
            W, b = fit_linear(matrix, Y, own, "logistic", (W, b), STEPS, centre=(W, b))
        found.append(((messages, own), (W[:, 0], float(b[0]))))
    return found
