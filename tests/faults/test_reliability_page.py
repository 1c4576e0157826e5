"""docs/reliability.md states the recorded figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_states_the_recorded_figures() -> None:
    check = [sys.executable, ROOT / "benchmarks" / "reliability_page.py", "--check"]
    process = subprocess.run(check, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
