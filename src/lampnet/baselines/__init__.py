"""The baselines that lampnet is compared with, all with the same interface.

    model.fit(X, Y, X_valid=None, Y_valid=None)    Y is (n, L): 1, 0 or NaN (unknown, ignored for that label)
    model.predict_proba(X)                         float (n, L)
    model.tuned_                                   the settings that `fit` chose

X is a matrix of features, CSR or dense (`input == "features"`), or `NodeRows` (`input == "nodes"`).
Settings are tuned on the validation rows or, without them, on a tenth of the training rows.

>>> list(REGISTRY)
['constant', 'logistic', 'svm', 'chain', 'ecc', 'powerset', 'rakel', 'homer', 'clr', 'mlknn', 'pct', 'mlc45', ...
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
    """Anything that learns label probabilities from rows.

    tuned_  settings that `fit` chose, for fitting again on other rows
    """

    tuned_: dict[str, Any]

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> Baseline: ...

    def predict_proba(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class Entry:
    """Where a baseline lives and what it takes.

    input           "features": CSR or dense matrix; "nodes": NodeRows
    predicts_sets   it has `predict(X)`, which gives label sets without a threshold
    reads_in_order  its nodes of a text are the words one after the other, not the set of them
    """

    title: str
    module: str
    name: str
    input: Literal["features", "nodes"]
    predicts_sets: bool = False
    reads_in_order: bool = False

    def make(self, **settings: Any) -> Any:
        """A new instance; its module is imported only now."""
        return getattr(import_module(f"{__name__}.{self.module}"), self.name)(**settings)


REGISTRY: dict[str, Entry] = {
    "constant": Entry("label priors", "constant", "LabelPriors", "features"),
    "logistic": Entry("one-vs-rest logistic regression", "linear", "OneVsRestLogistic", "features"),
    "svm": Entry("one-vs-rest linear SVM", "linear", "OneVsRestSVM", "features"),
    "chain": Entry("classifier chain", "chain", "ClassifierChain", "features"),
    "ecc": Entry("ensemble of classifier chains (ECC)", "chain", "ChainEnsemble", "features"),
    "powerset": Entry("label powerset", "powerset", "LabelPowerset", "features", predicts_sets=True),
    "rakel": Entry("RAkEL", "powerset", "RAkEL", "features"),
    "homer": Entry("HOMER", "homer", "Homer", "features"),
    "clr": Entry(
        "calibrated label ranking (CLR, QWML)",
        "label_ranking",
        "CalibratedLabelRanking",
        "features",
        predicts_sets=True,
    ),
    "mlknn": Entry("ML-kNN", "mlknn", "MLkNN", "features"),
    "pct": Entry("predictive clustering tree (PCT)", "trees", "PredictiveClusteringTree", "features"),
    "mlc45": Entry("ML-C4.5", "trees", "MLC45", "features"),
    "forest": Entry("random forest of predictive clustering trees (RF-PCT)", "forest", "Forest", "features"),
    "rfmlc45": Entry("random forest of ML-C4.5 trees (RFML-C4.5)", "trees", "RFMLC45", "features"),
    "fastxml": Entry("FastXML", "fastxml", "FastXML", "features"),
    "mlp": Entry("Emb + MLP", "mlp", "EmbeddingMLP", "nodes"),
    "spen": Entry("SPEN, end to end", "energy_networks", "SPEN", "nodes"),
    "dvn": Entry("deep value network (DVN)", "energy_networks", "DVN", "nodes"),
    "gaml": Entry("GAML", "gaml", "GAML", "nodes"),
    "seq2seq": Entry("RNN Seq2Seq", "seq2seq", "Seq2Seq", "nodes", predicts_sets=True, reads_in_order=True),
}


def baseline(name: str, **settings: Any) -> Any:
    """A new baseline by its name."""
    if name not in REGISTRY:
        raise ConfigError(f"there is no baseline {name!r}; {did_you_mean(name, REGISTRY)}")
    return REGISTRY[name].make(**settings)
