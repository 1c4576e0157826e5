"""Label powerset and RAkEL: each distinct label set is one class."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.baselines.tuned_linear import ClassModel, TunedLinear, class_probabilities, fit_classes
from lampnet.errors import DataError

#: probabilities of rows times label sets that a fit may hold
_MOST_NUMBERS = 60_000_000


class LabelPowerset(TunedLinear):
    """One multinomial logistic regression over the label sets of the training rows (Boutell et al. 2004).

    `predict` gives the most probable set, `predict_proba` the sum of the sets that have a label. Unknown labels count
    as absent, because a set must be whole.

    >>> X, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 5), np.array([[0, 1], [0, 1], [1, 1], [1, 1]] * 5)
    >>> LabelPowerset(C=1.0).fit(X, Y).predict(np.array([[-1.5], [1.5]])).astype(int).tolist()
    [[0, 1], [1, 1]]
    """

    def _learn(self, X: Any, Y: np.ndarray, C: float) -> tuple[np.ndarray, ClassModel]:
        sets, classes = np.unique(Y == 1, axis=0, return_inverse=True)
        if len(sets) * len(Y) > _MOST_NUMBERS:
            raise DataError(
                f"{len(Y):,} rows have {len(sets):,} distinct label sets, more than label powerset can learn as "
                "classes; use rakel, which cuts them into small ones"
            )
        return sets, fit_classes(X, classes.ravel(), C, self.seed)

    def _predict(self, learned: tuple[np.ndarray, ClassModel], X: Any) -> np.ndarray:
        sets, model = learned
        return np.asarray(np.clip(class_probabilities(model, X) @ sets.astype(np.float64), 0.0, 1.0))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable of the training rows' label sets, bool (n, L)."""
        sets, model = self.learned_
        return np.asarray(sets[class_probabilities(model, self.scaling_(X)).argmax(axis=1)])


class RAkEL(TunedLinear):
    """Random k-labelsets (Tsoumakas et al. 2011): label powersets of `k` random labels each, averaged.

    labelsets  how many; by default two for each label. Every label is in at least one of them.
    """

    def __init__(self, C: float | None = None, k: int = 3, labelsets: int | None = None, seed: int = 0) -> None:
        super().__init__(C, seed)
        self.k, self.labelsets = k, labelsets

    def _learn(self, X: Any, Y: np.ndarray, C: float) -> list[tuple[np.ndarray, Any]]:
        powerset = LabelPowerset(seed=self.seed)
        chosen = random_labelsets(Y.shape[1], self.k, self.labelsets or 2 * Y.shape[1], self.seed)
        return [(labels, powerset._learn(X, Y[:, labels], C)) for labels in chosen]

    def _predict(self, learned: list[tuple[np.ndarray, Any]], X: Any) -> np.ndarray:
        n_labels = 1 + max(int(labels.max()) for labels, _ in learned)
        total, count = np.zeros((X.shape[0], n_labels)), np.zeros(n_labels)
        for labels, powerset in learned:
            total[:, labels] += LabelPowerset()._predict(powerset, X)
            count[labels] += 1
        return np.asarray(total / count)


def random_labelsets(n_labels: int, k: int, count: int, seed: int) -> list[np.ndarray]:
    """Sorted distinct sets of k labels, int (k,) each; the first ones cover all labels.

    >>> [part.tolist() for part in random_labelsets(3, 2, 9, seed=0)]
    [[0, 2], [1, 2], [0, 1]]
    """
    k = min(k, n_labels)
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    order = rng.permutation(n_labels)
    for first in range(0, n_labels, k):
        part = order[first : first + k]
        rest = np.setdiff1d(order, part)
        whole = np.concatenate([part, rng.permutation(rest)[: k - len(part)]])
        found[tuple(sorted(whole.tolist()))] = None
    for _ in range(20 * count):  # few labels have fewer sets than were asked for
        if len(found) >= count:
            break
        found[tuple(sorted(rng.permutation(n_labels)[:k].tolist()))] = None
    return [np.array(labels) for labels in found]
