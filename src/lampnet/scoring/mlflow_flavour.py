"""MLflow: a model folder as a `pyfunc` model with a signature. Nothing is pickled; MLflow loads the folder itself.

from lampnet.scoring.mlflow_flavour import save_model
save_model("model", "mlflow-model")
mlflow.pyfunc.load_model("mlflow-model").predict(frame)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lampnet import __version__
from lampnet.errors import ConfigError, MissingExtra
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model
from lampnet.scoring.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

#: parameters of `predict` and their defaults
PARAMETERS = {"metric": "example_f1", "top_k": 0, "threshold": 0.0}


def save_model(folder: str | Path, path: str | Path) -> None:
    """Write an MLflow model, which holds a copy of the model folder."""
    mlflow, fields = _prepared(folder)
    mlflow.pyfunc.save_model(str(path), **fields)


def log_model(folder: str | Path, name: str = "model") -> Any:
    """Log an MLflow model to the run that is going on; MLflow's description of it is returned."""
    mlflow, fields = _prepared(folder)
    return mlflow.pyfunc.log_model(name=name, **fields)


def _prepared(folder: str | Path) -> tuple[Any, dict[str, Any]]:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError:
        raise MissingExtra("mlflow", "mlflow", "an MLflow model") from None
    return mlflow, {
        "loader_module": __name__,
        "data_path": str(Path(folder).resolve()),
        "signature": signature(load_model(folder)),
        "pip_requirements": [f"lampnet=={__version__}", "pandas"],
    }


def signature(model: FittedModel) -> Any:
    """The columns that rows have, what `predict` gives, and its parameters."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array

    kinds = {"text": DataType.string, "double": DataType.double}
    columns = [ColSpec(kinds[kind], name, required=False) for name, kind in input_columns(model)]
    labels = [ColSpec(DataType.string, "id"), ColSpec(Array(DataType.string), "labels")]
    scores = [ColSpec(Array(DataType.float), "scores")]
    types = {str: DataType.string, int: DataType.long, float: DataType.double}
    parameters = [ParamSpec(name, types[type(value)], value) for name, value in PARAMETERS.items()]
    return ModelSignature(Schema(columns), Schema(labels + scores), ParamSchema(parameters))


def input_columns(model: FittedModel) -> list[tuple[str, str]]:
    """The columns of a frame with rows for this model, each "text" or "double"."""
    encoder = model.encoder
    if encoder.kind == "parts":
        return [(name, "double" if role == "number" else "text") for name, role in encoder.roles]
    if encoder.kind == "columns":
        categories = encoder.no_rows().categories
        return [(name, "text" if n in categories else "double") for n, name in enumerate(encoder.feature_names)]
    source = model.metadata.get("source")
    columns = source.get("columns") if isinstance(source, dict) else None
    named = columns.get(encoder.kind) if isinstance(columns, dict) else None
    if encoder.kind == "text":
        return [(named if isinstance(named, str) else "text", "text")]
    raise ConfigError(
        f"a model of {encoder.kind} rows has no columns that an MLflow signature could name; models of texts, tables "
        "and rows of several parts have; export this one as ONNX"
    )


def _load_pyfunc(data_path: str) -> _Served:
    """What MLflow calls to load the model."""
    return _Served(data_path)


class _Served:
    """The model as MLflow calls it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.predictor = Predictor(folder)

    def predict(self, frame: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Label sets and scores; `params` are those of the signature, 0 for none."""
        given = PARAMETERS | dict(params or {})
        asked = {name: value for name in ("top_k", "threshold") if (value := given[name])}
        if given["metric"] == self.predictor.metric and not asked:
            return self.predictor(frame)
        return Predictor(self.folder, metric=str(np.asarray(given["metric"])), asked=asked)(frame)
