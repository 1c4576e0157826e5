"""Loading a model and predicting with it needs neither scikit-learn nor what only training and reports use."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

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


@pytest.mark.parametrize("rows", [sparse.csr_matrix(np.eye(30, 12)), np.eye(30, 12), ["a red fox", "the sea"] * 15])
def test_a_loaded_estimator_predicts_without_heavy_libraries(rows: Any, tmp_path: Path) -> None:
    truth = (np.random.default_rng(0).random((30, 3)) < 0.5).astype(float)
    model = LaMPClassifier(preset="quick", base_learners="linear").fit(rows, truth)
    model.save(tmp_path / "model")
    (tmp_path / "rows.pickle").write_bytes(pickle.dumps(rows[:2]))
    (tmp_path / "expected.npy").write_bytes(model.predict(rows[:2]).astype("u1").tobytes())
    code = (
        "import sys, pickle\n"
        "from pathlib import Path\n"
        "from lampnet import LaMPClassifier\n"
        "model = LaMPClassifier.load(sys.argv[1])\n"
        "rows = pickle.loads(Path(sys.argv[2]).read_bytes())\n"
        "assert model.predict(rows).astype('u1').tobytes() == Path(sys.argv[3]).read_bytes()\n"
        "print(*(name for name in sys.argv[4:] if name in sys.modules))\n"
    )
    files = [str(tmp_path / name) for name in ("model", "rows.pickle", "expected.npy")]
    run = subprocess.run([sys.executable, "-c", code, *files, *HEAVY], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


def test_the_command_predicts_without_training_libraries(tmp_path: Path) -> None:
    texts = ["a red fox", "the sea"] * 15
    truth = (np.random.default_rng(0).random((30, 3)) < 0.5).astype(float)
    LaMPClassifier(preset="quick", base_learners="linear").fit(texts, truth).save(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    code = (
        "import sys\n"
        "from lampnet.cli import main\n"
        "heavy = sys.argv[1:]\n"
        "sys.argv = ['lampnet', 'predict', 'model', 'rows.jsonl', '--out', 'tags.jsonl']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "print(*(name for name in heavy if name in sys.modules))\n"
    )
    needed = {"typer", "pyarrow"}  # the command line, and what reads tables
    run = subprocess.run(
        [sys.executable, "-c", code, *(name for name in HEAVY if name not in needed)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.splitlines()[-1:] in ([], [""])
    assert len((tmp_path / "tags.jsonl").read_text(encoding="utf-8").splitlines()) == 30


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
