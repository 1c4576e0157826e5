"""A time budget by the real clock, on real rows; a budget by clocks of their own: tests/unit/pipeline/test_floor.py."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from lampnet import load_data
from lampnet.config import Config
from lampnet.data.splits import Splits
from lampnet.errors import DataError
from lampnet.pipeline.fit import fit

CHANGES = {"training.threads": 1, "training.keep_network": "always", "training.patience": 0, "training.epochs": 5}


@pytest.mark.faults
def test_a_fit_keeps_its_time_budget(data_root: Path) -> None:
    """Within 10% and the minimum: base learners alone with their decisions, and the smallest share of a network."""
    try:
        rows = load_data("goemotions", data_root=data_root).train.take(np.arange(800))
    except DataError as absent:
        pytest.skip(f"goemotions is not there: {absent}")

    def seconds(time_budget: float = 0.0, network: bool = True) -> tuple[float, str]:
        changes = {**CHANGES, "training.time_budget": time_budget, "model.network": network}
        began = time.monotonic()
        model = fit(Splits(train=rows), Config.preset("fast").updated(changes))
        return time.monotonic() - began, model.metadata["status"]

    seconds(network=False)  # imports
    least, _ = seconds(network=False)
    free, status = seconds()
    assert status == "finished"
    assert free > 5 * least  # what is limited below is what takes the time
    for share in (0.5, 0.3):
        used, status = seconds(share * free)
        assert status == "time budget"
        assert used < 1.1 * share * free + 2 * least
        assert used > 0.5 * share * free  # and is made use of
