"""Stacking: the out-of-fold logits of quick base learners, from which the label nodes start.

The network must not learn to trust an overfitted base learner, so training rows get out-of-fold logits: each row
is predicted by a model that never saw it. Logits are centred per label and scaled to unit variance per learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.feature_terms import FeatureTerms
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.label_names import LabelNameLearner
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.protocol import QUIET, BaseLearner, Features, FitContext, OnProgress, no_progress, part_of
from lampnet.base_learners.stacking_weights import (
    CrossFittedWeights,
    OnShare,
    StackingWeights,
    choose_pull,
    cross_fit_weights,
    fit_weights,
    unreported,
)
from lampnet.config import PRETRAINED_LEARNERS
from lampnet.data.label_priors import label_priors
from lampnet.data.weights import Weights, rows_of
from lampnet.errors import ModelFolderError


@dataclass(frozen=True)
class FittedLearner:
    """A base learner that was fitted already: what its `arrays` returned, and its out-of-fold logits (n, L)."""

    arrays: dict[str, np.ndarray]
    out_of_fold: np.ndarray


OnFitted = Callable[[str, BaseLearner, np.ndarray], None]
LEARNERS: dict[str, Callable[[], BaseLearner]] = {
    "linear": LinearLearner,
    "knn": KNNLearner,
    "forest": ForestLearner,
    "boosted": BoostedLearner,
    "kernel": KernelLearner,
    "pretrained_linear": LinearLearner,
    "pretrained_knn": KNNLearner,
    "label_names": LabelNameLearner,
}


class Stack:
    """The base learners named in the settings, their logits on one scale.

    Of the features, the last `embedded` are a pretrained encoder's: the learners of `PRETRAINED_LEARNERS` read only
    these, all others only the rest.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 10, dtype=np.float32)
    >>> Y = np.array([[0.0], [1.0]] * 10, dtype=np.float32)
    >>> stack = Stack(["linear"])
    >>> stack.fit(X, Y, seed=0).shape
    (20, 1, 1)
    >>> bool(stack.logits(X)[1, 0, 0] > stack.logits(X)[0, 0, 0])
    True
    """

    def __init__(self, names: Sequence[str], embedded: int = 0) -> None:
        self.names, self.embedded = tuple(names), embedded
        self.learners: list[BaseLearner] = [LEARNERS[name]() for name in self.names]
        self.centre = np.zeros((0, len(self.names)), dtype=np.float32)
        self.spread = np.ones(len(self.names), dtype=np.float32)
        self.weights = StackingWeights(np.zeros((0, len(self.names)), np.float32), np.zeros(0, np.float32))

    def fit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        fold_n: np.ndarray | None = None,
        context: FitContext = QUIET,
        on_fitted: OnFitted | None = None,
        fitted: Mapping[str, FittedLearner] = MappingProxyType({}),
        weights: Weights | None = None,
    ) -> np.ndarray:
        """Fit every learner; return the scaled out-of-fold logits, float32 (n, L, K). All learners have equal weights.

        on_fitted  called after each learner with its name, the learner and its out-of-fold logits (n, L), not scaled
        fitted     what an earlier fit on the same rows handed to `on_fitted`: these learners are not fitted again
        weights    what rows and labels count
        """
        columns: list[np.ndarray] = []
        began = context.clock()
        for number, (name, learner) in enumerate(zip(self.names, self.learners, strict=True)):
            if name in fitted:
                learner.restore(fitted[name].arrays)
                columns.append(fitted[name].out_of_fold)
                continue
            budget = context.budget_seconds
            if budget is not None:  # what is left, shared by the learners that are left
                budget = max(0.0, budget - (context.clock() - began)) / (len(self.names) - number)
            own = replace(context, progress=self.part(context.progress, number), budget_seconds=budget)
            columns.append(learner.fit(self.columns_of(name, X), Y_nL, seed, fold_n, own, weights))
            if on_fitted is not None:
                on_fitted(name, learner, columns[-1])
        logits = np.stack(columns, axis=-1)
        self.set_scale(logits)
        return self.scaled(logits)

    def without(self, name: str) -> Stack:
        """The other learners, as they are, with equal weights again."""
        fewer = Stack([], self.embedded)
        kept = [number for number, own in enumerate(self.names) if own != name]
        fewer.names = tuple(self.names[number] for number in kept)
        fewer.learners = [self.learners[number] for number in kept]
        fewer.centre, fewer.spread = self.centre[:, kept], self.spread[kept]
        fewer.weights = StackingWeights.equal(len(self.centre), len(kept))
        return fewer

    def set_scale(self, logits_nLK: np.ndarray) -> None:
        """Take centre and spread from out-of-fold logits; all learners have equal weights until weights are fitted."""
        self.centre = logits_nLK.mean(axis=0)
        self.spread = np.maximum((logits_nLK - self.centre).std(axis=(0, 1)), 1e-6)
        self.weights = StackingWeights.equal(logits_nLK.shape[1], len(self.names))

    def learn_more(
        self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray, weights: Weights | None = None
    ) -> np.ndarray:
        """Learn from new rows beside what was learned; return their scaled out-of-fold logits, float32 (n, L, K).

        Labels that were not there before stand behind the others. The scale stays the one the network was trained
        with, and the stacking weights too; those of new labels are the mean of the others'.
        """
        logits = np.stack(
            [
                learner.learn_more(self.columns_of(name, X), Y_nL, seed, fold_n, weights)
                for name, learner in zip(self.names, self.learners, strict=True)
            ],
            axis=-1,
        )
        known = len(self.centre)
        self.centre = np.concatenate([self.centre, logits[:, known:].mean(axis=0)], dtype=np.float32)
        own, new = self.weights, Y_nL.shape[1] - known
        if new:
            prior = logit(label_priors(Y_nL, row_n=rows_of(weights)))[known:]
            mean = np.tile(own.weights_LK.mean(axis=0), (new, 1))
            self.weights = StackingWeights(
                np.concatenate([own.weights_LK, mean], dtype=np.float32),
                np.concatenate([own.bias_L, prior], dtype=np.float32),
            )
        return self.scaled(logits)

    def fit_weights(
        self,
        base_logits_nLK: np.ndarray,
        Y_nL: np.ndarray,
        fold_n: np.ndarray,
        weights: Weights | None = None,
        report: OnShare = unreported,
    ) -> CrossFittedWeights:
        """Fit the stacking weights on out-of-fold logits, and for each fold on the others."""
        fitted = cross_fit_weights(base_logits_nLK, Y_nL, fold_n, weights, report)
        self.weights = fitted.weights
        return fitted

    def choose_and_fit_weights(
        self,
        base_logits_nLK: np.ndarray,
        Y_nL: np.ndarray,
        fold_n: np.ndarray,
        weights: Weights | None = None,
        report: OnShare = unreported,
    ) -> StackingWeights:
        """Fit the stacking weights on out-of-fold logits, where other rows are held out to score them."""
        pull = choose_pull(base_logits_nLK, Y_nL, fold_n, weights, lambda share: report(0.7 * share))
        report(0.7)
        self.weights = fit_weights(base_logits_nLK, Y_nL, pull, weights=weights)
        return self.weights

    def refit(
        self,
        X: Features,
        Y_nL: np.ndarray,
        seed: int,
        progress: OnProgress = no_progress,
        weights: Weights | None = None,
    ) -> None:
        """Fit again on more rows, once every choice is made; the scale stays the one the network was trained with."""
        for number, learner in enumerate(self.learners):
            learner.refit(self.columns_of(self.names[number], X), Y_nL, seed, self.part(progress, number), weights)

    def part(self, progress: OnProgress, number: int) -> OnProgress:
        """The progress of one learner, which is named."""
        own = part_of(progress, number / len(self.names), (number + 1) / len(self.names))
        return lambda share, doing: own(share, f"{self.names[number]}: {doing}")

    def logits(self, X: Features) -> np.ndarray:
        """The scaled logits of new rows, float32 (n, L, K)."""
        try:
            return self.scaled(
                np.stack(
                    [
                        learner.logits(self.columns_of(name, X))
                        for name, learner in zip(self.names, self.learners, strict=True)
                    ],
                    axis=-1,
                )
            )
        except (ValueError, IndexError) as fault:  # only a folder put together from two models gets here
            raise ModelFolderError(
                f"the base learners of this model do not fit its {X.shape[1]} input features ({fault}); train it again"
            ) from fault

    def terms(self, X: Features, rows_n: np.ndarray, labels_K: np.ndarray) -> tuple[np.ndarray, list[FeatureTerms]]:
        """The stacked logits of some labels in some rows of X as sums: one bias per label (K,), each learner's terms.

        X  all rows as they came to `logits`
        """
        weights = self.weights.weights_LK[labels_K].astype(np.float64)
        learners = []
        for k, (name, learner) in enumerate(zip(self.names, self.learners, strict=True)):
            terms = learner.terms(self.columns_of(name, X), rows_n, labels_K)
            if reads_embedded(name):
                terms = replace(terms, columns_E=terms.columns_E + (X.shape[1] - self.embedded))
            learners.append(terms.scaled(weights[:, k] / float(self.spread[k]), self.centre[labels_K, k]))
        return self.weights.bias_L[labels_K].astype(np.float64), learners

    def neighbour(self, name: str, index: int) -> tuple[str, np.ndarray]:
        """A row that `terms` of this learner has as a neighbour: what it is called, and its labels by number."""
        knn = self.learners[self.names.index(name)]
        assert isinstance(knn, KNNLearner)
        return knn.name_of(index), knn.labels_of(index)

    def name_labels(self, states_LH: np.ndarray) -> None:
        """Say what the labels' names mean: see `LabelNameLearner`."""
        for learner in self.learners:
            if isinstance(learner, LabelNameLearner):
                learner.name_labels(states_LH)

    def number_rows(self, origins_n2: np.ndarray) -> None:
        """Say where the rows that were learned from last come from: see `KNNLearner.origins_n2`."""
        for learner in self.learners:
            if isinstance(learner, KNNLearner):
                learner.number_rows(origins_n2)

    def columns_of(self, name: str, X: Features) -> Features:
        """The features that a learner reads: of a pretrained encoder's dense float32, of the rest as they come."""
        if not self.embedded:
            return X
        first = X.shape[1] - self.embedded
        if first < 0:
            raise ValueError(
                f"{X.shape[1]} features were given, {self.embedded} of which should be a pretrained encoder's"
            )
        if not reads_embedded(name):
            return X[:, :first]
        own = X[:, first:]
        return np.asarray(own.toarray() if sparse.issparse(own) else own, dtype=np.float32)

    def scaled(self, logits: np.ndarray) -> np.ndarray:
        """Logits (n, L, K) as the learners give them, on one scale, float32."""
        return ((logits - self.centre) / self.spread).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, by name, for the model folder."""
        named = {"centre": self.centre, "spread": self.spread}
        named |= {"weights": self.weights.weights_LK, "bias": self.weights.bias_L}
        if self.embedded:
            named["embedded"] = np.array([self.embedded], dtype=np.int32)
        for name, learner in zip(self.names, self.learners, strict=True):
            named.update({f"{name}.{key}": value for key, value in learner.arrays().items()})
        return named

    @classmethod
    def restore(cls, names: Sequence[str], arrays: dict[str, np.ndarray]) -> Stack:
        """The stack that `arrays` described; `restore_stack` also checks it."""
        stack = cls(names, int(arrays["embedded"][0]) if "embedded" in arrays else 0)
        try:
            stack.centre, stack.spread = arrays["centre"], arrays["spread"]
            stack.weights = StackingWeights(arrays["weights"], arrays["bias"])
            for name, learner in zip(stack.names, stack.learners, strict=True):
                own = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(name + ".")}
                learner.restore(own)
        except KeyError as missing:
            raise ModelFolderError(
                f"the base learners of this model lack the array {missing}; train it again"
            ) from None
        return stack


def reads_embedded(name: str) -> bool:
    """Whether a learner reads a pretrained encoder's features instead of the others."""
    return name in PRETRAINED_LEARNERS


def vstack_features(parts: Sequence[Features]) -> Features:
    """Feature matrices one below the other."""
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_matrix(sparse.vstack(parts))
    return np.vstack(parts)
