"""One small trained model for all tests of the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lampnet_command import SMALL, here, texts, write_jsonl


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    data = folder / "data"
    data.mkdir()
    write_jsonl(data / "train.jsonl", texts(60))
    write_jsonl(data / "test.jsonl", texts(16))
    assert here("train", data, "--out", folder / "model", "--epochs", 2, *SMALL, "--quiet") == 0
    return folder
