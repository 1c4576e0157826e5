"""Loading a model and predicting with it needs neither scikit-learn nor what only training and reports use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
