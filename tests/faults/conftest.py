"""Real processes to be hurt, and a place for the figures that docs/reliability.md states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TOY = Path(__file__).with_name("toy_training.py")
# Two threads on two cores would make the runs wait for each other; one is also what exactness is promised for.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Start a Python process whose output can be read; whatever is left of it at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**ENVIRONMENT, **(environment or {})},
            **options,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def train_toy(start: Start) -> Start:
    """Start the toy training: `train_toy(folder, "--resume", "training.epochs=3")`."""

    def run(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        return start(TOY, "once", *arguments, **options)

    return run


@pytest.fixture(scope="session")
def undisturbed(train_toy: Start, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the toy training prints when nothing happens to it; the last line is the digest of its weights."""
    output, _ = train_toy(tmp_path_factory.mktemp("undisturbed")).communicate()
    lines = output.splitlines()
    assert lines[-1].startswith("weights "), output
    return lines


@pytest.fixture(scope="session")
def record() -> Callable[[str, Any], None]:
    """Write a figure to the file named by LAMPNET_RECORD (see `make test-faults`)."""

    def write(name: str, value: Any) -> None:
        target = os.environ.get("LAMPNET_RECORD")
        if target:
            path = Path(target)
            figures = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**figures, name: value}, indent=1, sort_keys=True) + "\n")

    return write
