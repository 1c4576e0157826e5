"""The publishers' files, where they are on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lampnet.data.splits import Splits
from lampnet.readers.named.registry import load


@pytest.fixture(scope="session")
def folder(data_root: Path) -> Callable[[str], Path]:
    """The folder of a named data set; the test is skipped without it."""

    def existing(name: str) -> Path:
        path = data_root / name
        if not path.is_dir():
            pytest.skip(f"the data set {name} is not in {data_root}; set LAMPNET_DATA to run this test")
        return path

    return existing


@pytest.fixture(scope="session")
def splits(data_root: Path, folder: Callable[[str], Path]) -> Callable[[str], Splits]:
    """A named data set, loaded once; the test is skipped where its files are missing."""

    @cache
    def loaded(name: str) -> Splits:
        if name != "digits":  # comes with scikit-learn
            folder(name)
        return load(name, data_root)

    return loaded
