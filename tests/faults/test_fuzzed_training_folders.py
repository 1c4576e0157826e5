"""Untrusted training folders and prepared folders: damaged and forged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzzed


@pytest.mark.parametrize("kind", ["training", "prepared"])
@pytest.mark.parametrize("cases", [40, pytest.param(1000, marks=[pytest.mark.faults, pytest.mark.long])])
def test_damaged_training_and_prepared_folders_are_used_or_refused(
    kind: str, cases: int, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    if kind == "prepared":
        pytest.importorskip("rdkit")
    summary = fuzzed("fuzz_training_folders.py", kind, tmp_path, cases, cases)
    assert summary["failures"] == []
    assert summary["accepted"] > cases / 20
    assert summary["refused"] > cases / 20
    if cases == 1000:
        record(f"{kind}_folders_fuzzed", cases)
