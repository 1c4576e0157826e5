"""Loading a model and predicting with it needs neither scikit-learn nor what only training and reports use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.inference.predictor import FittedModel

HEAVY = (
    "sklearn",
    "matplotlib",
    "pyarrow",
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "scipy.ndimage",
    "transformers",
    "rdkit",
    "onnx",
    "optuna",
    "typer",
)


def test_a_loaded_model_predicts_without_heavy_libraries(folder: Path, model: FittedModel) -> None:
    assert model.stack is not None
    assert set(model.stack.names) == {"linear", "knn", "forest"}
    code = (
        "import sys, numpy as np\n"
        "from scipy import sparse\n"
        "from lampnet.persistence.model_folder import load_model\n"
        "model = load_model(sys.argv[1])\n"
        "rows = sparse.csr_matrix(np.eye(3, 12, dtype='f4'))\n"
        "assert model.proba(rows).shape == (3, 4)\n"
        "print(*(name for name in sys.argv[2:] if name in sys.modules))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder), *HEAVY], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize("kind", ["dna", "image", "vector", "text"])
def test_no_kind_of_model_loads_torch_s_compiler(kind: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows: Any = {
        "dna": ["".join(draw.choice(list("ACGT"), 24)) for _ in range(20)],
        "image": list(draw.integers(0, 255, (20, 8, 8), dtype=np.uint8)),
        "vector": draw.normal(size=(20, 3)),
        "text": [" ".join(draw.choice(["red", "fox", "sea"], 3)) for _ in range(20)],
    }[kind]
    small = {"training.epochs": 1, "training.threads": 1, "training.folds": 1, "model.width": 8}
    model = LaMPClassifier(input_kind=kind, settings=small, base_learners="none")
    folder = model.fit(rows, (draw.random((20, 2)) < 0.5).astype(float)).save(tmp_path / "model")
    code = (
        "import sys; from lampnet.persistence.model_folder import load_model; "
        "assert load_model(sys.argv[1]).network is not None; print('torch._dynamo' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False"]
