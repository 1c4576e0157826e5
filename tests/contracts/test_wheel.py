"""The built wheel: the package with all that it reads at run time, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lampnet"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy of the sources, because setuptools writes beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", folder, source], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("lampnet-*.whl")
    return zipfile.ZipFile(built)


def test_it_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    present = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {name for name in wheel.namelist() if name.startswith("lampnet/")} == {
        path.relative_to(PACKAGE.parent).as_posix() for path in present
    }
    others = {name.split("/")[0] for name in wheel.namelist()} - {"lampnet"}
    assert [name.endswith(".dist-info") for name in others] == [True]


@pytest.mark.parametrize(
    "name",
    [
        "service/page/tagging.html",
        "service/page/tagging.css",
        "service/page/tagging.js",
        "readers/named/goemotions_sample/train.tsv.gz",
        "readers/named/goemotions_sample/test.tsv.gz",
        "py.typed",
    ],
)
def test_the_page_and_the_embedded_data_are_in_it_unchanged(wheel: zipfile.ZipFile, name: str) -> None:
    assert wheel.read(f"lampnet/{name}") == (PACKAGE / name).read_bytes()


def test_what_was_unpacked_serves_the_page_and_reads_the_data(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    wheel.extractall(tmp_path)
    code = (
        "import lampnet; from lampnet.service.tagging_page import tagging_page; from pathlib import Path; "
        f"assert Path(lampnet.__file__).is_relative_to({str(tmp_path)!r}), lampnet.__file__; "
        "text, _ = tagging_page(); assert '/*script*/' not in text and '/*style*/' not in text; "
        "data = lampnet.load_data('goemotions-sample'); assert len(data.train) == 3200"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
