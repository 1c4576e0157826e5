"""Only `distributed.py` knows torch.distributed: everything else is written as for one process."""

from __future__ import annotations

import ast
from pathlib import Path

import lampnet

PACKAGE = Path(lampnet.__file__).parent


def test_only_one_file_imports_torch_distributed() -> None:
    users = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            else:
                continue
            if any(name.startswith("torch.distributed") for name in names):
                users.add(path.relative_to(PACKAGE).as_posix())
    assert users == {"distributed.py"}
