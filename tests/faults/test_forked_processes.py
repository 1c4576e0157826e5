"""Children forked from a process that has predicted on several threads: they predict and train, and do not hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.faults

PROGRAM = """
import os, signal, sys, threading
import numpy as np, torch
from lampnet import LaMPClassifier
from lampnet.runtime import allocator, torch_state

draw = np.random.default_rng(0)
X, Y = draw.normal(size=(120, 40)), (draw.random((120, 30)) < 0.2).astype(float)
settings = {"training.folds": 1}
model = LaMPClassifier(input_kind="columns", epochs=1, n_jobs=1, width=64, settings=settings, base_learners="none")
model.fit(X[:30], Y[:30])
torch.set_num_threads(2)
before = model.predict_proba(X)
taken, done = threading.Event(), threading.Event()

def hold():
    with allocator._lock.held(), torch_state._GENERATOR.held(), torch_state._THREADS.held():
        taken.set()
        done.wait()

holder = threading.Thread(target=hold)
holder.start()
taken.wait()
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[1]))  # a hanging child is killed; its parent sees the signal
    same = np.allclose(model.predict_proba(X), before, atol=1e-5)
    model.set_params(n_jobs=2).fit(X[:30], Y[:30])
    os._exit(0 if same and np.isfinite(model.predict_proba(X)).all() and torch.get_num_threads() == 1 else 3)
done.set()
holder.join()
_, status = os.waitpid(child, 0)
assert torch.get_num_threads() == 2
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_child_forked_after_a_threaded_prediction_predicts_and_trains() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "120"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert done.stdout.split() == ["0"], done.stdout + done.stderr
