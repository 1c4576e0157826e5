"""One predictor for files and frames, in plain Python, Dask and Spark: the same rows get the same predictions."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.errors import ConfigError
from lampnet.scoring.predictor import Predictor

pd = pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture
def frame(parts: Path) -> Any:
    whole = pd.concat([pd.read_parquet(file) for file in sorted(parts.glob("*.parquet"))])
    return whole.set_index(np.arange(len(whole))[::-1])


def test_a_frame_gets_what_the_classifier_predicts(films: Path, frame: Any) -> None:
    model = LaMPClassifier.load(films)
    found = Predictor(films)(frame)
    assert [list(labels) for labels in found["labels"]] == model.predict_labels(frame)
    assert found.index.equals(frame.index)
    wide = Predictor(films, all_scores=True, asked={"top_k": 1})(frame)
    scores = wide[[f"score: {name}" for name in model.classes_]].to_numpy()
    np.testing.assert_allclose(scores, model.predict_proba(frame), atol=1e-6)
    assert {len(labels) for labels in wide["labels"]} == {1}


def test_parts_of_the_rows_are_predicted_as_the_whole(films: Path, frame: Any) -> None:
    predict = Predictor(films)
    whole = predict(frame)
    apart = pd.concat([predict(frame[first : first + 13]) for first in range(0, len(frame), 13)])
    pd.testing.assert_frame_equal(whole.drop(columns="id"), apart.drop(columns="id"))


def test_mistakes(films: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        Predictor(films, metric="mikro_f1")
    with pytest.raises(ConfigError):
        Predictor(films, asked={"top_k": -1})


def documented(tool: str) -> str:
    """The Python of docs/export.md that uses this tool."""
    page = (Path(__file__).parents[3] / "docs" / "export.md").read_text(encoding="utf-8")
    [code] = [code for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if f"{tool}." in code]
    return code


@pytest.fixture
def beside_the_rows(films: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the rows and the model, where the examples look for them."""
    (parts / "notes.txt").unlink()
    (parts.parent / "model").symlink_to(films)
    monkeypatch.chdir(parts.parent)


@pytest.mark.usefixtures("beside_the_rows")
def test_the_dask_example_as_printed(films: Path, parts: Path) -> None:
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    exec(compile(documented("dask"), "the Dask example", "exec"), {"__name__": "example"})
    predict, written = Predictor(films), sorted(Path("predicted").glob("*.parquet"))
    assert len(written) == 4
    for rows, found in zip(sorted(parts.glob("*.parquet")), map(pd.read_parquet, written), strict=True):
        expected = predict(pd.read_parquet(rows))
        assert [list(labels) for labels in found["labels"]] == [list(labels) for labels in expected["labels"]]


@pytest.mark.usefixtures("beside_the_rows")
@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_the_spark_example_as_printed(films: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed: make test-scoring installs it")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    options = "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", options)
    names: dict[str, Any] = {"__name__": "__main__"}  # functions of the example travel to the workers by value
    try:
        exec(compile(documented("pyspark"), "the Spark example", "exec"), names)
    finally:
        if "spark" in names:
            names["spark"].stop()
    found = pd.read_parquet("predicted").sort_values(["plot", "year"], ignore_index=True)
    rows = pd.concat([pd.read_parquet(file) for file in sorted(parts.glob("*.parquet"))])
    rows = rows.sort_values(["plot", "year"], ignore_index=True)
    pd.testing.assert_frame_equal(found[["plot", "year"]], rows, check_dtype=False)
    expected = Predictor(films)(rows)
    assert [list(one["labels"]) for one in found["tags"]] == [list(labels) for labels in expected["labels"]]
    for one, scores in zip(found["tags"], expected["scores"], strict=True):
        np.testing.assert_allclose(one["scores"], scores, atol=1e-6)
