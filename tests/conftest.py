"""Fixtures of all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# On a busy machine an example takes seconds to draw and to run, which says nothing about the code.
settings.register_profile("lampnet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lampnet")

# A shell starts background commands with Ctrl-C ignored, and their children inherit it: the tests of Ctrl-C would wait.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the named data sets, LAMPNET_DATA or else a folder beside the repository; it need not exist."""
    return Path(os.environ.get("LAMPNET_DATA") or Path(__file__).parents[2] / "shared" / "data")
