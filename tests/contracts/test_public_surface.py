"""What the package offers, what importing it costs, and who may import whom."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lampnet

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "torch",
    "sklearn",
    "scipy",
    "pandas",
    "pyarrow",
    "rdkit",
    "transformers",
    "matplotlib",
    "optuna",
    "requests",
    "PIL",
)


def test_the_public_names_are_pinned() -> None:
    assert lampnet.__all__ == [
        "Config", "Dataset", "LaMPClassifier", "LampnetError", "Splits", "__version__", "load_data",
    ]  # fmt: skip
    for name in lampnet.__all__:
        assert getattr(lampnet, name) is not None
    with pytest.raises(AttributeError):
        _ = lampnet.no_such_name


def loaded_after(statement: str) -> set[str]:
    """Top-level packages that a fresh Python has loaded after a statement."""
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_after("import lampnet") & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    assert not loaded_after("from lampnet.cli.app import build; build()") & set(HEAVY)


def test_the_estimator_does_not_load_optional_packages() -> None:
    # scikit-learn itself loads pandas where it is installed.
    optional = {"rdkit", "transformers", "matplotlib", "optuna", "requests", "PIL"}
    assert not loaded_after("from lampnet import LaMPClassifier") & optional


@pytest.mark.parametrize(
    "module",
    [
        "evaluation.choose_rules",
        "evaluation.scores",
        "readers.any_format",
        "readers.named.registry",
        "data.splits",
        "config",
    ],
)
def test_modules_that_never_load_torch(module: str) -> None:
    assert "torch" not in loaded_after(f"import lampnet.{module}")


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_only_distributed_touches_torch_distributed() -> None:
    """import-linter sees outside packages as a whole, so this looks at the code."""
    import ast

    using = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if any(f"{module}.{name}".lstrip(".").startswith("torch.distributed") for name in names):
                using.add(path.relative_to(ROOT / "src" / "lampnet").as_posix())
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.distributed"):
                using.add(path.relative_to(ROOT / "src" / "lampnet").as_posix())
    assert using == {"runtime/distributed.py"}


def test_the_package_root_holds_at_most_six_modules() -> None:
    assert len(list((ROOT / "src" / "lampnet").glob("*.py"))) <= 6
