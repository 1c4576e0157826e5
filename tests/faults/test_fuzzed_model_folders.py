"""Untrusted model folders: thousands of damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzzed


@pytest.mark.parametrize("cases", [150, pytest.param(10_000, marks=[pytest.mark.faults, pytest.mark.long])])
def test_damaged_model_folders_load_or_are_refused(
    cases: int, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    summary = fuzzed("fuzz_model_folders.py", tmp_path, cases, cases)
    assert summary["failures"] == []
    assert summary["accepted"] > cases / 20
    assert summary["refused"] > cases / 20
    if cases == 10_000:
        record("model_folders_fuzzed", cases)
        record("model_folders_peak_gb", summary["peak_gb"])
