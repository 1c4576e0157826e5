"""The scores equal scikit-learn's, dense and sparse, and leave unknown labels out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn import metrics as sk

from lampnet.errors import DataError
from lampnet.evaluation import metrics

SHAPES = st.tuples(st.integers(1, 8), st.integers(2, 6))


@st.composite
def indicator_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(SHAPES)
    bits = hnp.arrays(np.int64, shape, elements=st.integers(0, 1))
    return draw(bits), draw(bits)


@st.composite
def truth_with_gaps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, its copy with unknown entries, predictions; one entry stays known."""
    truth, predicted = draw(indicator_pairs())
    hidden = draw(hnp.arrays(np.bool_, truth.shape))
    hidden[0, 0] = False
    return truth, np.where(hidden, np.nan, truth), predicted


def reference(truth: np.ndarray, predicted: np.ndarray, zero_division: float) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "subset_accuracy": sk.accuracy_score(truth, predicted),
            "hamming_accuracy": 1 - sk.hamming_loss(truth, predicted),
            "example_f1": sk.f1_score(truth, predicted, average="samples", zero_division=zero_division),
            "micro_f1": sk.f1_score(truth, predicted, average="micro", zero_division=zero_division),
            "macro_f1": sk.f1_score(truth, predicted, average="macro", zero_division=zero_division),
        }


def test_sparse_matrices_are_left_as_they_are() -> None:
    # The first row stores its label twice, as half of it each time, and the second out of order.
    parts = np.array([0.5, 0.5, 1.0, 1.0]), np.array([1, 1, 2, 0]), np.array([0, 2, 4])
    truth, predicted = (sparse.csr_matrix(parts, shape=(2, 3), copy=True) for _ in range(2))
    assert metrics.five_metrics(truth, predicted)["micro_f1"] == 1.0
    for matrix in (truth, predicted):
        for now, before in zip((matrix.data, matrix.indices, matrix.indptr), parts, strict=True):
            np.testing.assert_array_equal(now, before)


@settings(deadline=None)
@given(indicator_pairs(), st.sampled_from([0.0, 1.0, np.nan]))
def test_equal_to_scikit_learn(pair: tuple[np.ndarray, np.ndarray], zero_division: float) -> None:
    truth, predicted = pair
    expected = reference(truth, predicted, zero_division)
    for t, p in [
        (truth, predicted),
        (truth.astype(bool), predicted.astype(bool)),
        (sparse.csr_matrix(truth), sparse.csr_matrix(predicted)),
        (sparse.csc_matrix(truth), predicted.astype(float)),
    ]:
        got = metrics.five_metrics(t, p, zero_division=zero_division)
        assert got == pytest.approx(expected, abs=1e-12, nan_ok=True)
        for name in ("example_f1", "micro_f1", "macro_f1"):
            one = metrics.METRICS[name](t, p, zero_division=zero_division)
            assert one == pytest.approx(expected[name], abs=1e-12, nan_ok=True)
        assert metrics.subset_accuracy(t, p) == pytest.approx(expected["subset_accuracy"])
        assert metrics.hamming_accuracy(t, p) == pytest.approx(expected["hamming_accuracy"])


def slow_with_unknown(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """The paper's formulas as loops over known entries."""
    known = ~np.isnan(truth)

    def f1(t: np.ndarray, p: np.ndarray) -> float:
        size = t.sum() + p.sum()
        return 2 * (t * p).sum() / size if size else 0.0

    rows = [(truth[i, known[i]], predicted[i, known[i]]) for i in range(len(truth)) if known[i].any()]
    columns = [(truth[known[:, j], j], predicted[known[:, j], j]) for j in range(truth.shape[1]) if known[:, j].any()]
    return {
        "subset_accuracy": np.mean([np.array_equal(t, p) for t, p in rows]),
        "hamming_accuracy": np.mean(truth[known] == predicted[known]),
        "example_f1": np.mean([f1(t, p) for t, p in rows]),
        "micro_f1": f1(truth[known], predicted[known]),
        "macro_f1": np.mean([f1(t, p) for t, p in columns]),
    }


@given(truth_with_gaps())
def test_unknown_labels_are_left_out(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    _, truth, predicted = case
    expected = slow_with_unknown(truth, predicted)
    assert metrics.five_metrics(truth, predicted) == pytest.approx(expected)
    stored = sparse.csr_matrix(np.where(np.isnan(truth), 7, truth))
    stored.data[stored.data == 7] = np.nan
    assert metrics.five_metrics(stored, sparse.csr_matrix(predicted)) == pytest.approx(expected)


def reference_ranking(truth: np.ndarray, proba: np.ndarray) -> tuple[float, float, float, int]:
    areas, precisions, skipped = [], [], 0
    for t, p in zip(truth.T, proba.T, strict=True):
        known = ~np.isnan(t)
        if len(set(t[known])) < 2:
            skipped += 1
            continue
        areas.append(sk.roc_auc_score(t[known], p[known]))
        precisions.append(sk.average_precision_score(t[known], p[known]))
    known = ~np.isnan(truth)
    micro = sk.roc_auc_score(truth[known], proba[known]) if len(set(truth[known])) == 2 else np.nan
    return np.mean(areas) if areas else np.nan, micro, np.mean(precisions) if areas else np.nan, skipped


@given(truth_with_gaps(), st.data())
@settings(deadline=None)
def test_ranking_equal_to_scikit_learn_with_ties(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    _, truth, _ = case
    # A coarse grid, so that ties are common.
    proba = data.draw(hnp.arrays(np.float64, truth.shape, elements=st.sampled_from([0.0, 0.1, 0.5, 0.9])))
    macro, micro, precision, skipped = reference_ranking(truth, proba)
    got = metrics.ranking_metrics(truth, proba)
    assert got["roc_auc_macro"] == pytest.approx(macro, nan_ok=True)
    assert got["roc_auc_micro"] == pytest.approx(micro, nan_ok=True)
    assert got["average_precision_macro"] == pytest.approx(precision, nan_ok=True)
    assert got["labels_skipped"] == skipped


def test_five_names() -> None:
    names = ["subset_accuracy", "hamming_accuracy", "example_f1", "micro_f1", "macro_f1"]
    assert list(metrics.METRICS) == names
    assert list(metrics.five_metrics([[1]], [[1]])) == names


@pytest.mark.parametrize(
    ("truth", "predicted", "words"),
    [
        ([[1, 0]], [[1, 0, 0]], r"\(1, 2\).*\(1, 3\)"),
        ([[1, 2]], [[1, 0]], "0, 1 or NaN"),
        ([[1, 0]], [[0.7, 0]], "probabilities into label sets"),
        ([1, 0], [1, 0], "1 axes"),
        ([[np.nan, np.nan]], [[1, 0]], "nothing to score"),
        ([["a"]], [["a"]], "type"),
    ],
)
def test_mistakes_are_named(truth: list, predicted: list, words: str) -> None:
    with pytest.raises(DataError, match=words):
        metrics.five_metrics(truth, predicted)


def test_zero_division_is_checked() -> None:
    with pytest.raises(DataError, match="zero_division"):
        metrics.example_f1([[0]], [[0]], zero_division=0.5)


def test_probabilities_must_be_finite() -> None:
    with pytest.raises(DataError, match="finite"):
        metrics.ranking_metrics([[1], [0]], [[np.nan], [0.1]])
