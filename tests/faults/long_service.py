"""A process that predicts one row after the other for a long time, and prints what became of its memory.

    python long_service.py PREDICTIONS tiny|default

The first tenth of the predictions warms up; from then on nothing may be added. `tiny` is a network without base
learners, so that a million predictions take minutes; `default` has all that a user's first model has.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lampnet import LaMPClassifier

WORDS = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree", "house", "rome", "oslo"])
DRAW = np.random.default_rng(0)
ROWS = 200


def resident_kb() -> int:
    """Memory of this process that is in use now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def fitted(which: str) -> tuple[Callable[[Any], np.ndarray], list[Any]]:
    """How to predict, and single rows to predict."""
    settings = {"training.folds": 1}
    if which == "default":
        texts = [" ".join(WORDS[DRAW.integers(0, 10, size=1 + number % 12)]) for number in range(ROWS)]
        labels = np.array([[word in text.split() for word in WORDS[:3]] for text in texts], dtype=float)
        model = LaMPClassifier(epochs=1, n_jobs=1, settings=settings).fit(texts, labels)
        return model.predict_proba, [[text] for text in texts]
    X = DRAW.normal(size=(ROWS, 6))
    tiny = {"width": 4, "heads": 1, "steps": 1, "base_learners": "none", "label_graph": "edgeless"}
    model = LaMPClassifier(input_kind="vector", epochs=1, n_jobs=1, settings=settings, **tiny)
    return model.fit(X, (X[:, :3] > 0).astype(float)).model_.proba, list(X[:, None])


def main() -> None:
    predictions = int(sys.argv[1])
    predict, rows = fitted(sys.argv[2])
    first = [predict(row) for row in rows]
    began, warm = time.process_time(), max(ROWS, predictions // 10)
    before, changed = {}, 0
    for number in range(predictions):
        if number == warm:
            gc.collect()
            before = {"kb": resident_kb(), "objects": len(gc.get_objects()), "files": len(os.listdir("/proc/self/fd"))}
        changed += not np.array_equal(predict(rows[number % ROWS]), first[number % ROWS])
    gc.collect()
    found = {
        "grown_kb": resident_kb() - before["kb"],
        "grown_objects": len(gc.get_objects()) - before["objects"],
        "grown_files": len(os.listdir("/proc/self/fd")) - before["files"],
        "changed": changed,
        "cpu_ms": round(1000 * (time.process_time() - began) / predictions, 2),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
