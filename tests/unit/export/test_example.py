"""The example for programs without lampnet runs where neither lampnet nor torch can be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lampnet import LaMPClassifier

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "onnx_texts.py"
#: None in sys.modules makes an import fail
RUN = """
import runpy, sys
for name in ("lampnet", "torch", "scipy", "sklearn", "pandas", "onnx", "transformers"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_example_needs_no_lampnet(tmp_path: Path) -> None:
    texts = ["cheap flights to rome", "rome wins the cup", "the cup final", "flights delayed"] * 10
    tags = [{"travel", "italy"}, {"sport", "italy"}, {"sport"}, {"travel"}] * 10
    model = LaMPClassifier(preset="quick", n_jobs=1).fit(texts, tags)
    file = model.export_onnx(tmp_path / "model.onnx")
    asked = ["Flights to Rome, again", "xyzzy"]
    command = [sys.executable, "-c", RUN, EXAMPLE, file, *asked, "--known", "sport"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = model.predict_proba(asked, known=[["sport"]] * 2)
    for line, text, row in zip(done.stdout.splitlines(), asked, wanted, strict=True):
        found = json.loads(line)
        assert found["text"] == text
        assert found["labels"] == pytest.approx(dict(zip(model.classes_, row.tolist(), strict=True)), abs=2e-4)


def test_the_example_is_short() -> None:
    lines = EXAMPLE.read_text().split('"""')[2].strip().splitlines()
    assert len(lines) <= 30
