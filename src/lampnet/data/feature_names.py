"""n_features_in_, feature_names_in_ and columns_ of the estimator: remembered at fit, the first two compared later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.from_arrays import column_names, holds_words, in_seconds, is_frame, unmasked, with_columns
from lampnet.data.named_columns import as_dataset, columns_of, part_rows, without_dict
from lampnet.data.parts import PartRows
from lampnet.data.schema import align_parts
from lampnet.errors import DataError
from lampnet.runtime.warning_filters import WARNING_FILTERS

#: kinds of rows that have a fixed number of features
FEATURED = ("wordset", "vector", "columns", "parts")
NAMES = ("n_features_in_", "feature_names_in_", "columns_")


def keep_features(estimator: Any, seen: Any = None) -> None:
    """Give the estimator what `seen` remembers of its features, and nothing older."""
    for name in NAMES:
        estimator.__dict__.pop(name, None)
        if seen is not None and name in seen.__dict__:
            setattr(estimator, name, getattr(seen, name))


def checked(estimator: Any, X: Any, kind: str, reset: bool) -> Any:
    """scikit-learn's own checks for numbers, if needed; names and widths remembered (`reset`) or compared."""
    if kind == "parts" and isinstance(X, Mapping):
        if reset:
            estimator.n_features_in_ = len(X)
            estimator.feature_names_in_ = np.array(list(map(str, X)), dtype=object)
        return X
    if kind not in FEATURED:
        return X
    if isinstance(X, Table):
        if reset:
            estimator.n_features_in_ = len(X.names)
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
        return X
    if not reset and _as_checked(estimator, X, kind):
        return X
    from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data  # heavy to import

    if is_frame(X):
        column_names(X)
    if is_frame(X) or kind == "parts" or (kind == "columns" and holds_words(X)):
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        X = in_seconds(X)
    finite: Any = "allow-nan" if kind == "columns" else True
    with WARNING_FILTERS.held():
        return validate_data(
            estimator, X, reset=reset, accept_sparse=("csr", "csc"), dtype="numeric", ensure_all_finite=finite
        )


def _as_checked(estimator: Any, X: Any, kind: str) -> bool:
    """Whether scikit-learn's checks would give X back as it is: numbers without names, as wide as at fit."""
    if "feature_names_in_" in estimator.__dict__ or "n_features_in_" not in estimator.__dict__:
        return False
    compressed = sparse.issparse(X) and X.format in ("csr", "csc")
    if not (compressed or type(X) is np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiub" or X.shape[0] == 0:
        return False
    values = X.data if compressed else X
    finite = np.isfinite(values).all() or (kind == "columns" and not np.isinf(values).any())
    return bool(finite) and X.shape[1] == estimator.n_features_in_


def rows_for(estimator: Any, X: Any) -> Dataset:
    """X as rows for the fitted model; a table's columns by position, because their names have been compared."""
    encoder = estimator.model_.encoder
    X = without_dict(unmasked(with_columns(X)), encoder.kind)
    if encoder.kind == "parts":
        return _parts_for(estimator, X, encoder)
    data = as_dataset(checked(estimator, X, encoder.kind, reset=False), encoder.kind)
    if encoder.kind != "columns" or (isinstance(X, Table) and hasattr(estimator, "feature_names_in_")):
        return data  # a Table's columns are found by name, in any order
    if len(data.rows.names) != len(encoder.feature_names):
        raise DataError(f"X has {len(data.rows.names)} columns, the model was fitted with {len(encoder.feature_names)}")
    # Where one side has no names, or numbers for names, scikit-learn has warned.
    return replace(data, rows=replace(data.rows, names=encoder.feature_names))


def _parts_for(estimator: Any, X: Any, encoder: Any) -> Dataset:
    """Columns as the parts of the fitted model, whose roles are not guessed again."""
    if isinstance(X, PartRows):
        rows = X
    elif is_frame(X) or isinstance(X, Mapping) or (isinstance(X, np.ndarray) and X.ndim == 2):
        columns = columns_of(checked(estimator, X, encoder.kind, reset=False))
        if not isinstance(X, Mapping):  # by position: the names have been compared, where there are any
            columns = dict(zip((name for name, _ in encoder.roles), columns.values(), strict=False))
        rows = part_rows(columns, encoder.roles)
    else:
        raise DataError(
            f"X is {type(X).__name__}, but the model was trained on several columns; give a DataFrame or a dict"
        )
    rows = align_parts(encoder.no_rows(), rows, "X")
    return Dataset(name="X", kind="parts", rows=rows, labels=None, label_names=())
