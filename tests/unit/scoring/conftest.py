"""A small model of tables with a text, and Parquet files of such rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier

WORDS = np.array(["rome", "oslo", "cup", "rain", "news", "final"])


def frame_of(n: int, seed: int) -> Any:
    import pandas as pd

    random = np.random.default_rng(seed)
    plots = [" ".join(random.choice(WORDS, random.integers(1, 7))) + f" film {i % 5}" for i in range(n)]
    year = np.where(random.random(n) < 0.1, np.nan, random.integers(1930, 2020, n))
    return pd.DataFrame({"plot": plots, "year": year})


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = frame_of(80, 0)
    tags = [[word for word in WORDS[:3] if word in plot.split()] for plot in frame["plot"]]
    model = LaMPClassifier(preset="quick", n_jobs=1, columns={"text": "plot", "number": "year"}).fit(frame, tags)
    return model.save(tmp_path_factory.mktemp("scored") / "films")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Four files of rows, and one that is none."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, rows in enumerate((30, 7, 41, 12)):
        frame_of(rows, 10 + number).to_parquet(folder / f"part-{number}.parquet")
    (folder / "notes.txt").write_text("no rows")
    return folder
