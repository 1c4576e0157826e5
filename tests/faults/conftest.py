"""Toy trainings in real processes, toy rows, and a recorder for the figures of docs/reliability.md."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # the processes started here import these modules by name

from toy_process import ToyRun  # noqa: E402

from reliability_page import measured_code  # noqa: E402


@pytest.fixture(scope="session")
def command_context() -> Any:
    """A fork server that has trained once and knows all commands: its children start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_training", "warm_commands"])
    with pytest.MonkeyPatch.context() as patch:  # results are exact for a fixed number of threads
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        forkserver.ensure_running()
    return context


@pytest.fixture(scope="session")
def train_toy(command_context: Any) -> Iterator[Callable[..., ToyRun]]:
    """Start the toy training: `train_toy("once", folder, "resume", "training.epochs=3")`."""
    context = command_context
    started: list[ToyRun] = []

    def start(*arguments: object, file_limit: int = 0) -> ToyRun:
        started.append(ToyRun(context, [str(argument) for argument in arguments], file_limit))
        return started[-1]

    yield start
    for run in started:
        run.kill()


@pytest.fixture(scope="session")
def uninterrupted(train_toy: Callable[..., ToyRun], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of an uninterrupted toy training; the last line is the digest of its weights."""
    lines, code = train_toy("once", tmp_path_factory.mktemp("uninterrupted")).end()
    assert code == 0, lines
    return lines


WORDS = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree", "house"])


@pytest.fixture(scope="session")
def write_texts() -> Callable[[Path, int, int], Path]:
    """Write JSON lines of random texts whose labels are the colours in them: `write_texts(path, rows, seed)`."""

    def write(path: Path, rows: int, seed: int) -> Path:
        with path.open("w") as file:
            for words in WORDS[np.random.default_rng(seed).integers(0, len(WORDS), size=(rows, 4))]:
                labels = sorted(set(words) & set(WORDS[:3]))
                file.write(json.dumps({"text": " ".join(words), "labels": labels}) + "\n")
        return path

    return write


@pytest.fixture(scope="session")
def record() -> Callable[[str, Any], None]:
    """Write a figure, and the code that it was measured on, to the file named by LAMPNET_RECORD (`make reliability`).

    Several processes may write to one file.
    """
    code = measured_code()

    def write(name: str, value: Any) -> None:
        target = os.environ.get("LAMPNET_RECORD")
        if target:
            path = Path(target)
            folder = os.open(path.absolute().parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                figures = json.loads(path.read_text()) if path.exists() else {}
                figures |= {name: value, "measured_on": figures.get("measured_on", {}) | {name: code}}
                path.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
            finally:
                os.close(folder)

    return write
