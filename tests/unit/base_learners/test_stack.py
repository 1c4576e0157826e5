"""The stack: base logits of all learners on one scale."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lampnet.base_learners.stack import Stack
from lampnet.errors import ModelFolderError


def test_out_of_fold_logits_are_centred_per_label_and_scaled_per_learner() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 5)).astype(np.float32)
    Y = (X[:, :3] + random.normal(size=(80, 3)) > 0.5).astype(np.float32)
    base_logits = Stack(["linear", "knn"]).fit(X, Y, seed=0)
    assert base_logits.shape == (80, 3, 2)
    np.testing.assert_allclose(base_logits.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(base_logits.std(axis=(0, 1)), 1, atol=1e-5)


def test_features_of_another_model_are_refused() -> None:
    stack = Stack(["linear"])
    stack.fit(np.eye(20, 4, dtype=np.float32), np.eye(20, 2, dtype=np.float32), seed=0)
    with pytest.raises(ModelFolderError, match="do not fit its 5 input features"):
        stack.logits(np.ones((2, 5), dtype=np.float32))


def test_only_growing_a_forest_loads_scikit_learn() -> None:
    code = (
        "import sys, numpy as np\n"
        "from lampnet.base_learners.restore import restore_stack\n"
        "from lampnet.base_learners.stack import Stack\n"
        "X, Y = np.eye(20, 4, dtype='f4'), np.eye(20, 2, dtype='f4')\n"
        "stack = Stack(['linear', 'knn'])\n"
        "stack.fit(X, Y, seed=0)\n"
        "restore_stack(stack.names, stack.arrays(), 2).logits(X)\n"
        "assert 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
