"""A service that predicts for a long time: memory, objects and open files do not grow, answers do not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.faults

#: a day of a service that gets a row every 86 ms
A_DAY = 1_000_000


@pytest.mark.parametrize(
    ("predictions", "which"), [(2000, "default"), (4000, "tiny"), pytest.param(A_DAY, "tiny", marks=pytest.mark.long)]
)
def test_memory_does_not_grow_with_the_predictions(
    predictions: int, which: str, record: Callable[[str, Any], None]
) -> None:
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("long_service.py"), str(predictions), which],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["changed"] == 0
    assert found["grown_files"] == 0
    assert found["grown_objects"] < 100
    assert found["grown_kb"] < 2048  # one byte lost per prediction would be a megabyte of a million
    record(f"service[{which}]", {"predictions": predictions, **found})
