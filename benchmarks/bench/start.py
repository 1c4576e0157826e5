"""Start-up times: of the command line, and until a saved model's first prediction.

`python -m bench.start --out docs/measurements/bench.json`, in `benchmarks/`, measures them anew and leaves the rest of
a stored bench as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from bench.networks import SHAPES, Shape
from bench.other_programs import OtherPrograms
from lampnet.runtime.atomic_files import write_atomically

ROWS, TURNS = 96, 3

_VERSION = "import sys; sys.argv=['lampnet', '--version']; from lampnet.cli import main; main()"
# In its own process, like the first request of a service; CPU time counts from the start of the process.
_FIRST = """
import json, sys, time
import scipy.sparse
import torch
torch.set_num_threads(1)
imported = time.process_time()
from lampnet import LaMPClassifier
model = LaMPClassifier.load(sys.argv[1])
row = scipy.sparse.load_npz(sys.argv[2])
loaded = time.process_time()
model.predict(row)
first = time.process_time()
model.predict(row)
second = time.process_time()
print(json.dumps({"imported": imported, "loaded": loaded, "first": first, "second": second}))
"""


def start_up() -> dict[str, float]:
    """Seconds until the command line has printed its version, and until Python alone has started."""

    def seconds(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    turns = [(seconds("pass"), seconds(_VERSION), seconds("import torch")) for _ in range(TURNS)]
    python, command, with_torch = (sorted(times)[TURNS // 2] for times in zip(*turns, strict=True))
    return {"python_seconds": python, "command_seconds": command, "import_torch_seconds": with_torch}


def first_prediction(shape: Shape) -> dict[str, float]:
    """Seconds of each part of the way from a saved model, base learners included, to a label set."""
    from lampnet.estimator import LaMPClassifier

    random = np.random.default_rng(0)
    words = sparse.random_array((ROWS, shape.words), density=shape.nodes / shape.words, rng=random, format="csr")
    truth = random.random((ROWS, shape.labels)) < shape.true_labels / shape.labels
    with tempfile.TemporaryDirectory() as folder:
        model = LaMPClassifier(input_kind="wordset", epochs=1, validation_fraction=0.1, n_jobs=1)
        model.fit(words, truth).save(Path(folder) / "model")
        sparse.save_npz(Path(folder) / "row.npz", words[:1])
        command = [sys.executable, "-c", _FIRST, str(Path(folder) / "model"), str(Path(folder) / "row.npz")]
        # As after an installation: the first turn compiles lampnet, and is not counted.
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        turns = [subprocess.run(command, check=True, capture_output=True, env=own) for _ in range(1 + TURNS)]
        taken = [json.loads(turn.stdout) for turn in turns[1:]]
    middle = {name: sorted(turn[name] for turn in taken)[TURNS // 2] for name in taken[0]}
    return {
        "import_seconds": middle["imported"],
        "load_seconds": middle["loaded"] - middle["imported"],
        "first_seconds": middle["first"] - middle["loaded"],
        "second_seconds": middle["second"] - middle["first"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the stored bench")
    out = parser.parse_args().out
    others = OtherPrograms()
    measured = {"start_up": start_up(), "first_prediction": first_prediction(SHAPES[0])}
    measured["first_prediction"]["others"] = round(others.cores(), 2)
    write_atomically(out, (json.dumps(json.loads(out.read_text()) | measured, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
