"""The embedded comments: what they are, that they are drawn by the script, and that the wheel has them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from lampnet import load_data
from lampnet.readers.named import loaders

ROOT = Path(__file__).parents[3]
FOLDER = Path(loaders.__file__).with_name("goemotions_sample")


def test_they_are_read_without_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMPNET_DATA", str(tmp_path / "nowhere"))
    data = load_data("goemotions-sample")
    assert data.valid is None
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (3200, 800)
    assert len(data.train.label_names) == 28
    several = np.asarray(data.train.labels.sum(axis=1)).ravel() > 1
    assert several.mean() == pytest.approx(0.5, abs=0.01)
    assert np.asarray(data.train.labels.sum(axis=0)).min() >= 35
    assert data.train.ids is not None
    assert all(name.startswith("train-") for name in data.train.ids)
    assert not set(data.train.rows) & set(data.test.rows)


def test_no_link_no_name_of_a_user_and_no_swear_word_is_in_them() -> None:
    data = load_data("goemotions-sample")
    assert data.test is not None
    for text in [*data.train.rows, *data.test.rows]:
        assert not any(part in text.lower() for part in ("http", " u/", "/u/", "fuck", "shit", "bitch")), text


def test_the_script_draws_the_same_comments(data_root: Path) -> None:
    if not (data_root / "goemotions").is_dir():
        pytest.skip(f"GoEmotions is not in {data_root}; set LAMPNET_DATA to run this test")
    check = [sys.executable, ROOT / "benchmarks" / "goemotions_sample.py", "--check", "--data-root", data_root]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_them_and_they_are_small() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["lampnet"]
    package = ROOT / "src" / "lampnet"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    files = {package / "readers" / "named" / FOLDER.name / path.name for path in FOLDER.iterdir()}
    assert {path.name for path in files} == {"README.md", "emotions.txt", "train.tsv.gz", "test.tsv.gz"}
    assert files <= shipped
    assert sum(path.stat().st_size for path in files) < 400_000
