"""Metrics of predicted label sets and of probabilities; NumPy and SciPy only.

The five metrics of the paper compare label sets: `y_true` and `y_pred` have shape (n, L), dense or sparse, with 1
where a row has the label. A NaN in `y_true` (stored, if sparse) is an unknown label and is left out of every count;
so are rows and labels without any known entry.

F1 is 0/0 where nothing is true and nothing is predicted. `zero_division` is the score of such a row or label:
0.0 (the default, as in scikit-learn), 1.0, or NaN to leave it out of the mean.

>>> scores = five_metrics([[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]])
>>> {name: round(score, 3) for name, score in scores.items()}
{'subset_accuracy': 0.5, 'hamming_accuracy': 0.833, 'example_f1': 0.333, 'micro_f1': 0.667, 'macro_f1': 0.333}
>>> example_f1([[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]], zero_division=1.0)
0.833...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.errors import DataError


@dataclass(frozen=True)
class _Counts:
    """Counts over the known entries, per row (n,) and per label (L,)."""

    row_hits: np.ndarray  # true and predicted
    row_true: np.ndarray
    row_predicted: np.ndarray
    row_known: np.ndarray
    label_hits: np.ndarray
    label_true: np.ndarray
    label_predicted: np.ndarray
    label_known: np.ndarray


def subset_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of rows whose whole label set is correct: the mean of I[y = ŷ].

    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    0.5
    """
    return five_metrics(y_true, y_pred)["subset_accuracy"]


