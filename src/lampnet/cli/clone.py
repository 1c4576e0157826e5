"""What a command takes from benchmarks/ of a clone of the repository; the wheel does not hold it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


def benchmarks_folder() -> Path | None:
    """benchmarks/ beside the src/ that this file runs from; None where lampnet was installed from a wheel."""
    root = Path(__file__).resolve().parents[3]
    return root / "benchmarks" if (root / "benchmarks" / "bench").is_dir() else None


def import_from_clone(module: str) -> Any | None:
    """A module of benchmarks/, or None outside a clone."""
    folder = benchmarks_folder()
    if folder is None:
        return None
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(module)
