"""HOMER (Tsoumakas et al. 2008): a tree of label clusters, and a small problem at each of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from lampnet.baselines.linear import fit_one_label
from lampnet.baselines.tuned_linear import TunedLinear


@dataclass
class _Node:
    """labels (m,), for each child its labels, the weights (F, K) and intercepts (K,) of "has one of them"."""

    labels: np.ndarray
    children: list[_Node] = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    intercepts: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Homer(TunedLinear):
    """Labels are clustered by balanced k-means into `branches` parts, these again, down to single labels.

    At each node logistic regressions learn, from the rows that have a label of the node, whose children's labels they
    have. A label's probability is the product along its path. Unknown labels count as absent in the clusters.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 1], [1, 1]] * 5)
    >>> (Homer(C=1.0).fit(X, Y).predict_proba(np.array([[-1.5], [1.5]])) > 0.5).astype(int).tolist()
    [[0, 1], [1, 1]]
    """

    def __init__(self, C: float | None = None, branches: int = 4, seed: int = 0) -> None:
        super().__init__(C, seed)
        self.branches = branches

    def _learn(self, X: Any, Y: np.ndarray, C: float) -> _Node:
        from sklearn.linear_model import LogisticRegression

        estimator = LogisticRegression(C=C, solver="liblinear", random_state=self.seed)

        def grow(labels: np.ndarray, rows: np.ndarray) -> _Node:
            node = _Node(labels)
            if len(labels) == 1:
                return node
            parts = balanced_clusters((Y[:, labels] == 1).T.astype(np.float64), self.branches, self.seed)
            inside = X[rows]
            fitted = []
            for part in parts:
                own = labels[part]
                truth = Y[np.ix_(rows, own)]
                # A single label that is unknown stays unknown; of several, the known ones decide.
                target = truth[:, 0] if len(own) == 1 else (truth == 1).any(axis=1).astype(np.float64)
                fitted.append(fit_one_label(inside, target, estimator))
                node.children.append(grow(own, rows[target == 1]))
            node.weights = np.stack([weights for weights, _ in fitted], axis=1)
            node.intercepts = np.array([intercept for _, intercept in fitted])
            return node

        root = grow(np.arange(Y.shape[1]), np.arange(len(Y)))
        if not root.children:  # a single label has no cluster to be told apart from
            weights, intercept = fit_one_label(X, Y[:, 0], estimator)
            root = _Node(root.labels, [root], weights[:, None], np.array([intercept]))
        return root

    def _predict(self, learned: _Node, X: Any) -> np.ndarray:
        proba = np.ones((X.shape[0], len(learned.labels)))

        def walk(node: _Node) -> None:
            if not node.children:
                return
            chance = expit(np.asarray(X @ node.weights) + node.intercepts)
            for k, child in enumerate(node.children):
                proba[:, child.labels] *= chance[:, k : k + 1]
                walk(child)

        walk(learned)
        return proba


def balanced_clusters(vectors: np.ndarray, k: int, seed: int, rounds: int = 10) -> list[np.ndarray]:
    """k-means with at most ceil(m / k) of the m vectors in a cluster; the numbers in each, none of them empty.

    A vector goes to the nearest centre; where a cluster is full, its farthest vector moves on to that vector's next
    centre, as in the paper.

    >>> [part.tolist() for part in balanced_clusters(np.array([[0.0], [0.1], [5.0], [5.1]]), 2, seed=0)]
    [[0, 1], [2, 3]]
    """
    m = len(vectors)
    k = min(k, m)
    capacity = -(-m // k)
    rng = np.random.default_rng(seed)
    centres = vectors[np.sort(rng.permutation(m)[:k])]
    members: list[list[int]] = []
    for _ in range(rounds):
        distance = (centres**2).sum(axis=1) - 2 * vectors @ centres.T  # (m, k), up to each vector's own square
        preference = np.argsort(distance, axis=1, kind="stable")
        tried = np.zeros(m, dtype=np.int64)
        before, members = members, [[] for _ in range(k)]
        for vector in range(m):
            moving = vector
            while True:
                cluster = int(preference[moving, tried[moving]])
                members[cluster].append(moving)
                if len(members[cluster]) <= capacity:
                    break
                moving = max(members[cluster], key=lambda i: (distance[i, cluster], i))
                members[cluster].remove(moving)
                tried[moving] += 1
        if members == before:
            break
        centres = np.stack([vectors[part].mean(axis=0) if part else centres[c] for c, part in enumerate(members)])
    return [np.array(sorted(part)) for part in members if part]
