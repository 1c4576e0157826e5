"""LaMP beside other tools of today: results/other_tools/*.json, shown by docs/results.md.

    pip install libmultilabel napkinxc omikuji xgboost catboost
    python benchmarks/other_tools.py [--data-root DIR] [--dataset bibtex ...] [--tool napkinxc ...] [--time-budget 30m]

All get the features that every baseline gets, and are tuned on the same validation rows: the linear ones their strength
of regularisation, boosted trees the number of rounds. Tools with probabilities get lampnet's decisions, chosen for them
as for every baseline; LibMultiLabel decides itself. Results that are there are kept; a tool that is not installed or
cannot learn from a data set is left out with a sentence. PECOS 1.2.8 does not run with SciPy 1.17.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from lampnet.base_learners.stack import vstack_features
from lampnet.baselines import REGISTRY, Entry
from lampnet.baselines.linear import platt
from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.tuning import climb, mean_f1
from lampnet.config import Config
from lampnet.errors import DataError, LampnetError
from lampnet.evaluation.metrics import five_metrics
from lampnet.experiments.machine import machine
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.protocol import run
from lampnet.experiments.reproduce import SEEDS
from lampnet.experiments.result_files import file_name, write_result
from lampnet.experiments.systems import SYSTEMS, System
from lampnet.readers.sources import Source
from lampnet.runtime.durations import seconds_of
from pages.other_tools_section import FOLDER

RESULTS = Path(__file__).parent.parent / "results"
C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ROUNDS, PATIENCE = 1000, 30
#: CatBoost's trees hold every label in every leaf, and its time grows with both
CATBOOST_LABELS = 200


def whole_labels(X: Any, Y: np.ndarray) -> np.ndarray:
    """Labels (n, L) without unknown ones, which these tools cannot leave out."""
    Y = check_labels(X, Y)
    if np.isnan(Y).any():
        raise DataError("some labels are unknown, and this tool needs all of them")
    return Y


class LabelTrees(ABC):
    """Trees of labels with linear classifiers in their nodes; `C=None` is tuned on validation rows."""

    def __init__(self, C: float | None = None, seed: int = 0) -> None:
        self.C, self.seed = C, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> LabelTrees:
        X, Y = sparse.csr_matrix(X, dtype=np.float32), whole_labels(X, Y)

        def score(C: float) -> float:
            assert Y_valid is not None
            self._learn(X, Y, C)
            return mean_f1(Y_valid, self.predict_proba(X_valid))

        best = climb(score, C_GRID, start=10.0) if self.C is None else self.C
        self.tuned_ = {"C": best}
        self._learn(X, Y, best)
        return self

    @abstractmethod
    def _learn(self, X: sparse.csr_matrix, Y: np.ndarray, C: float) -> None: ...

    @abstractmethod
    def predict_proba(self, X: Any) -> np.ndarray: ...


class NapkinXC(LabelTrees):
    """Three probabilistic label trees, logistic regressions inside."""

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


class Omikuji(LabelTrees):
    """Three Parabel trees: balanced two-means of the labels, hinge-loss rankers inside; every label is reached."""

    def _learn(self, X: sparse.csr_matrix, Y: np.ndarray, C: float) -> None:
        import omikuji

        self.n_labels_ = Y.shape[1]
        settings = omikuji.Model.default_hyper_param()
        settings.linear_c, settings.linear_weight_threshold = C, 0.0
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
            for row in range(X.shape[0]):
                span = slice(X.indptr[row], X.indptr[row + 1])
                words = " ".join(f"{i}:{v:.7g}" for i, v in zip(X.indices[span], X.data[span], strict=True))
                file.write(f"{','.join(map(str, np.flatnonzero(Y[row] == 1)))} {words}\n")
            file.flush()
            self.model_ = omikuji.Model.train_on_data(file.name, settings, n_threads=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """float32 (n, L)"""
        rows = sparse.csr_matrix(X)
        proba = np.zeros((rows.shape[0], self.n_labels_), dtype=np.float32)
        for row in range(rows.shape[0]):
            span = slice(rows.indptr[row], rows.indptr[row + 1])
            pairs = list(zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True))
            for label, p in self.model_.predict(pairs, beam_size=self.n_labels_, top_k=self.n_labels_):
                proba[row, label] = p
        return np.clip(proba, 0.0, 1.0)


class BoostedTrees(ABC):
    """Gradient boosting on all labels at once; `rounds=None` is tuned: until the validation loss no longer falls."""

    def __init__(self, rounds: int | None = None, seed: int = 0) -> None:
        self.rounds, self.seed = rounds, seed

    def fit(self, X: Any, Y: np.ndarray, X_valid: Any = None, Y_valid: np.ndarray | None = None) -> BoostedTrees:
        Y = whole_labels(X, Y)
        valid = None if X_valid is None or Y_valid is None else (X_valid, whole_labels(X_valid, Y_valid))
        if self.rounds is None and valid is None:
            learn, tune = held_out_tenth(len(Y), self.seed)
            X, Y, valid = X[learn], Y[learn], (X[tune], Y[tune])
        self.tuned_ = {"rounds": self._learn(X, Y, None if self.rounds else valid)}
        return self

    @abstractmethod
    def _learn(self, X: Any, Y: np.ndarray, valid: tuple[Any, np.ndarray] | None) -> int:
        """Fit, and the number of rounds that were best; all of `rounds` without validation rows."""

    @abstractmethod
    def predict_proba(self, X: Any) -> np.ndarray: ...


class XGBoost(BoostedTrees):
    """Trees whose leaves hold all labels (`multi_output_tree`)."""

    def _learn(self, X: Any, Y: np.ndarray, valid: tuple[Any, np.ndarray] | None) -> int:
        from xgboost import XGBClassifier

        stopping = {} if valid is None else {"early_stopping_rounds": PATIENCE}
        self.model_ = XGBClassifier(
            n_estimators=self.rounds or ROUNDS, learning_rate=0.1, tree_method="hist", n_jobs=1, random_state=self.seed,
            multi_strategy="multi_output_tree", objective="binary:logistic", **stopping,
        )  # fmt: skip
        self.model_.fit(X, Y, eval_set=None if valid is None else [valid], verbose=False)
        return int(self.rounds or self.model_.best_iteration + 1)

    def predict_proba(self, X: Any) -> np.ndarray:
        proba = np.asarray(self.model_.predict_proba(X))
        return proba[:, -1:] if proba.ndim == 2 and self.model_.n_classes_ == 2 and proba.shape[1] == 2 else proba


class CatBoost(BoostedTrees):
    """Symmetric trees with the loss MultiLogloss."""

    def _learn(self, X: Any, Y: np.ndarray, valid: tuple[Any, np.ndarray] | None) -> int:
        from catboost import CatBoostClassifier

        if Y.shape[1] > CATBOOST_LABELS:
            raise DataError(f"{Y.shape[1]} labels are more than CatBoost fits in hours")
        self.model_ = CatBoostClassifier(
            loss_function="MultiLogloss", iterations=self.rounds or ROUNDS, random_seed=self.seed, thread_count=1,
            early_stopping_rounds=None if valid is None else PATIENCE, allow_writing_files=False, verbose=False,
        )  # fmt: skip
        self.model_.fit(X, Y.astype(np.int64), eval_set=valid)
        return int(self.rounds or self.model_.get_best_iteration() + 1)

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(X))


@dataclass(frozen=True)
class Tool(Entry):
    """A tool with probabilities; its class lives here, not among lampnet's baselines."""

    kind: Any = field(default=None, kw_only=True)

    def make(self, **settings: Any) -> Any:
        return self.kind(**settings)


