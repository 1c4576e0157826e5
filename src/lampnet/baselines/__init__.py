"""What lampnet is compared with, each behind the same two calls.

    model.fit(X, Y, X_valid=None, Y_valid=None)    Y is (n, L), 1, 0 or NaN (unknown: left out for that label)
    model.predict_proba(X)                         float (n, L)

X is a matrix of features, CSR or dense (`input == "features"`), or `NodeRows` (`input == "nodes"`).
Settings that need tuning are tuned on the validation rows, or on a tenth of the training rows without them.

>>> list(REGISTRY)
['constant', 'logistic', 'svm', 'chain', 'mlknn', 'forest', 'mlp', 'seq2seq']
>>> baseline("constant").fit(np.zeros((2, 1)), np.array([[1.0, 0.0], [0.0, 0.0]])).predict_proba(np.zeros((1, 1)))
array([[0.5, 0. ]])
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np

from lampnet.errors import ConfigError, did_you_mean


class Baseline(Protocol):
    """Anything that learns label probabilities from rows."""

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Baseline: ...

    def predict_proba(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class Entry:
    """Where a baseline lives and what it takes.

    input          "features": CSR or dense matrix; "nodes": NodeRows
    predicts_sets  it has `predict(X)`, label sets of its own that need no threshold
    """

    title: str
    module: str
    name: str
    input: Literal["features", "nodes"]
    predicts_sets: bool = False

    def make(self, **settings: Any) -> Any:
        """A fresh one; its file is imported only now."""
        return getattr(import_module(f"{__name__}.{self.module}"), self.name)(**settings)


REGISTRY: dict[str, Entry] = {
    "constant": Entry("label priors", "constant", "LabelFrequencies", "features"),
    "logistic": Entry("one-vs-rest logistic regression", "linear", "OneVsRestLogistic", "features"),
    "svm": Entry("one-vs-rest linear SVM", "linear", "OneVsRestSVM", "features"),
    "chain": Entry("classifier chain", "chain", "ClassifierChain", "features"),
    "mlknn": Entry("ML-kNN", "mlknn", "MLkNN", "features"),
    "forest": Entry("random forest", "forest", "Forest", "features"),
    "mlp": Entry("Emb + MLP", "mlp", "EmbeddingMLP", "nodes"),
    "seq2seq": Entry("RNN Seq2Seq", "seq2seq", "Seq2Seq", "nodes", predicts_sets=True),
}


def baseline(name: str, **settings: Any) -> Any:
    """A new baseline by its name."""
    if name not in REGISTRY:
        raise ConfigError(f"there is no baseline {name!r}; {did_you_mean(name, REGISTRY)}")
    return REGISTRY[name].make(**settings)
