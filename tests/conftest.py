"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the named data sets; it need not exist."""
    return Path(os.environ.get("LAMPNET_DATA") or Path(__file__).parents[2] / "shared" / "data")
