"""`lampnet predict` on long files: constant memory, usable after a kill, resumable, honest about empty rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.faults

WORDS = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree", "house"])
#: LAMPNET_STREAM_ROWS=1000000 for the figure in docs/reliability.md
LONG = int(os.environ.get("LAMPNET_STREAM_ROWS", "30000"))
SHORT = 3000


def texts(rows: int, seed: int) -> list[str]:
    drawn = np.random.default_rng(seed).integers(0, len(WORDS), size=(rows, 4))
    return [" ".join(WORDS[row]) for row in drawn]


def lampnet(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lampnet", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    rows = [{"text": text, "labels": sorted(set(text.split()) & set(WORDS[:3]))} for text in texts(100, 0)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [f"--set=model.{name}" for name in ("width=8", "heads=2", "steps=1", "base_learners=none")]
    process = lampnet("train", folder / "train.jsonl", "--out", folder / "model", "--epochs=1", "--quiet", *settings)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return folder / "model"


def write_rows(path: Path, rows: int) -> Path:
    with path.open("w") as file:
        file.writelines(f'{{"text": "{text}"}}\n' for text in texts(rows, 1))
    return path


def test_memory_does_not_grow_with_the_rows(model: Path, tmp_path: Path, record: Callable[[str, Any], None]) -> None:
    peaks = {}
    for rows in (SHORT, LONG):
        process = lampnet("predict", model, write_rows(tmp_path / f"{rows}.jsonl", rows), "--out", tmp_path / "out")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
        process.stderr.close()
        with (tmp_path / "out").open() as file:
            assert sum(1 for _ in file) == rows
        peaks[rows] = usage.ru_maxrss / 1024
    assert peaks[LONG] - peaks[SHORT] < 60  # megabytes; ten times the rows, or more
    record("rows_streamed", LONG)
    record("stream_peak_mb", round(peaks[LONG]))


def test_what_was_written_before_a_kill_is_good_and_resume_adds_the_rest(model: Path, tmp_path: Path) -> None:
    data, out, whole = write_rows(tmp_path / "rows.jsonl", 12_000), tmp_path / "out", tmp_path / "whole"
    assert lampnet("predict", model, data, "--out", whole).communicate() == (None, "")
    process = lampnet("predict", model, data, "--out", out)
    while not out.exists() or not out.stat().st_size:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = out.read_text().split("\n")[:-1]
    assert kept == whole.read_text().splitlines()[: len(kept)]
    assert 0 < len(kept) < 12_000
    with out.open("a") as file:
        file.write('{"id": "torn')  # a line that a crash cut off
    assert lampnet("predict", model, data, "--out", out, "--resume").communicate() == (None, "")
    resumed, straight = ([json.loads(line) for line in path.read_text().splitlines()] for path in (out, whole))
    assert [row["id"] for row in resumed] == [row["id"] for row in straight]
    # The rows after the kill were in other batches: equal to 1e-5 (and rounded to six digits), not to the bit.
    for a, b in zip(resumed, straight, strict=True):
        assert a["scores"] == pytest.approx(b["scores"], abs=1e-5)


def test_rows_without_a_known_word_get_the_prior_and_are_counted(model: Path, tmp_path: Path) -> None:
    rows = ["", "zebra quagga", "red fox", "   "]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    process = lampnet("predict", model, tmp_path / "rows.jsonl", "--out", tmp_path / "out")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "3 row(s) had nothing that the model knows" in errors
    empty, unknown, known, blank = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert empty["scores"] == unknown["scores"] == blank["scores"] != known["scores"]
