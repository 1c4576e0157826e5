"""`lampnet export`."""

from __future__ import annotations

from pathlib import Path

import pytest
from lampnet_command import lampnet

from lampnet import LaMPClassifier

pytest.importorskip("onnx", reason="the extra onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def test_the_file_is_written_and_its_inputs_are_named(tmp_path: Path) -> None:
    tags = [["italy", "travel"], ["sport"]] * 12
    LaMPClassifier(preset="quick", n_jobs=1).fit(["flights to rome", "the cup final"] * 12, tags).save(tmp_path / "m")
    done = lampnet("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")
    assert done.code == 0, done.err
    assert "input tokens (rows, tokens)\n" in done.out
    assert "input known (known_rows, 3), optional\n" in done.out
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_outputs()] == ["probabilities", "logits"]
    said = lampnet("export", tmp_path / "m", "--onnx", tmp_path / "no folder" / "m.onnx").mistake()
    assert "cannot be written" in said


def test_a_folder_without_a_model_is_a_mistake(tmp_path: Path) -> None:
    assert str(tmp_path) in lampnet("export", tmp_path, "--onnx", tmp_path / "m.onnx").mistake()
    assert list(tmp_path.iterdir()) == []