def hamming_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of (row, label) entries that are correct: the mean of I[y_j = ŷ_j].

    >>> hamming_accuracy([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    0.75
    """
    return five_metrics(y_true, y_pred)["hamming_accuracy"]


def example_f1(y_true: Any, y_pred: Any, zero_division: float = 0.0) -> float:
    """Mean over rows of 2 Σ_j y_j ŷ_j / (Σ_j y_j + Σ_j ŷ_j).

    `zero_division` is the score of a row without labels for which none was predicted.

    >>> example_f1([[1, 1, 0]], [[1, 0, 0]])
    0.666...
    """
    return five_metrics(y_true, y_pred, zero_division)["example_f1"]


def micro_f1(y_true: Any, y_pred: Any, zero_division: float = 0.0) -> float:
    """F1 of all entries pooled: Σ_j 2 tp_j / Σ_j (2 tp_j + fp_j + fn_j).

    >>> micro_f1([[1, 1], [0, 1]], [[1, 0], [0, 1]])
    0.8
    """
    return five_metrics(y_true, y_pred, zero_division)["micro_f1"]


def macro_f1(y_true: Any, y_pred: Any, zero_division: float = 0.0) -> float:
    """Mean over labels of 2 tp_j / (2 tp_j + fp_j + fn_j).

    `zero_division` is the score of a label that no row has and that was never predicted.

    >>> macro_f1([[1, 1], [0, 1]], [[1, 0], [0, 1]])
    0.833...
    """
    return five_metrics(y_true, y_pred, zero_division)["macro_f1"]


#: The paper's five metrics by name; each is called with (y_true, y_pred).
METRICS: dict[str, Callable[..., float]] = {
    "subset_accuracy": subset_accuracy,
    "hamming_accuracy": hamming_accuracy,
    "example_f1": example_f1,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
}


def five_metrics(y_true: Any, y_pred: Any, zero_division: float = 0.0) -> dict[str, float]:
    """All of `METRICS` from one pass over the entries."""
    c = _count(y_true, y_pred)
    if not c.row_known.sum():
        raise DataError("y_true holds no known label, so there is nothing to score; give labelled rows")
    row_size, label_size = c.row_true + c.row_predicted, c.label_true + c.label_predicted
    exact = (c.row_hits == c.row_true) & (c.row_hits == c.row_predicted)
    hits, size = c.row_hits.sum(keepdims=True), row_size.sum(keepdims=True)
    wrong = c.row_true.sum() + c.row_predicted.sum() - 2 * c.row_hits.sum()
    return {
        "subset_accuracy": float(exact[c.row_known > 0].mean()),
        "hamming_accuracy": float(1.0 - wrong / c.row_known.sum()),
        "example_f1": _mean_of_defined(_f1(c.row_hits, row_size, zero_division)[c.row_known > 0]),
        "micro_f1": float(_f1(hits, size, zero_division)[0]),
        "macro_f1": _mean_of_defined(_f1(c.label_hits, label_size, zero_division)[c.label_known > 0]),
    }


def example_f1_by_row(y_true: Any, y_pred: Any, zero_division: float = 0.0) -> np.ndarray:
    """The F1 of each row, float (n,); NaN for a row without a known label. `example_f1` is their mean.

    >>> example_f1_by_row([[1, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 1]]).round(3).tolist()
    [0.667, 1.0]
    """
    c = _count(y_true, y_pred)
    return np.where(c.row_known > 0, _f1(c.row_hits, c.row_true + c.row_predicted, zero_division), np.nan)


def ranking_metrics(y_true: Any, proba: Any) -> dict[str, float]:
    """Metrics of probabilities, before any decision.

    Areas under the ROC curve (ties count half), per label and of all known entries pooled, and mean average
    precision Σ_k (R_k - R_{k-1}) P_k (tied rows enter together). Labels whose known rows are all positive or all
    negative are left out and counted in `labels_skipped`; a metric without any label left is NaN.

    >>> ranking_metrics([[1, 0], [0, 0]], [[0.9, 0.1], [0.4, 0.2]])
    {'roc_auc_macro': 1.0, 'roc_auc_micro': 1.0, 'average_precision_macro': 1.0, 'labels_skipped': 1}
    """
    truth, scores = _ranking_input(y_true, proba)
    areas = _roc_auc_columns(truth, scores)
    return {
        "roc_auc_macro": _mean_of_defined(areas),
        "roc_auc_micro": float(_roc_auc_columns(truth.reshape(-1, 1), scores.reshape(-1, 1))[0]),
        "average_precision_macro": _mean_of_defined(_average_precision_columns(truth, scores)),
        "labels_skipped": int(np.isnan(areas).sum()),
    }


def _f1(hits: np.ndarray, size: np.ndarray, zero_division: float) -> np.ndarray:
    """2 hits / size, where size = true + predicted = 2 tp + fp + fn."""
    if not (zero_division in (0.0, 1.0) or np.isnan(zero_division)):
        raise DataError(f"zero_division={zero_division!r} must be 0.0, 1.0 or NaN")
    scores = np.full(size.shape, float(zero_division))
    np.divide(2.0 * hits, size, out=scores, where=size > 0)
    return scores


def _mean_of_defined(scores: np.ndarray) -> float:
    defined = scores[~np.isnan(scores)]
    return float(defined.mean()) if defined.size else float("nan")


def _count(y_true: Any, y_pred: Any) -> _Counts:
    truth, predicted = _matrix(y_true, "y_true"), _matrix(y_pred, "y_pred")
    _check_shapes(truth, predicted, "y_pred")
    if sparse.issparse(truth) or sparse.issparse(predicted):
        # Copies: duplicates are summed in place, and the caller's matrices are not ours to change.
        return _count_sparse(*(sparse.csr_matrix(matrix, copy=True) for matrix in (truth, predicted)))
    known = _check_truth(truth)
    _check_predicted(predicted)
    true, given = (truth != 0) & known, (predicted != 0) & known
    hits = true & given
    return _Counts(*(part.sum(axis=axis) for axis in (1, 0) for part in (hits, true, given, known)))


def _count_sparse(truth: Any, predicted: Any) -> _Counts:
    truth.sum_duplicates()
    predicted.sum_duplicates()
    stored_known = _check_truth(truth.data)
    _check_predicted(predicted.data)

    def pattern(matrix: Any, keep: np.ndarray) -> Any:
        # A copy: eliminating zeros in place must not touch the matrix the pattern came from.
        parts = keep.astype(np.int64), matrix.indices, matrix.indptr
        chosen = sparse.csr_matrix(parts, shape=matrix.shape, copy=True)
        chosen.eliminate_zeros()
        return chosen

    true = pattern(truth, stored_known & (truth.data != 0))
    unknown = pattern(truth, ~stored_known)
    given = pattern(predicted, predicted.data != 0)
    given = given - given.multiply(unknown)
    hits = true.multiply(given)
    sums: list[np.ndarray] = []
    for axis in (1, 0):
        sums += [np.asarray(part.sum(axis=axis)).ravel() for part in (hits, true, given)]
        sums.append(truth.shape[axis] - np.asarray(unknown.sum(axis=axis)).ravel())
    return _Counts(*sums)


def _matrix(values: Any, name: str) -> Any:
    matrix = values if sparse.issparse(values) else np.asarray(values)
    if matrix.ndim != 2:
        raise DataError(f"{name} has {matrix.ndim} axes; give an indicator matrix of shape (rows, labels)")
    if matrix.dtype.kind not in "buif":
        raise DataError(f"{name} holds values of type {matrix.dtype}; give numbers, 1 where a row has the label")
    return matrix


def _check_shapes(truth: Any, other: Any, name: str) -> None:
    if truth.shape != other.shape:
        raise DataError(f"y_true has shape {truth.shape} but {name} has {other.shape}; they must be the same")


def _check_truth(values: np.ndarray) -> np.ndarray:
    """Where the truth is known; anything but 0, 1 and NaN is refused."""
    known: np.ndarray = ~np.isnan(values)
    if not np.all((values == 0) | (values == 1) | ~known):
        raise DataError("y_true must hold 0, 1 or NaN (unknown) only")
    return known


def _check_predicted(values: np.ndarray) -> None:
    if not np.all((values == 0) | (values == 1)):
        raise DataError(
            "y_pred must hold 0 and 1 only; turn probabilities into label sets first (lampnet.evaluation.rules)"
        )


def _ranking_input(y_true: Any, proba: Any) -> tuple[np.ndarray, np.ndarray]:
    """Truth as 0, 1, NaN and scores with NaN where the truth is unknown, both float64 (n, L)."""
    truth, scores = _matrix(y_true, "y_true"), _matrix(proba, "proba")
    _check_shapes(truth, scores, "proba")
    truth = np.asarray(truth.toarray() if sparse.issparse(truth) else truth, dtype=np.float64)
    scores = np.asarray(scores.toarray() if sparse.issparse(scores) else scores, dtype=np.float64)
    known = _check_truth(truth)
    if not np.isfinite(scores).all():
        raise DataError("proba holds NaN or infinite values; probabilities must be finite")
    return truth, np.where(known, scores, np.nan)


def _ranks(scores: np.ndarray, method: str) -> np.ndarray:
    """Ranks down each column from 1, NaN left out."""
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(scores, method=method, axis=0, nan_policy="omit"))


def _roc_auc_columns(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Area under each column's ROC curve from the ranks of its positives (Mann-Whitney); NaN without both classes."""
    positive = truth == 1
    n_positive = positive.sum(axis=0)
    n_negative = (truth == 0).sum(axis=0)
    areas = np.full(truth.shape[1], np.nan)
    both = (n_positive > 0) & (n_negative > 0)
    if not both.any():
        return areas
    ranks = _ranks(scores[:, both], "average")
    p, q = n_positive[both], n_negative[both]
    rank_sum = np.where(positive[:, both], ranks, 0.0).sum(axis=0)
    areas[both] = (rank_sum - p * (p + 1) / 2) / (p * q)
    return areas


def _average_precision_columns(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Average precision of each column: the mean precision at the rank of each positive."""
    positive = truth == 1
    n_positive = positive.sum(axis=0)
    n_known = (~np.isnan(truth)).sum(axis=0)
    result = np.full(truth.shape[1], np.nan)
    both = (n_positive > 0) & (n_positive < n_known)
    if not both.any():
        return result
    scores, positive = scores[:, both], positive[:, both]
    # The lowest rank of a tie gives the number of rows with this score or a higher one.
    above = n_known[both] + 1 - _ranks(scores, "min")
    true_above = n_positive[both] + 1 - _ranks(np.where(positive, scores, np.nan), "min")
    precision = np.divide(true_above, above, out=np.zeros(scores.shape), where=positive)
    result[both] = precision.sum(axis=0) / n_positive[both]
    return result
