"""Files that are there once they are finished: one writer at a time, and nothing left of a killed one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lampnet.errors import CheckpointError, DataError
from lampnet.persistence.whole_file import WholeFile
from lampnet.runtime.atomic_files import remove_leftovers


def write(path: Path, content: bytes) -> None:
    with WholeFile(path) as whole:
        whole.file.write(content)
        whole.finish()


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_of_two_writers_at_once_one_is_refused(elsewhere: ThreadPoolExecutor, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with WholeFile(path) as whole:
        whole.file.write(b"first")
        with pytest.raises(CheckpointError, match="is writing to"):
            elsewhere.submit(write, path, b"second").result()
        elsewhere.submit(write, tmp_path / "another.csv", b"beside").result()
        whole.finish()
    assert path.read_bytes() == b"first"
    elsewhere.submit(write, path, b"second").result()
    assert path.read_bytes() == b"second"
    assert sorted(there.name for there in tmp_path.iterdir()) == ["another.csv", "out.csv"]


def test_a_writer_that_fails_lets_go(elsewhere: ThreadPoolExecutor, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(DataError, match="could not be written"), WholeFile(path):
        raise OSError("no room")
    elsewhere.submit(write, path, b"good").result()
    with pytest.raises(DataError, match="cannot be written"):
        WholeFile(tmp_path / "no folder" / "out.csv")
    assert [there.name for there in tmp_path.iterdir()] == ["out.csv"]


def test_what_a_killed_writer_left_goes_and_what_another_is_writing_stays(tmp_path: Path) -> None:
    left, living = tmp_path / ".out.csv.4711-0a1b2c3d.tmp", tmp_path / ".out.csv.gz.4711-0a1b2c3d.tmp"
    for path in (left, living):
        path.write_bytes(b"half")
    write(tmp_path / "out.csv", b"whole")
    assert not left.exists()
    assert living.exists()
    remove_leftovers(tmp_path)
    assert not living.exists()
