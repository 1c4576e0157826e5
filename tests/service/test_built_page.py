"""The committed script of the tagging page is what its TypeScript gives."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_the_page() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["lampnet"]
    package = ROOT / "src" / "lampnet"
    shipped = {path.name for pattern in patterns for path in package.glob(pattern)}
    assert {path.name for path in (package / "service" / "page").iterdir()} <= shipped


def test_the_script_is_built_from_the_typescript(tmp_path: Path) -> None:
    compiler = ROOT / "web" / "node_modules" / "typescript" / "bin" / "tsc"
    if shutil.which("node") is None or not compiler.exists():
        pytest.skip("TypeScript is not installed; run: make tagging-page")
    subprocess.run(["node", compiler, "--project", ROOT / "web", "--outDir", tmp_path], check=True)
    built, committed = tmp_path / "tagging.js", ROOT / "src/lampnet/service/page/tagging.js"
    assert built.read_text() == committed.read_text(), "run: make tagging-page"
