"""Do two states of the code train the same models? Run on both commits, then compare.

    git worktree add ../before COMMIT
    PYTHONPATH=../before/src python benchmarks/same_probabilities.py --out before.npz
    python benchmarks/same_probabilities.py --out after.npz --compare before.npz

Only the public interface is used, so that the script runs unchanged on both sides. Every model is trained
with the default settings and seed 0 on one thread; what is kept are the probabilities of test rows.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy: sums over two threads are rounded in another order

import numpy as np

import lampnet
from lampnet import LaMPClassifier, load_data

#: data set -> the number of training rows (None for all of them)
DATA: dict[str, int | None] = {"digits": None, "emotions": None, "bibtex": 500, "reuters21578": 500}
TEST_ROWS = 200
TOLERANCE = 1e-6


def probabilities(name: str, n_rows: int | None, root: str | None) -> np.ndarray:
    """(test rows, L) of a model trained on the first `n_rows` rows."""
    data = load_data(name, data_root=root)
    train, test = data.train, data.test
    rows, labels = train.rows[:n_rows], train.labels[:n_rows]
    seen = np.flatnonzero(np.asarray((labels > 0).sum(axis=0)).ravel())  # a label without any row cannot be learned
    model = LaMPClassifier(random_state=0, n_jobs=1, input_kind=train.kind).fit(rows, labels[:, seen])
    return model.predict_proba(test.rows[:TEST_ROWS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where the probabilities go (.npz)")
    parser.add_argument("--compare", type=Path, help="the file of the other side")
    parser.add_argument("--data-root", help="the folder of the named data sets (else LAMPNET_DATA, or ./data)")
    parser.add_argument("--only", choices=DATA, action="append", help="these data sets only")
    options = parser.parse_args()
    print(f"lampnet from {Path(lampnet.__file__).parent}")
    found: dict[str, np.ndarray] = dict(np.load(options.out)) if options.out.exists() and options.only else {}
    other = np.load(options.compare) if options.compare else None
    worst = 0.0
    for name in options.only or DATA:
        found[name] = probabilities(name, DATA[name], options.data_root)
        line = f"{name}: {found[name].shape[0]} rows x {found[name].shape[1]} labels"
        if other is not None:
            difference = float(np.abs(found[name] - other[name]).max())
            worst = max(worst, difference)
            line += f", largest difference {difference:.2e}"
        print(line, flush=True)
        np.savez(options.out, **found)
    if other is not None and worst > TOLERANCE:
        raise SystemExit(f"the probabilities differ by up to {worst:.2e}; at most {TOLERANCE:.0e} is allowed")


if __name__ == "__main__":
    main()