def by_protocol(name: str, title: str, kind: type) -> Callable[[Material, float], dict[str, Any]]:
    """The code path of every baseline: lampnet's decisions, cross-fitted."""

    def compared(material: Material, time_budget: float) -> dict[str, Any]:
        REGISTRY[name] = Tool(title, "", "", "features", kind=kind)
        SYSTEMS[name] = System(name, title)
        return run(name, material, time_budget=time_budget, log=print)

    return compared


class _Labels(sparse.csc_matrix):
    """LibMultiLabel 0.10 asks for a sum over axis 2 where it means the rows, which SciPy refuses."""

    def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        return super().sum(axis=0 if axis == 2 else axis, dtype=dtype, out=out)


def libmultilabel(material: Material, time_budget: float) -> dict[str, Any]:
    """Linear SVMs whose thresholds it chooses itself, by its own cross-validation (its method "thresholding").

    The strength is tuned on validation rows with its plain SVMs; then it learns from all labelled rows.
    """
    from libmultilabel.linear import train_1vsrest, train_thresholding

    encoded, truth = material.features(Config.preset("fast")), material.truth
    for part in ("train", "valid"):
        whole_labels(getattr(encoded, part), truth[part])

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


#: each tool by the name of its package
TOOLS: dict[str, Callable[[Material, float], dict[str, Any]]] = {
    "libmultilabel": libmultilabel,
    "napkinxc": by_protocol("napkinxc", "napkinXC, three label trees", NapkinXC),
    "omikuji": by_protocol("omikuji", "Omikuji, three Parabel trees", Omikuji),
    "xgboost": by_protocol("xgboost", "XGBoost, multi-output trees", XGBoost),
    "catboost": by_protocol("catboost", "CatBoost, MultiLogloss", CatBoost),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    parser.add_argument("--dataset", action="append")
    parser.add_argument("--tool", action="append", choices=list(TOOLS))
    parser.add_argument("--time-budget", default="60m")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    for dataset in given.dataset or SEEDS:
        material = None
        for tool in given.tool or list(TOOLS):
            if (given.out / FOLDER / file_name(dataset, tool, 0)).exists():
                continue
            try:
                known = version(tool)
                material = material or open_material(Source(data=dataset, root=given.data_root, on_bad_row="skip"))
                result = TOOLS[tool](material, seconds_of(given.time_budget))
            except (PackageNotFoundError, LampnetError) as problem:
                print(f"{tool} on {dataset} is left out: {problem}")
                continue
            print(write_result(given.out / FOLDER, result | {"dataset": dataset, "tool_version": known}))


if __name__ == "__main__":
    main()
