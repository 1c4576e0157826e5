"""Embeddings on disk: what was written is there again, whatever a crash left behind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.encoders.embedding_file import EmbeddingFile

WIDTH = 5


def vectors(counts: list[int]) -> list[np.ndarray]:
    """One array (k, WIDTH) per text."""
    random = np.random.default_rng(0)
    return [random.normal(size=(count, WIDTH)).astype(np.float32) for count in counts]


def opened(path: Path, digest: str = "a" * 64, kept: str = "tokens", width: int = WIDTH) -> EmbeddingFile:
    return EmbeddingFile(path, digest, kept, width)


def written(path: Path, texts: list[str], counts: list[int] | None = None) -> EmbeddingFile:
    file = opened(path)
    file.add(texts, vectors(counts or [1] * len(texts)))
    return file


@settings(max_examples=30, deadline=None)
@given(
    counted=st.dictionaries(st.text(max_size=8), st.integers(0, 4), max_size=6),
    lost=st.integers(0, 120),
)
def test_a_torn_end_costs_only_its_records(
    counted: dict[str, int], lost: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("embeddings") / "file"
    texts, counts = list(counted), list(counted.values())
    first = written(path, texts, counts)
    size = path.stat().st_size
    ends = size - np.cumsum([0, *(16 + 4 + 2 * WIDTH * count for count in reversed(counts))])[::-1]
    assert ends[0] == 256
    os.truncate(path, max(256, size - lost))
    again = opened(path)
    kept = int((ends[1:] <= size - lost).sum())
    assert len(again.known) == kept
    for text in texts[:kept]:
        np.testing.assert_array_equal(again.get(text), first.get(text))
    assert all(again.get(text) is None for text in texts[kept:])
    again.add(texts[kept:], vectors(counts)[kept:])  # behind whole records
    third = opened(path)
    for text in texts:
        np.testing.assert_array_equal(third.get(text), first.get(text))


def test_vectors_are_those_given_in_half_precision(tmp_path: Path) -> None:
    file = written(tmp_path / "file", ["one", "two"], [1, 3])
    np.testing.assert_array_equal(file.get("two"), vectors([1, 3])[1].astype(np.float16))
    assert file.get("three") is None


@pytest.mark.parametrize("damage", ["another encoder", "another width", "other vectors", "no head", "empty"])
def test_a_file_of_something_else_is_begun_anew(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    written(path, ["one"])
    if damage in ("no head", "empty"):
        path.write_bytes(b"x" * 300 if damage == "no head" else b"")
    digest, width = ("b" * 64 if damage == "another encoder" else "a" * 64), 7 if damage == "another width" else WIDTH
    kept = "pooled" if damage == "other vectors" else "tokens"
    assert opened(path, digest, kept, width).get("one") is None
    assert path.stat().st_size == 256


def test_vectors_that_are_not_finite_are_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = written(path, ["one"])
    (bad,) = vectors([2])
    bad[1, 2] = np.nan
    file.add(["two"], [bad])
    again = opened(path)
    assert again.get("one") is not None
    assert again.get("two") is None


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "second name"])
def test_what_is_no_file_of_its_own_is_not_written_to(kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    if kind != "dangling link":
        other.write_text("of somebody else")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "second name":
        os.link(other, path)
    else:
        path.symlink_to(other)
    assert written(path, ["one"]).get("one") is not None
    assert not other.exists() if kind == "dangling link" else other.read_text() == "of somebody else"


def test_a_folder_that_cannot_be_written_costs_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    file = written(tmp_path / "file", ["one"])
    assert file.get("one") is not None
