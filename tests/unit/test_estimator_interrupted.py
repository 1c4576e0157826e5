"""Ctrl-C while LaMPClassifier.fit runs, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from lampnet import LaMPClassifier

CHILD = """
import sys, warnings
import numpy as np
from lampnet import LaMPClassifier
from lampnet.base_learners.knn import KNNLearner

fit = KNNLearner.fit

def waiting(self, *args, **more):
    print("the second base learner begins", flush=True)
    sys.stdin.readline()
    return fit(self, *args, **more)

KNNLearner.fit = waiting
random = np.random.default_rng(0)
X = random.normal(size=(120, 5))
y = (X[:, :3] + 0.3 * random.normal(size=(120, 3)) > 0.3).astype(int)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = LaMPClassifier(base_learners=["linear", "knn"], random_state=0).fit(X, y)
print([str(one.message) for one in caught if "stopped" in str(one.message)], flush=True)
print(model.model_.stack.names, model.score(X, y) > 0.5, flush=True)
model.save(sys.argv[1])
"""


def test_ctrl_c_after_the_first_base_learner_leaves_a_usable_model(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "model")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.stdin.write("\n")
        child.stdin.flush()
        said, err = child.communicate()
    assert first == "the second base learner begins\n", err
    assert child.returncode == 0, err
    assert "training was stopped; the best model so far is kept" in said
    assert "('linear',) True" in said
    model = LaMPClassifier.load(tmp_path / "model")
    proba = model.predict_proba(np.zeros((2, 5)))
    assert proba.shape == (2, 3)
    assert np.isfinite(proba).all()
