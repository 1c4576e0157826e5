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


def test_a_model_logged_in_a_run_is_loaded_from_it(films: Path, parts: Path, tmp_path: Path) -> None:
    import mlflow
    import pandas as pd

    from lampnet.scoring.mlflow_flavour import log_model

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'tracking.db'}")
    try:
        experiment = mlflow.create_experiment("films", artifact_location=(tmp_path / "artifacts").as_uri())
        with mlflow.start_run(experiment_id=experiment) as run:
            logged = log_model(films, "tags")
        assert logged.run_id == run.info.run_id
        assert [column.name for column in logged.signature.inputs] == ["plot", "year"]
        (listed,) = mlflow.search_logged_models([experiment], output_format="list")
        assert (listed.name, listed.source_run_id) == ("tags", run.info.run_id)
        loaded = mlflow.pyfunc.load_model(logged.model_uri)
        frame, model = pd.read_parquet(parts / "part-1.parquet"), LaMPClassifier.load(films)
        found = loaded.predict(frame, params={"top_k": 2})
        assert [list(labels) for labels in found["labels"]] == model.predict_labels(frame, top_k=2)
        files = [path.name for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]
        assert {"MLmodel", "model.json"} <= set(files)
        assert not [name for name in files if name.endswith((".pkl", ".pickle"))]
    finally:
        mlflow.set_tracking_uri(before)
