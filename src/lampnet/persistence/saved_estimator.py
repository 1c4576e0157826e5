"""What a model folder keeps of a `LaMPClassifier` beside its model: labels, the form of y, parameters, names.

It lies in `model.json` under facts, estimator. Folders come from strangers, so all of it is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import KINDS
from lampnet.data.from_arrays import utf8
from lampnet.data.labels import Form
from lampnet.errors import DataError, ModelFolderError
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.predictor import FittedModel

_NUMBERS = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
#: parameters that `Config` does not check, and what may stand there
_TYPES: dict[str, tuple[type, ...]] = {
    "label_graph": (str, list),
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
    epochs         how long the training was
    """

    classes: np.ndarray
    form: Form
    params: dict[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    n_features: int | None = None
    epochs: int = 0

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
        params = {name: _plain(value) for name, value in self.params.items()}
        return {
            "classes": classes,
            "class_type": kind,
            **asdict(self.form),
            "metric": self.params["metric"],  # where older versions of lampnet look for it
            "params": {name: value for name, value in params.items() if value is not _plain},
            "feature_names": list(self.feature_names),
        }

    @classmethod
    def read(cls, model: FittedModel) -> SavedEstimator:
        """What `to_json` wrote, or a sensible start for a model that the command line trained."""
        kept = model.metadata.get("estimator", {})
        epochs = model.metadata.get("epochs", 0)
        if not isinstance(kept, dict) or type(epochs) is not int or epochs < 0:
            raise ModelFolderError("what it says of the estimator or the epochs is no proper data")
        classes = _classes(kept, model.label_names)
        count = feature_count(model)
        # Models trained by the command line have the names of their tables' columns.
        default = list(getattr(model.encoder, "names", ())) if model.encoder.kind == "columns" and not kept else []
        names = kept.get("feature_names", default)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ModelFolderError("its feature names are no list of texts")
        if names and len(names) != count:
            raise ModelFolderError(f"it has {len(names)} feature names for {count} features")
        # In folders without this entry only the labels of sets and named tables are texts.
        named = all(isinstance(label, str) for label in classes.tolist())
        said = {part.name: kept.get(part.name, named and part.name == "named") for part in fields(Form)}
        if not all(isinstance(value, bool) for value in said.values()):
            raise ModelFolderError("what it says of the form of y is neither true nor false")
        return cls(classes, Form(**said), _params(kept, model), tuple(names), count, epochs)


def feature_count(model: FittedModel) -> int | None:
    """How many features the rows have; None for kinds that have no fixed features."""
    encoder: Any = model.encoder
    if encoder.kind == "vector":
        return len(encoder.mean)
    return len(encoder.names) if encoder.kind in ("wordset", "columns") else None


def _classes(kept: Mapping[str, Any], label_names: tuple[str, ...]) -> np.ndarray:
    classes = kept.get("classes", list(label_names))
    sound = isinstance(classes, list) and all(type(label) in (bool, int, float, str) for label in classes)
    if not sound or tuple(map(str, classes)) != label_names:
        raise ModelFolderError("its classes are not its label names")
    older = "int64" if {type(label) for label in classes} == {int} else "object"
    kind = kept.get("class_type", older)
    if kind not in (*_NUMBERS, "str", "object"):
        raise ModelFolderError("the type of its classes is not known")
    try:
        array = np.array(classes, dtype=kind)
    except (ValueError, OverflowError):
        raise ModelFolderError(f"its classes are not of the type {kind}") from None
    if array.tolist() != classes or list(map(type, array.tolist())) != list(map(type, classes)):
        raise ModelFolderError(f"its classes are not of the type {kind}")
    return array


def _params(kept: Mapping[str, Any], model: FittedModel) -> dict[str, Any]:
    params = kept.get("params", {"input_kind": model.encoder.kind})
    if not isinstance(params, dict):
        raise ModelFolderError("the estimator's parameters are no JSON object")
    params = {"metric": kept.get("metric", model.config.training.metric)} | params
    for name, types in _TYPES.items():
        if name in params and not isinstance(params[name], types):
            raise ModelFolderError(f"the estimator's parameter {name} is of no proper type")
    for name, known in (("metric", tuple(METRICS)), ("input_kind", ("auto", *KINDS))):
        if params.get(name, known[0]) not in known:
            raise ModelFolderError(f"the estimator's parameter {name} is none of {', '.join(known)}")
    return params


def _plain(value: Any) -> Any:
    """A parameter as JSON data; this function itself where it is none (a RandomState).

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
