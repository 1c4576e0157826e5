"""scikit-learn's own checks of an estimator; each exemption has its reason."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import parametrize_with_checks

from lampnet import LaMPClassifier

EXEMPT = {
    "check_methods_subset_invariance": "single precision: the last bits of a logit depend on the size of the batch",
    "check_sample_weight_equivalence_on_dense_data": "copies of a row may be in several folds, a heavy row is in one",
    "check_sample_weight_equivalence_on_sparse_data": "copies of a row may be in several folds, a heavy row is in one",
    "check_classifier_multioutput": "label sets follow the decision chosen on validation rows, not a logit's sign",
}


def exemptions(estimator: Any) -> dict[str, str]:
    return EXEMPT


# Where one class is left, as one check wants it, a warning says so and the fit goes on.
@pytest.mark.filterwarnings("ignore:all training rows have the same labels")
@parametrize_with_checks(
    [
        LaMPClassifier(
            width=8,
            epochs=8,
            dropout=0.0,
            node_dropout=0.0,
            n_jobs=1,
            settings={
                "training.folds": 1,  # an ensemble is several small networks: the same code, five times as long
                "training.warmup_steps": 3,
                "training.learning_rate": 0.02,
                "training.patience": 0,
                "training.average": 0.0,
            },
        )
    ],
    expected_failed_checks=exemptions,
)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_sample_weights_are_routed_as_in_any_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.normal(size=(30, 3)), draw.random((30, 2)) < 0.5
    weights = draw.random(30)
    given: list[Any] = []
    fit = LaMPClassifier.fit

    def recorded(self: LaMPClassifier, X: Any, y: Any, sample_weight: Any = None) -> LaMPClassifier:
        given.append(sample_weight)
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(LaMPClassifier, "fit", recorded)
    with config_context(enable_metadata_routing=True):
        model = LaMPClassifier(preset="quick", base_learners="linear")
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"metric": ["micro_f1"]}, cv=2, refit=False)
        search.fit(X, Y, sample_weight=weights)
    assert sorted(np.concatenate(given)) == sorted(weights)


def test_parameters_are_shown_changed_and_cloned() -> None:
    model = LaMPClassifier(epochs=3, settings={"training.folds": 1})
    assert repr(model) == "LaMPClassifier(epochs=3, settings={'training.folds': 1})"
    copied = clone(model).set_params(epochs=4)
    assert (model.epochs, copied.epochs) == (3, 4)
    assert copied.get_params() == model.get_params() | {"epochs": 4}
    assert is_classifier(model)
    assert "LaMPClassifier" in estimator_html_repr(make_pipeline(StandardScaler(), model))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = model.no_such_name
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()


def test_it_inherits_from_scikit_learn_once_that_is_imported() -> None:
    code = """
import copy, pickle, sys
from lampnet import LaMPClassifier
early = LaMPClassifier(epochs=2)
class Derived(LaMPClassifier):
    pass
derived = Derived()
assert not hasattr(early, "model_") and not hasattr(early, "set_fit_request")
assert pickle.loads(pickle.dumps(early)).epochs == copy.copy(early).epochs == 2
assert "sklearn" not in sys.modules
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
ASK
assert isinstance(early, BaseEstimator) and isinstance(derived, ClassifierMixin)
assert clone(early).epochs == 2 and is_classifier(derived) and repr(early) == "LaMPClassifier(epochs=2)"
with sklearn.config_context(enable_metadata_routing=True):
    derived.set_fit_request(sample_weight=True)
assert copy.copy(early).get_params() == pickle.loads(pickle.dumps(early)).get_params()
"""
    for ask in ("LaMPClassifier()", "clone(derived)", "is_classifier(early)", "repr(derived)", "derived._repr_html_()"):
        subprocess.run([sys.executable, "-W", "error", "-c", code.replace("ASK", ask)], check=True)
