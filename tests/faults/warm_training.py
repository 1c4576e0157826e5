"""Imported by the fork server of conftest.py: one short training loads everything, so that children start fast."""

from __future__ import annotations

import tempfile
from pathlib import Path

from toy_training import train  # type: ignore[import-not-found]

with tempfile.TemporaryDirectory() as folder:
    train(Path(folder), False, lambda line: None, {"training.epochs": 1})
