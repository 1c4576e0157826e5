"""Every stage of a fit reports its share, and a time budget is divided in the log."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.fit import fit

STAGES = (
    "encoding",
    "base learners",
    "stacking weights",
    "choosing the decisions on held-out rows",
    "what known labels say about the others",
)


@pytest.fixture(scope="module")
def data() -> Dataset:
    random = np.random.default_rng(0)
    Y = np.float32(random.random((90, 3)) < 0.3)
    texts = [" ".join(["all", *("xyz"[label] * 3 for label in np.flatnonzero(row))]) for row in Y]
    return Dataset(name="toy", kind="text", rows=texts, labels=sparse.csr_matrix(Y), label_names=tuple("xyz"))


@pytest.mark.parametrize("folds", [1, 3])
def test_every_stage_begins_at_nothing_and_reports_what_is_done(folds: int, data: Dataset) -> None:
    reported: dict[str, list[float]] = {}

    def phase(share: float, doing: str) -> None:
        reported.setdefault(doing.partition(":")[0], []).append(share)

    changes = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": folds}
    config = Config.preset("fast").updated({**changes, "model.base_learners": "linear,knn"})
    fit(Splits(train=data), config, run=FitRun(phase=phase))
    for stage in STAGES:
        shares = reported[stage]
        assert shares[0] == 0.0, stage
        assert 0.4 < max(shares) <= 1.0, stage
        assert len(set(shares)) >= 3, stage


@pytest.mark.parametrize("seconds", [0, 1000])
def test_only_a_time_budget_is_divided_in_the_log(seconds: int, data: Dataset) -> None:
    said: list[str] = []
    changes = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": 2}
    config = Config.preset("fast").updated({**changes, "training.time_budget": seconds})
    fit(Splits(train=data), config, run=FitRun(log=said.append))
    divided = [line for line in said if line.startswith("time: ")]
    assert len(divided) == bool(seconds)
    for stage in ("encoding", "base learners", "stacking weights", "decisions", "networks", "known labels", "the rest"):
        assert all(f"{stage} " in line for line in divided)
