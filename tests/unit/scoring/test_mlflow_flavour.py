"""A model folder as an MLflow pyfunc model."""

from __future__ import annotations

from pathlib import Path

import pytest

from lampnet import LaMPClassifier

pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


def test_the_loaded_model_predicts_what_lampnet_does(films: Path, parts: Path, tmp_path: Path) -> None:
    import mlflow
    import pandas as pd

    from lampnet.scoring.mlflow_flavour import save_model

    save_model(films, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    frame, model = pd.read_parquet(parts / "part-0.parquet"), LaMPClassifier.load(films)
    found = loaded.predict(frame)
    assert [list(labels) for labels in found["labels"]] == model.predict_labels(frame)
    one = loaded.predict(frame, params={"top_k": 1})
    assert [list(labels) for labels in one["labels"]] == model.predict_labels(frame, top_k=1)
    signature = loaded.metadata.signature
    assert [(column.name, str(column.type)) for column in signature.inputs] == [
        ("plot", "DataType.string"), ("year", "DataType.double"),
    ]  # fmt: skip
    assert signature.outputs.input_names() == ["id", "labels", "scores"]
    with pytest.raises(mlflow.exceptions.MlflowException):
        loaded.predict(frame.assign(year="no number"))
    assert not list((tmp_path / "saved").rglob("*.pkl"))
