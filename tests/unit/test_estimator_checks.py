"""scikit-learn's own checks of an estimator; each exemption has its reason."""

from __future__ import annotations

from typing import Any

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
