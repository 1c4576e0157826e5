"""`lampnet predict` on long files: constant memory, usable output after a kill, resume, rows without known words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from peak_memory import peak_of_command, peak_of_own_memory
from pyarrow import parquet

from lampnet.readers.row_chunks import LARGE

pytestmark = pytest.mark.faults

SHORT = 3000


def lampnet(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lampnet", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, write_texts: Any) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    data = write_texts(folder / "train.jsonl", 100, 0)
    settings = [f"--set=model.{name}" for name in ("width=8", "heads=2", "steps=1", "base_learners=none")]
    process = lampnet("train", data, "--out", folder / "model", "--epochs=1", "--quiet", *settings)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return folder / "model"


@pytest.mark.parametrize("many", [30_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_rows(
    many: int, model: Path, tmp_path: Path, write_texts: Any, record: Callable[[str, Any], None]
) -> None:
    peaks: dict[int, float] = {}
    for rows in (SHORT, many):
        data = write_texts(tmp_path / f"{rows}.jsonl", rows, 1)
        command = [sys.executable, "-m", "lampnet", "predict", model, data, "--out", tmp_path / "out"]
        code, errors, peaks[rows] = peak_of_command(command)
        assert code == 0, errors
        with (tmp_path / "out").open() as file:
            assert sum(1 for _ in file) == rows
    assert peaks[many] - peaks[SHORT] < 60  # megabytes; ten times the rows, or more
    record("rows_streamed", many)
    record("stream_peak_mb", round(peaks[many]))


#: bytes of a row, most of them blanks, so that files are large and quickly read
ROW_BYTES = 4000
#: rows of a file that is just large enough to be read in chunks
FEW_LARGE = 10_000


def write_large(path: Path, rows: int) -> Path:
    """Texts of four known words, or the same as a word set, in the format that the path's name says."""
    words = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree", "house"])
    drawn = np.random.default_rng(2).integers(0, len(words), size=(rows, 4))
    if path.suffix == ".libsvm":
        with path.open("w") as file:
            for numbers in drawn:
                pairs = " ".join(f"{number + 1}:1" for number in sorted(set(numbers.tolist())))
                file.write(f"{numbers.min() % 3} {pairs}".ljust(ROW_BYTES) + "\n")
        return path
    texts = (" ".join(words[numbers]).ljust(ROW_BYTES) for numbers in drawn)
    if path.suffix == ".csv":
        with path.open("w") as file:
            file.write("text\n")
            file.writelines(f"{text}\n" for text in texts)
        return path
    schema = pa.schema([("text", pa.string())])
    with ExitStack() as stack:
        if path.suffix == ".parquet":
            plain = parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False)
            writer: Any = stack.enter_context(plain)
        else:
            writer = stack.enter_context(pa.ipc.new_file(path, schema))
        while block := list(islice(texts, 5000)):
            writer.write_table(pa.table({"text": block}, schema=schema))
    return path


@pytest.fixture(scope="module")
def set_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of word sets, for libsvm."""
    folder = tmp_path_factory.mktemp("sets")
    data = write_large(folder / "train.libsvm", 200)
    settings = [f"--set=model.{name}" for name in ("width=8", "heads=2", "steps=1", "base_learners=none")]
    process = lampnet("train", data, "--out", folder / "model", "--epochs=1", "--quiet", *settings)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return folder / "model"


@pytest.mark.parametrize("many", [40_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "libsvm"])
def test_memory_does_not_grow_with_the_rows_of_other_formats(
    ending: str, many: int, model: Path, set_model: Path, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    peaks: dict[int, float] = {}
    for rows in (FEW_LARGE, many):
        data = write_large(tmp_path / f"{rows}.{ending}", rows)
        assert data.stat().st_size > LARGE
        used = set_model if ending == "libsvm" else model
        command = [sys.executable, "-m", "lampnet", "predict", used, data, "--out", tmp_path / "out"]
        code, errors, peaks[rows] = peak_of_own_memory(command)
        assert code == 0, errors
        with (tmp_path / "out").open() as file:
            assert sum(1 for _ in file) == rows
        data.unlink()
    assert peaks[many] - peaks[FEW_LARGE] < 60, peaks  # megabytes; the files are 40 and at least 160
    record(f"{ending}_rows_streamed", many)
    record(f"{ending}_stream_peak_mb", round(peaks[many]))


def test_rows_written_before_a_kill_are_kept_and_resume_adds_the_rest(
    model: Path, tmp_path: Path, write_texts: Any
) -> None:
    data, out, whole = write_texts(tmp_path / "rows.jsonl", 12_000, 1), tmp_path / "out", tmp_path / "whole"
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
        file.write('{"id": "torn')  # a line cut off by a crash
    assert lampnet("predict", model, data, "--out", out, "--resume").communicate() == (None, "")
    resumed, uninterrupted = ([json.loads(line) for line in path.read_text().splitlines()] for path in (out, whole))
    assert [row["id"] for row in resumed] == [row["id"] for row in uninterrupted]
    # The rows after the kill were in other batches: equal to 1e-5 (and rounded to six digits), not to the bit.
    for a, b in zip(resumed, uninterrupted, strict=True):
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
