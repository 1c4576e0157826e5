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


def vectors(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, WIDTH)).astype(np.float32)


def written(path: Path, texts: list[str], digest: str = "a" * 64) -> EmbeddingFile:
    file = EmbeddingFile(path, digest, WIDTH)
    file.add(texts, vectors(len(texts)))
    return file


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text(max_size=8), unique=True, max_size=6), lost=st.integers(0, 60))
def test_a_torn_end_costs_only_its_records(
    texts: list[str], lost: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("embeddings") / "file"
    first = written(path, texts)
    size = path.stat().st_size
    os.truncate(path, max(256, size - lost))
    again = EmbeddingFile(path, "a" * 64, WIDTH)
    kept = max(0, len(texts) - -(-lost // (16 + 2 * WIDTH)))
    assert len(again.known) == kept
    for text in texts[:kept]:
        np.testing.assert_array_equal(again.get(text), first.get(text))
    assert all(again.get(text) is None for text in texts[kept:])
    again.add(texts[kept:], vectors(len(texts))[kept:])  # behind whole records
    third = EmbeddingFile(path, "a" * 64, WIDTH)
    for text in texts:
        np.testing.assert_array_equal(third.get(text), first.get(text))


def test_vectors_are_those_given_in_half_precision(tmp_path: Path) -> None:
    file = written(tmp_path / "file", ["one", "two"])
    np.testing.assert_array_equal(file.get("two"), vectors(2)[1].astype(np.float16))
    assert file.get("three") is None


@pytest.mark.parametrize("damage", ["another encoder", "another width", "no head", "empty"])
def test_a_file_of_something_else_is_begun_anew(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    written(path, ["one"])
    if damage in ("no head", "empty"):
        path.write_bytes(b"x" * 300 if damage == "no head" else b"")
    digest, width = ("b" * 64 if damage == "another encoder" else "a" * 64), 7 if damage == "another width" else WIDTH
    assert EmbeddingFile(path, digest, width).get("one") is None
    assert path.stat().st_size == 256


def test_vectors_that_are_not_finite_are_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = written(path, ["one"])
    bad = vectors(1)
    bad[0, 2] = np.nan
    file.add(["two"], bad)
    again = EmbeddingFile(path, "a" * 64, WIDTH)
    assert again.get("one") is not None
    assert again.get("two") is None


def test_a_folder_that_cannot_be_written_costs_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    file = written(tmp_path / "file", ["one"])
    assert file.get("one") is not None
