"""LaMP beside LibMultiLabel and napkinXC: results/other_tools/*.json, shown by docs/results.md.

    pip install libmultilabel napkinxc
    python benchmarks/other_tools.py [--data-root DIR] [--dataset bibtex ...] [--tool napkinxc ...]

Both get the features that every baseline gets, and their strength of regularisation is tuned on the same validation
rows. napkinXC gives probabilities: lampnet's decisions are chosen for it as for every baseline. LibMultiLabel decides
itself. Results that are there are kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from lampnet.base_learners.stack import vstack_features
from lampnet.baselines import REGISTRY, Entry
from lampnet.baselines.linear import platt
from lampnet.baselines.rows import check_labels
from lampnet.baselines.tuning import climb, mean_f1
from lampnet.config import Config
from lampnet.evaluation.metrics import five_metrics
from lampnet.experiments.machine import machine
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.protocol import run
from lampnet.experiments.result_files import file_name, write_result
from lampnet.experiments.systems import SYSTEMS, System
from lampnet.readers.sources import Source
from pages.other_tools_section import FOLDER

RESULTS = Path(__file__).parent.parent / "results"
#: Where features are sparse, the rows that both tools are made for.
DATASETS = ("bibtex", "reuters21578", "delicious", "corel5k", "goemotions", "imdb")
C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class NapkinXC:
    """Three probabilistic label trees, logistic regressions inside; `C=None` is tuned on validation rows."""

    def __init__(self, C: float | None = None, seed: int = 0) -> None:
        self.C, self.seed = C, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> NapkinXC:
        X, Y = sparse.csr_matrix(X), check_labels(X, Y)

        def score(C: float) -> float:
            assert Y_valid is not None
            self._learn(X, Y, C)
            return mean_f1(Y_valid, self.predict_proba(X_valid))

        best = climb(score, C_GRID, start=10.0) if self.C is None else self.C
        self.tuned_ = {"C": best}
        self._learn(X, Y, best)
        return self

    def _learn(self, X: sparse.csr_matrix, Y: np.ndarray, C: float) -> None:
        from napkinxc.models import PLT

        self.n_labels_ = Y.shape[1]
        self.folder_ = tempfile.TemporaryDirectory(prefix="napkinxc-")  # its models live on disk
        path = self.folder_.name
        self.model_ = PLT(path, liblinear_c=C, ensemble=3, weights_threshold=0.0, seed=self.seed, threads=1)
        self.model_.fit(X, [np.flatnonzero(row == 1).tolist() for row in Y])

    def predict_proba(self, X: Any) -> np.ndarray:
        """float32 (n, L)"""
        proba = np.zeros((X.shape[0], self.n_labels_), dtype=np.float32)
        for row, named in enumerate(self.model_.predict_proba(sparse.csr_matrix(X), top_k=self.n_labels_)):
            for label, p in named:
                proba[row, label] = p
        return proba


class _NapkinEntry(Entry):
    """Its class lives here, not among lampnet's baselines."""

    def make(self, **settings: Any) -> NapkinXC:
        return NapkinXC(**settings)


def napkinxc(material: Material) -> dict[str, Any]:
    """By the code path of every baseline: lampnet's decisions, cross-fitted."""
    REGISTRY["napkinxc"] = _NapkinEntry("napkinXC, three label trees", "", "", "features")
    SYSTEMS["napkinxc"] = System("napkinxc", REGISTRY["napkinxc"].title)
    return run("napkinxc", material, log=print)


class _Labels(sparse.csc_matrix):
    """LibMultiLabel 0.10 asks for a sum over axis 2 where it means the rows, which SciPy refuses."""

    def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        return super().sum(axis=0 if axis == 2 else axis, dtype=dtype, out=out)


def libmultilabel(material: Material) -> dict[str, Any]:
    """Linear SVMs whose thresholds it chooses itself, by its own cross-validation (its method "thresholding").

    The strength is tuned on validation rows with its plain SVMs; then it learns from all labelled rows.
    """
    from libmultilabel.linear import train_1vsrest, train_thresholding

    encoded, truth = material.features(Config.preset("fast")), material.truth

    def score(C: float) -> float:
        model = train_1vsrest(_Labels(truth["train"]), encoded.train, options=_options(C), verbose=False)
        values = np.asarray(model.predict_values(encoded.valid))
        slope, shift = platt(values, truth["valid"])
        return mean_f1(truth["valid"], expit(slope * values + shift))

    print("LibMultiLabel: fitting")
    began = time.perf_counter()
    C = climb(score, C_GRID, start=1.0)
    np.random.seed(material.seed)  # noqa: NPY002 - its folds are drawn from NumPy's global state
    X, Y = vstack_features([encoded.train, encoded.valid]), np.vstack([truth["train"], truth["valid"]])
    model = train_thresholding(_Labels(Y), X, options=_options(C), verbose=False)
    minutes = (time.perf_counter() - began + encoded.fit_seconds) / 60
    named = np.asarray(model.predict_values(encoded.test)) > 0
    return {
        "system": "libmultilabel",
        "title": "LibMultiLabel, SVMs with its own thresholds",
        "dataset": material.name,
        "seed": material.seed,
        "machine": machine(),
        "data": material.metadata(),
        "finished": True,
        "config": {"tuned": {"C": C}},
        "minutes": {"fit": round(minutes, 4)},
        "best": {name: round(float(score), 6) for name, score in five_metrics(truth["test"], named).items()},
    }


def _options(C: float) -> str:
    return f"-s 2 -B 1 -c {C}"


TOOLS: dict[str, Callable[[Material], dict[str, Any]]] = {"libmultilabel": libmultilabel, "napkinxc": napkinxc}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    parser.add_argument("--dataset", action="append")
    parser.add_argument("--tool", action="append", choices=list(TOOLS))
    given = parser.parse_args()
    for dataset in given.dataset or DATASETS:
        material = None
        for tool in given.tool or list(TOOLS):
            if (RESULTS / FOLDER / file_name(dataset, tool, 0)).exists():
                continue
            material = material or open_material(Source(data=dataset, root=given.data_root, on_bad_row="skip"))
            print(write_result(RESULTS / FOLDER, TOOLS[tool](material) | {"tool_version": version(tool)}))


if __name__ == "__main__":
    main()
