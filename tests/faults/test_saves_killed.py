"""A save that is killed at any of its system calls leaves the old model or the new one, whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("killed_saves.py")


@pytest.mark.faults
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.long)])
def test_a_save_killed_at_any_system_call_leaves_a_whole_model(
    every: int, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace, which kills a process at a given system call, is not installed")
    done = subprocess.run(
        [sys.executable, DRIVER, tmp_path, str(every)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    if "refused" in summary:
        pytest.skip(f"strace may not watch processes here: {summary['refused'][:200]}")
    assert summary["failures"] == []
    # Kills before and after the rename that counts, in a folder with a model and in a new one.
    assert all(summary["found"].get(state) for state in ("none", "old", "new")), summary
    assert summary["points"] * every >= sum(summary["calls"].values())
    if every == 1:
        assert summary["points"] >= 200
        record("saves_killed", summary["points"])
