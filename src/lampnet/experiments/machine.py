"""What a time was measured on: the processor and its cores, and nothing that names the computer."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, torch threads, and the versions that decide speed."""
    import torch

    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
    }


def version() -> str:
    """The version of lampnet."""
    try:
        return installed_version("lampnet")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "unknown"


@cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Processor", "cpu model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"
