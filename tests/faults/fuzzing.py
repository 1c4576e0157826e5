"""Start a fuzzer of this folder in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def fuzzed(script: str, *arguments: object) -> dict[str, Any]:
    """The summary that the script printed (see `bounded_cases`)."""
    process = subprocess.run(
        [sys.executable, "-X", "faulthandler", Path(__file__).with_name(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr[-3000:]
    summary: dict[str, Any] = json.loads(process.stdout)
    return summary
