"""One code path for every system: fit, choose decision rules on held-out rows, score on test rows.

A result is plain data. Its scores come in three groups that must not be confused:

paper   for each metric, at the best of the paper's 27 thresholds on held-out rows
best    for each metric, under the best of all decision rules on held-out rows
oracle  at the threshold that is best on the TEST rows: an upper bound, used for no choice

>>> from lampnet.experiments.material import open_material
>>> result = run("constant", open_material("digits"))
>>> result["finished"], result["ranking"]["roc_auc_macro"]
(True, 0.5)
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.stack import vstack_features
from lampnet.baselines import REGISTRY, baseline
from lampnet.config import Config, folds_for
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.evaluation.choose_rules import Decisions, choose_decisions, choose_paper_thresholds
from lampnet.evaluation.intervals import score_interval
from lampnet.evaluation.metrics import METRICS, example_f1_by_row, five_metrics
from lampnet.evaluation.scores import all_scores
from lampnet.experiments.machine import machine, version
from lampnet.experiments.material import Material
from lampnet.experiments.row_scores import packed
from lampnet.experiments.systems import System, baseline_settings, system
from lampnet.experiments.time_limit import OutOfTime, at_most, in_words

RANKING = ("roc_auc_macro", "roc_auc_micro", "average_precision_macro")
OWN_SETS = "its own label sets"
#: Networks check their time budget after every epoch; they are interrupted after this many budgets.
_GRACE = 2.0
#: A text as a baseline that reads it word by word gets it; the length is that of the authors' code.
WORDS_IN_ORDER = {"input.text_nodes": "sequence", "input.tfidf": False, "input.max_nodes": 300}
#: receives one sentence per phase
Log = Callable[[str], None]


@dataclass
class Run:
    """What fitting a system gave, before any score.

    valid, test            probabilities (n, L); `valid` of the held-out rows
    valid_truth            labels (n, L) of the held-out rows: the validation rows, or all labelled rows out-of-fold
    valid_sets, test_sets  label sets, bool (n, L), of a system that predicts them directly
    decisions              decision rules of a system that chooses them itself
    history                of a network: loss and validation scores of each epoch
    """

    valid: np.ndarray
    valid_truth: np.ndarray
    test: np.ndarray
    fit_seconds: float
    predict_seconds: float
    weights: int
    bytes: int
    config: dict[str, Any]
    status: str = "finished"
    valid_sets: np.ndarray | None = None
    test_sets: np.ndarray | None = None
    decisions: Decisions | None = None
    history: list[dict[str, Any]] = field(default_factory=list)


def run(
    name: str | System,
    material: Material,
    *,
    time_budget: float = 0.0,
    settings: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    log: Log = lambda sentence: None,
) -> dict[str, Any]:
    """Fit a system and score it.

    name         one of `lampnet.experiments.systems.SYSTEMS`, or a system of the caller's own
    time_budget  seconds of fitting, 0 for no limit; networks keep their best epoch, other methods are unfinished
    settings     dotted settings of LaMP, and of baselines under their names (`mlp.width`)
    folder       where LaMP keeps its checkpoints; a stopped run that is started again goes on from them, and the
                 minutes are those of all its sessions

    Returns plain data for JSON; `finished` is False, and there are no scores, where time ran out.
    """
    chosen = system(name) if isinstance(name, str) else name
    result: dict[str, Any] = {
        "system": chosen.name,
        "title": chosen.title,
        "dataset": material.name,
        "seed": material.seed,
        "version": version(),
        "machine": machine(),
        "data": material.metadata(),
        "time_budget_minutes": round(time_budget / 60, 3),
    }
    log(f"{chosen.title}: fitting")
    try:
        if chosen.is_lamp:
            done = _run_lamp(chosen, material, time_budget, settings, folder, log)
        else:
            done = _run_baseline(chosen, material, time_budget, settings)
    except OutOfTime:
        status = f"did not finish in {in_words(time_budget)}"
        log(f"{chosen.title}: {status}")
        return result | {"finished": False, "status": status}
    result |= {
        "finished": True,
        "status": done.status,
        "config": json.loads(json.dumps(done.config)),  # tuples become lists, as in the file
        "minutes": {"fit": round(done.fit_seconds / 60, 4), "predict": round(done.predict_seconds / 60, 4)},
        "size": {"weights": done.weights, "bytes": done.bytes},
        "history": _plain(done.history),
    }
    result |= score(material.truth["test"], done, material.seed)
    log(f"{chosen.title}: example-F1 {result['best']['example_f1']:.3f} in {result['minutes']['fit']:.1f} minutes")
    return result


def score(test_truth: np.ndarray, done: Run, seed: int) -> dict[str, Any]:
    """All scores of a run; only `oracle` looks at test labels before it decides."""
    valid_truth = done.valid_truth
    rules = done.decisions or choose_decisions(valid_truth, done.valid, seed=seed)
    tested, validated = all_scores(test_truth, done.test, rules, True), all_scores(valid_truth, done.valid, rules)
    if done.valid_sets is not None and done.test_sets is not None:
        own_valid, own_test = five_metrics(valid_truth, done.valid_sets), five_metrics(test_truth, done.test_sets)
        for metric in METRICS:
            if own_valid[metric] >= validated["best"][metric]:
                validated["best"][metric], tested["best"][metric] = own_valid[metric], own_test[metric]
                tested["decisions"][metric] = OWN_SETS
                tested["intervals"]["best"][metric] = score_interval(metric, test_truth, done.test_sets)
        tested["own_sets"] = own_test
    by_row = example_f1_by_row(test_truth, rules.paper["example_f1"].apply(done.test))
    tested["example_f1_by_row"] = packed(by_row[~np.isnan(by_row)])
    best_on_test = choose_paper_thresholds(test_truth, done.test)
    tested["oracle"] = {m: METRICS[m](test_truth, best_on_test[m].apply(done.test)) for m in METRICS}
    tested["paper"] = tested.pop("metrics")
    tested["intervals"]["paper"] = tested["intervals"].pop("metrics")
    tested["validation"] = {"paper": validated["metrics"], "best": validated["best"], "ranking": validated["ranking"]}
    return dict(_plain(tested))


def _run_lamp(
    chosen: System,
    material: Material,
    time_budget: float,
    settings: Mapping[str, Any] | None,
    folder: Path | None,
    log: Log,
) -> Run:
    from lampnet.pipeline.control import FitRun
    from lampnet.pipeline.fit import fit

    config = chosen.config(material.prior_graph, settings)
    time_budget = time_budget or config.training.time_budget
    training = replace(config.training, seed=material.seed, time_budget=time_budget)
    config = replace(config, training=training)

    earlier: dict[int, float] = {}  # of each network, its seconds in the sessions that this one goes on from

    def log_epoch(event: str, progress: Any) -> None:
        if event == "resumed":
            earlier[progress.network] = progress.seconds
        if event == "epoch":
            record = progress.history[-1]
            log(
                f"{chosen.title}: network {progress.network} of {progress.networks}, "
                f"epoch {record.epoch + 1} of {progress.epochs}, loss {record.loss:.4f}, "
                f"validation {training.metric} {record.score:.4f}"
            )

    began = time.perf_counter()
    edges = material.edges if config.label_graph in ("tree", "given") else None
    in_hand = FitRun(folder=folder, resume=folder is not None, callback=log_epoch)
    model = fit(material.labelled, config, label_edges=edges, run=in_hand)
    fitted = time.perf_counter()
    test = material.part("test")
    proba = model.proba(test.rows, test.row_edges)
    ended = time.perf_counter()
    assert model.valid_proba is not None
    assert model.valid_truth is not None
    learned = [] if model.network is None else [p.detach().numpy() for p in model.network.parameters()]
    if model.stack is not None:
        learned += list(model.stack.arrays().values())
    return Run(
        valid=model.valid_proba,
        valid_truth=model.valid_truth,
        test=proba,
        fit_seconds=fitted - began + sum(earlier.values()),
        predict_seconds=ended - fitted,
        weights=sum(array.size for array in learned),
        bytes=sum(array.nbytes for array in learned),
        config=config.to_json(),
        status=str(model.metadata.get("status", "finished")),
        decisions=model.decisions,
        history=model.metadata["history"],
    )


def _run_baseline(chosen: System, material: Material, time_budget: float, settings: Mapping[str, Any] | None) -> Run:
    entry = REGISTRY[chosen.name]
    config = Config.preset("fast")
    given = baseline_settings(chosen.name, settings)
    if chosen.name != "constant":
        given.setdefault("seed", material.seed)
    limit = time_budget
    if entry.reads_in_order:
        config = config.updated(WORDS_IN_ORDER)
    if entry.input == "nodes":
        encoded = material.nodes(config)
        given.setdefault("embedding", encoded.encoder.embedding)
        if time_budget:
            given.setdefault("time_budget", time_budget)
            limit = _GRACE * time_budget
    else:
        encoded = material.features(config)
    model = baseline(chosen.name, **given)
    truth = material.truth
    with at_most(limit):
        began = time.perf_counter()
        model.fit(encoded.train, truth["train"], encoded.valid, truth["valid"])
        valid, valid_truth = model.predict_proba(encoded.valid), truth["valid"]
        valid_sets = model.predict(encoded.valid) if entry.predicts_sets else None
        tuned_settings = model.tuned_
        if entry.input == "features":
            X, Y = vstack_features([encoded.train, encoded.valid]), np.vstack([truth["train"], truth["valid"]])
            tuned = given | tuned_settings
            folds = 1 if material.labelled.serially_correlated else folds_for(len(Y))
            if folds > 1:
                valid_truth, valid = Y, np.empty(Y.shape, dtype=np.float32)
                valid_sets = np.zeros(Y.shape, dtype=bool) if entry.predicts_sets else None
                for rest, part in parts_of(fold_numbers(len(Y), folds, material.seed)):
                    member = baseline(chosen.name, **tuned).fit(X[rest], Y[rest])
                    valid[part] = member.predict_proba(X[part])
                    if valid_sets is not None:
                        valid_sets[part] = member.predict(X[part])
            model = baseline(chosen.name, **tuned).fit(X, Y)
        fitted = time.perf_counter()
        test = model.predict_proba(encoded.test)
        ended = time.perf_counter()
        test_sets = model.predict(encoded.test) if entry.predicts_sets else None
    weights, size = learned_size(model)
    stopped = bool(time_budget) and entry.input == "nodes" and fitted - began >= time_budget
    shown = {key: value for key, value in given.items() if key != "embedding"}
    return Run(
        valid=valid,
        valid_truth=valid_truth,
        test=test,
        fit_seconds=fitted - began + encoded.fit_seconds,
        predict_seconds=ended - fitted + encoded.predict_seconds,
        weights=weights,
        bytes=size,
        config={"settings": shown, "tuned": tuned_settings},
        status="time budget" if stopped else "finished",
        valid_sets=valid_sets,
        test_sets=test_sets,
        history=getattr(model, "history_", []),
    )


def learned_size(model: Any) -> tuple[int, int]:
    """How many numbers a fitted baseline keeps, and their bytes.

    >>> class Line:
    ...     weights_ = np.zeros((3, 2), dtype=np.float32)
    >>> learned_size(Line())
    (6, 24)
    """
    names = {name for holder in (type(model), model) for name in vars(holder)}
    learned = sorted(name for name in names if name.endswith("_") and not name.startswith("_"))
    arrays = [array for name in learned for array in _arrays(getattr(model, name))]
    return sum(array.size for array in arrays), sum(array.nbytes for array in arrays)


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if sparse.issparse(value):
        return [value.data, value.indices, value.indptr]
    if is_dataclass(value) and not isinstance(value, type):  # a node of a tree
        value = list(vars(value).values())
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in _arrays(item)]
    if hasattr(value, "estimators_"):
        return _arrays(list(value.estimators_))
    if hasattr(value, "tree_"):  # scikit-learn's: the splits and the values of the leaves
        t = value.tree_
        return [t.value, t.threshold, t.feature, t.children_left, t.children_right]
    if hasattr(value, "parameters"):
        return [parameter.detach().numpy() for parameter in value.parameters()]
    return []


def _plain(value: Any) -> Any:
    """For JSON, which has no NaN: an undefined score is null. Six digits are more than any test set supports."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return round(float(value), 6) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
