"""One small model and one running service for most tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

sys.path.insert(0, str(Path(__file__).parent))

from running_service import Running, model_of, serving


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_of(tmp_path_factory.mktemp("served") / "topics")


@pytest.fixture(scope="session")
def service(topics: Path) -> Iterator[Running]:
    with serving(topics, "--max-rows", 64, "--max-body", 65536) as running:
        yield running
