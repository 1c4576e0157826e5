"""One predictor for files and frames, in plain Python, Dask and Spark: the same rows get the same predictions."""

from __future__ import annotations

import shutil
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


def test_in_dask(films: Path, parts: Path, frame: Any) -> None:
    """As docs/export.md shows it."""
    dask = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    rows = dask.read_parquet([str(file) for file in sorted(parts.glob("*.parquet"))])
    empty = Predictor(films)(frame[:1])[:0]
    found = rows.map_partitions(Predictor(films), meta=empty).compute(scheduler="threads")
    expected = Predictor(films)(frame)
    assert [list(labels) for labels in found["labels"]] == [list(labels) for labels in expected["labels"]]


def test_in_spark(films: Path, parts: Path, frame: Any) -> None:
    """As docs/export.md shows it."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    spark = sql.SparkSession.builder.master("local[1]").getOrCreate()

    def score(batches: Any) -> Any:
        predict = Predictor(films)
        yield from map(predict, batches)

    schema = "id string, labels array<string>, scores array<float>"
    found = spark.read.parquet(str(parts)).mapInPandas(score, schema).toPandas()
    expected = Predictor(films)(frame)
    assert sorted(map(sorted, found["labels"])) == sorted(map(sorted, expected["labels"]))
    spark.stop()
