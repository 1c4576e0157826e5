"""Whole fits: what a user waits for, from rows in memory to a model that predicts, beside tuned logistic regression.

Every system fits the same rows in a process of its own, one after the other in the same run, so that their ratios
hold where absolute times do not. Seconds are by the clock and of the processor; scores are on test rows where the data
set has them, with the decision that each system chose itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench.other_programs import OtherPrograms
from lampnet.errors import DataError, LampnetError

#: name, seconds wanted for `fast` and `quick`, and rows per second wanted for predicting; None where nothing is wanted
TARGETS: dict[str, tuple[float | None, float | None, float | None]] = {
    "synthetic": (3, 1, None),
    "reuters500": (5, 2, None),
    "emotions": (5, None, None),
    "scene": (20, None, None),
    "reuters21578": (120, None, None),
    "bibtex": (240, 45, 600),
    "delicious": (540, 180, 400),
}
SMALL = ("synthetic", "reuters500", "emotions", "scene")
SYSTEMS = ("logistic", "quick", "fast")
F1 = ("example_f1", "micro_f1", "macro_f1")


@dataclass(frozen=True)
class Rows:
    """Training and test rows as a scikit-learn user holds them."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


def rows_of(name: str) -> Rows:
    """The rows of a case; named data sets are read from the data folder."""
    if name == "synthetic":
        from sklearn.datasets import make_multilabel_classification

        X, Y = make_multilabel_classification(400, 40, n_classes=7, random_state=0)
        return Rows(X[:300], Y[:300], X[300:], Y[300:])
    from lampnet import load_data
    from lampnet.data.dataset import Table

    data = load_data("reuters21578" if name == "reuters500" else name)
    test = data.test
    assert test is not None
    train = data.merged_back().train
    Y, Y_test = train.indicator(), test.indicator()
    X, X_test = (part.rows.values if isinstance(part.rows, Table) else part.rows for part in (train, test))
    if name == "reuters500":
        most = np.sort(np.argsort(-Y.sum(0))[:10])
        some = np.flatnonzero(Y[:, most].any(axis=1))[:500]
        held = np.flatnonzero(Y_test[:, most].any(axis=1))
        X, Y = [X[i] for i in some], Y[np.ix_(some, most)]
        X_test, Y_test = [X_test[i] for i in held], Y_test[np.ix_(held, most)]
    return Rows(X, Y, X_test, Y_test)


def fit_one(name: str, system: str) -> dict[str, Any]:
    """Fit and predict once, in this process; imports are not counted."""
    rows = rows_of(name)
    fit, predict = _logistic() if system == "logistic" else _lampnet(system)
    began, used = time.perf_counter(), time.process_time()
    model = fit(rows.X, rows.Y)
    found: dict[str, Any] = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}
    began = time.perf_counter()
    scores = predict(model, rows.X_test, rows.Y_test)
    found["rows_per_second"] = len(rows.Y_test) / (time.perf_counter() - began)
    one = rows.X_test[:1]
    times = []
    for _ in range(30):
        began = time.perf_counter()
        model.predict_proba(one)
        times.append(time.perf_counter() - began)
    found["one_row_ms"] = 1000 * float(np.median(times))
    return found | scores


def _lampnet(preset: str) -> tuple[Callable[..., Any], Callable[..., dict[str, Any]]]:
    for module in ("sklearn.tree", "lampnet.pipeline.fit"):  # what a fit imports is not counted
        import_module(module)
    from lampnet import LaMPClassifier
    from lampnet.evaluation.metrics import METRICS

    def fit(X: Any, Y: Any) -> Any:
        return LaMPClassifier(preset=preset).fit(X, Y)

    def predict(model: Any, X: Any, Y: Any) -> dict[str, Any]:
        proba = model.predict_proba(X)
        decisions = model.model_.decisions.best
        scores = {m: float(METRICS[m](np.asarray(Y), decisions[m].apply(proba))) for m in F1}
        return scores | {"network_weight": model.model_.network_weight}

    return fit, predict


def _logistic() -> tuple[Callable[..., Any], Callable[..., dict[str, Any]]]:
    from lampnet.baselines.linear import OneVsRestLogistic
    from lampnet.evaluation.choose_rules import choose_decisions
    from lampnet.evaluation.metrics import METRICS

    class TfidfLogistic:
        """One-vs-rest logistic regression on tf-idf, C tuned and thresholds chosen on a tenth of the rows."""

        def fit(self, X: Any, Y: np.ndarray) -> Any:
            from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

            self.words = None
            if isinstance(X, (list, tuple)):
                self.words = TfidfVectorizer(sublinear_tf=True).fit(X)
            elif hasattr(X, "tocsr"):
                self.words = TfidfTransformer().fit(X)
            features = self.features(X)
            kept = np.random.default_rng(0).permutation(len(Y))
            held, learn = kept[: max(1, len(Y) // 10)], kept[max(1, len(Y) // 10) :]
            self.model = OneVsRestLogistic().fit(features[learn], Y[learn], features[held], Y[held])
            self.decisions = choose_decisions(Y[held], self.predict_proba_of(features[held])).best
            self.model = OneVsRestLogistic(C=self.model.C_).fit(features, Y)
            return self

        def features(self, X: Any) -> Any:
            return X if self.words is None else self.words.transform(X)

        def predict_proba_of(self, features: Any) -> np.ndarray:
            return np.asarray(self.model.predict_proba(features))

        def predict_proba(self, X: Any) -> np.ndarray:
            return self.predict_proba_of(self.features(X))

    def predict(model: Any, X: Any, Y: Any) -> dict[str, Any]:
        proba = model.predict_proba(X)
        return {m: float(METRICS[m](np.asarray(Y), model.decisions[m].apply(proba))) for m in F1}

    return lambda X, Y: TfidfLogistic().fit(X, Y), predict


def whole_fits(
    names: Sequence[str] = SMALL, rounds: int = 1, log: Callable[[str], None] = lambda sentence: None
) -> dict[str, Any]:
    """For each case the systems in turns, `rounds` times: medians, ratios to logistic regression, and the targets."""
    found: dict[str, Any] = {}
    for name in names:
        others = OtherPrograms()
        runs: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
        for _ in range(rounds):
            for system in SYSTEMS:
                runs[system].append(_apart(name, system))
                last = runs[system][-1]
                log(f"{name}, {system}: {last['seconds']:.1f} s ({last['cpu_seconds']:.1f} s of processor)")
        found[name] = {system: _median(own) for system, own in runs.items()}
        for system in ("quick", "fast"):
            found[name][system]["times_logistic"] = (
                found[name][system]["cpu_seconds"] / found[name]["logistic"]["cpu_seconds"]
            )
        fast, quick, rate = TARGETS[name]
        found[name]["wanted"] = {"fast_seconds": fast, "quick_seconds": quick, "rows_per_second": rate}
        found[name]["others"] = round(others.cores(), 2)
    return found


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: round(float(np.median([run[key] for run in runs])), 4) for key in runs[0]} | {"runs": len(runs)}


def _apart(name: str, system: str) -> dict[str, Any]:
    """`fit_one` in a fresh process, as a user's script would run; what it cannot read is a `DataError` here."""
    code = f"from bench.whole_fits import print_fit; print_fit({name!r}, {system!r})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise LampnetError(f"{name}, {system}: the process that measured it ended with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "fault" in found:
        raise DataError(found["fault"])
    return found


def print_fit(name: str, system: str) -> None:
    """`fit_one` as a line of JSON, for the process that asked for it."""
    try:
        found = fit_one(name, system)
    except LampnetError as fault:
        found = {"fault": str(fault)}
    print(json.dumps(found))
