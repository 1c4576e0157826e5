"""What a model folder keeps of a `LaMPClassifier` beside its model: labels, the form of y, parameters, names.

It lies in `model.json` under metadata, estimator. Folders are untrusted, so all of it is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import KINDS
from lampnet.data.labels import Form
from lampnet.data.named_columns import ALIASES
from lampnet.data.names import utf8
from lampnet.data.parts import COLUMN_KINDS
from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.predictor import FittedModel

_NUMBERS = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
#: parameters that `Config` does not check, and what may stand there
_TYPES: dict[str, tuple[type, ...]] = {
    "label_graph": (str, list, type(None)),
    "label_hierarchy": (str, dict, list, type(None)),
    "columns": (dict, type(None)),
    "label_weight": (str, dict, type(None)),
    "settings": (dict, type(None)),
    "validation_fraction": (int, float, type(None)),
    "random_state": (int, type(None)),
    "verbose": (int, float, type(None)),
}


@dataclass(frozen=True)
class SavedEstimator:
    """The estimator's own part of a model folder.

    classes        the L labels as the caller knows them
    form           what y looked like
    params         the constructor's parameters that are plain data
    feature_names  where X had names
    n_features     of word sets, vectors and tables; None for other kinds
    epochs         how many epochs the training had
    columns        role -> the columns that have it, where X had named columns
    """

    classes: np.ndarray
    form: Form
    params: dict[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    n_features: int | None = None
    epochs: int = 0
    columns: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON data; labels that would come back as something else are refused."""
        classes, dtype = self.classes.tolist(), self.classes.dtype
        strange = [label for label in classes if type(label) not in (bool, int, float, str)]
        if strange or dtype.kind not in "biufUOT":
            label = strange[0] if strange else self.classes[0]
            raise DataError(
                f"the label {label!r} is {type(label).__name__}, which a model folder cannot keep; "
                "fit with labels that are texts, numbers or booleans"
            )
        kind = dtype.name if dtype.name in _NUMBERS else "object" if dtype.kind == "O" else "str"
        plain = {name: _plain(value) for name, value in self.params.items()}
        params = {name: value for name, value in plain.items() if value is not _plain}
        own = {"classes": classes, "class_type": kind, "params": params, "feature_names": list(self.feature_names)}
        return own | asdict(self.form) | {"columns": self.columns}

    @classmethod
    def read(cls, model: FittedModel) -> SavedEstimator:
        """What `to_json` wrote; for a model that the command line trained, its own labels and settings."""
        saved, epochs = model.metadata.get("estimator"), model.metadata.get("epochs")
        encoder, count = model.encoder, model.encoder.feature_count
        if type(epochs) is not int or epochs < 0:
            raise ModelFolderError("its number of epochs is not a whole number")
        if saved is None:
            params = {"metric": model.config.training.metric, "input_kind": encoder.kind}
            columns = encoder.feature_names if encoder.kind == "columns" else tuple(name for name, _ in encoder.roles)
            labels = np.array(model.label_names, dtype=object)
            return cls(labels, Form(named=True), params, columns, count, epochs, _columns_of_file(model))
        if not isinstance(saved, dict):
            raise ModelFolderError("the description of its estimator is not a JSON object")
        names = saved.get("feature_names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ModelFolderError("its feature names are not a list of texts")
        if names and len(names) != count:
            raise ModelFolderError(f"it has {len(names)} feature names for {count} features")
        form: dict[str, Any] = {part.name: saved.get(part.name) for part in fields(Form)}
        if not all(isinstance(value, bool) for value in form.values()):
            raise ModelFolderError("its description of the form of y is neither true nor false")
        classes = _classes(saved, model.label_names)
        roles = _columns(saved.get("columns", {}))
        return cls(classes, Form(**form), _params(saved), tuple(names), count, epochs, roles)


def _columns(given: Any) -> dict[str, list[str]]:
    """Role -> columns, as a model folder has it."""
    if not isinstance(given, dict) or not set(given) <= set(COLUMN_KINDS):
        raise ModelFolderError("the roles of its columns are not known")
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in given.values()):
        raise ModelFolderError("its columns are not lists of names")
    return given


def _columns_of_file(model: FittedModel) -> dict[str, list[str]]:
    """Role -> columns of the file that the command line trained with; empty where it was no table."""
    found: dict[str, list[str]] = {}
    if model.encoder.roles:
        for name, role in model.encoder.roles:
            found.setdefault(role, []).append(name)
        return found
    source = model.metadata.get("source")
    given = source.get("columns") if isinstance(source, dict) else None
    given = given if isinstance(given, dict) else {}
    taken: set[str] = set()
    # `features` names every column of a table of numbers, categories and dates: it comes last.
    for role, names in sorted(given.items(), key=lambda pair: pair[0] == "features"):
        called = ALIASES.get(role, role)
        names = [names] if isinstance(names, str) else names
        if called in COLUMN_KINDS and isinstance(names, (list, tuple)):
            own = [name for name in names if isinstance(name, str) and name not in taken]
            taken.update(own)
            found |= {called: own} if own else {}
    return found


def _classes(saved: Mapping[str, Any], label_names: tuple[str, ...]) -> np.ndarray:
    classes, kind = saved.get("classes"), saved.get("class_type")
    if not isinstance(classes, list) or not all(type(label) in (bool, int, float, str) for label in classes):
        raise ModelFolderError("its classes are not a list of texts and numbers")
    if tuple(map(str, classes)) != label_names:
        raise ModelFolderError("its classes are not its label names")
    if kind not in (*_NUMBERS, "str", "object"):
        raise ModelFolderError("the type of its classes is not known")
    with suppress(ValueError, OverflowError):
        array = np.array(classes, dtype=kind)
        if array.tolist() == classes and list(map(type, array.tolist())) == list(map(type, classes)):
            return array
    raise ModelFolderError(f"its classes are not of the type {kind}")


def _params(saved: Mapping[str, Any]) -> dict[str, Any]:
    params = saved.get("params")
    if not isinstance(params, dict):
        raise ModelFolderError("the estimator's parameters are not a JSON object")
    for name, types in _TYPES.items():
        if name in params and not isinstance(params[name], types):
            raise ModelFolderError(f"the estimator's parameter {name} has the wrong type")
    for name, known in (("metric", tuple(METRICS)), ("input_kind", ("auto", *KINDS))):
        if params.get(name, known[0]) not in known:
            raise ModelFolderError(f"the estimator's parameter {name} is not one of {', '.join(known)}")
    return params


def _plain(value: Any) -> Any:
    """A parameter as JSON data; this function itself where that cannot be (a RandomState).

    >>> _plain({"a": (1, np.float64(2))}), _plain(np.array([[0, 1]])), _plain({1, 2}) is _plain
    ({'a': [1, 2.0]}, [[0, 1]], True)
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Path):
        value = str(value)
    if value is None or type(value) in (bool, int, float):
        return value
    if type(value) is str:
        return value if utf8(value) else _plain
    if isinstance(value, (list, tuple)):
        parts = [_plain(part) for part in value]
        return _plain if any(part is _plain for part in parts) else parts
    if isinstance(value, Mapping) and all(type(key) is str and utf8(key) for key in value):
        entries = {key: _plain(part) for key, part in value.items()}
        return _plain if any(part is _plain for part in entries.values()) else entries
    return _plain
