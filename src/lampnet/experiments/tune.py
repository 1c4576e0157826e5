"""Search for better settings on the validation rows; the search never reads the test rows.

The study is stored in Optuna's journal (see `study_journal.py`), so a stopped search can be continued.
The first trial is always the default, so the best is never worse than it.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.baselines.tuning import mean_f1
from lampnet.config import BASE_LEARNERS, Config
from lampnet.data.splits import VALIDATION_FRACTION, Splits
from lampnet.errors import ConfigError, MissingExtra, TrainingDiverged, did_you_mean
from lampnet.evaluation.choose_rules import choose_paper_thresholds
from lampnet.evaluation.metrics import METRICS, ranking_metrics
from lampnet.experiments.protocol import Log
from lampnet.experiments.result_files import write_json
from lampnet.experiments.study_journal import MOST_TRIALS, STUDY, ExpectedSearch, StudyJournal
from lampnet.experiments.time_limit import stoppable
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.fit import fit
from lampnet.runtime.folder_lock import claimed
from lampnet.runtime.signals import signals_collected
from lampnet.training.progress import Progress, Stopped

JOURNAL = "study.journal"
BEST = "best.json"
#: The largest share of the time that a single trial may take.
_TRIAL_SHARE = 1 / 3
#: The scores that can be maximised.
OBJECTIVES = ("mean_f1", *METRICS, "roc_auc_macro", "average_precision_macro")

_WIDTHS = (64, 128, 192, 256)
_GRAPHS = ("full", "edgeless", "cooccurrence")
_BASE_LEARNERS = (
    "none",
    *BASE_LEARNERS,
    "linear,knn",
    "linear,forest",
    "linear,knn,forest",
    "linear,knn,forest,boosted,kernel",
)


@dataclass(frozen=True)
class Search:
    """What is searched for, and for how long; at least one of the two limits must be given.

    metric       one of `OBJECTIVES`
    time_budget  seconds of this call, 0 for no limit; the running trial is finished
    trials       trials of the study in all
    seed         of the splits and of the search
    """

    metric: str = "mean_f1"
    time_budget: float = 0.0
    trials: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.time_budget <= 0 and self.trials is None:
            raise ConfigError("a search needs an end: give a time budget, a number of trials, or both")
        if self.trials is not None and self.trials < 1:
            raise ConfigError(f"trials={self.trials} must be at least 1")
        if self.trials is not None and self.trials > MOST_TRIALS:
            raise ConfigError(f"trials={self.trials} are too many; a search has at most {MOST_TRIALS:,}")
        if self.metric not in OBJECTIVES:
            raise ConfigError(
                f"there is no metric {self.metric!r} to tune for; {did_you_mean(self.metric, OBJECTIVES)}"
            )


@dataclass(frozen=True)
class Found:
    """The best of a study.

    settings  dotted settings, searched and given ones
    value     their validation score; `default` that of the preset alone (None while unknown)
    trials    finished trials, pruned ones among them
    """

    settings: dict[str, Any]
    value: float
    default: float | None
    trials: int
    metric: str

    def flags(self) -> str:
        """For the command line.

        >>> Found({"model.width": 64, "model.base_learners": "none"}, 0.5, None, 3, "mean_f1").flags()
        '--set model.width=64 --set model.base_learners=none'
        """
        return " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in self.settings.items())


def space(base: Config, fixed: Container[str] = ()) -> dict[str, Any]:
    """What is searched: Optuna's distribution of each setting, by its dotted name; `fixed` ones are not searched."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    model = base.model
    widths = [width for width in sorted({*_WIDTHS, model.width}) if width % model.heads == 0]
    searched = {
        "model.width": CategoricalDistribution(widths),
        "model.steps": IntDistribution(1, max(4, model.steps)),
        "model.dropout": FloatDistribution(0.0, 0.6),
        "model.node_dropout": FloatDistribution(0.0, 0.6),
        "training.learning_rate": FloatDistribution(1e-4, 5e-3, log=True),
        "training.weight_decay": FloatDistribution(1e-4, 0.3, log=True),
        "model.base_learners": CategoricalDistribution(
            list(dict.fromkeys((*_BASE_LEARNERS, _base_learners_text(base))))
        ),
        "label_graph": CategoricalDistribution(list(dict.fromkeys((*_GRAPHS, base.label_graph)))),
        "training.intermediate_weight": FloatDistribution(0.0, 1.0),
    }
    return {name: distribution for name, distribution in searched.items() if name not in fixed}


def defaults(base: Config, fixed: Container[str] = ()) -> dict[str, Any]:
    """The preset as a trial; a value outside the search's range is clipped."""
    values = {
        "model.width": base.model.width,
        "model.steps": base.model.steps,
        "model.dropout": min(base.model.dropout, 0.6),
        "model.node_dropout": min(base.model.node_dropout, 0.6),
        "training.learning_rate": min(max(base.training.learning_rate, 1e-4), 5e-3),
        "training.weight_decay": min(max(base.training.weight_decay, 1e-4), 0.3),
        "model.base_learners": _base_learners_text(base),
        "label_graph": base.label_graph,
        "training.intermediate_weight": min(base.training.intermediate_weight, 1.0),
    }
    return {name: value for name, value in values.items() if name not in fixed}


def _base_learners_text(base: Config) -> str:
    return ",".join(base.model.base_learners) or "none"


def objective(metric: str, truth: np.ndarray, proba: np.ndarray) -> float:
    """A validation score; label sets by the best of the paper's thresholds.

    >>> objective("micro_f1", np.array([[1.0, 0.0]]), np.array([[0.9, 0.2]]))
    1.0
    """
    if metric == "mean_f1":
        return mean_f1(truth, proba)
    if metric in METRICS:
        return float(METRICS[metric](truth, choose_paper_thresholds(truth, proba)[metric].apply(proba)))
    value = float(ranking_metrics(truth, proba)[metric])
    return value if np.isfinite(value) else 0.0


def tune(
    splits: Splits,
    folder: Path,
    search: Search,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
) -> Found:
    """Search, or continue the search that the folder holds.

    splits    training rows and, where there are any, validation rows; test rows are not looked at
    folder    gets the study's journal and `best.json`
    settings  dotted settings that all trials share
    """
    fixed = dict(settings or {})
    base = Config.preset("fast").updated(fixed).updated({"training.seed": search.seed})
    # Trials are scored on the validation rows, so these stay held out, even where they were sampled.
    rows = replace(splits.with_validation(VALIDATION_FRACTION, search.seed), test=None, valid_is_sampled=False)
    about = {"data": rows.train.name, "rows": len(rows.train), "metric": search.metric, "base": base.to_json()}
    budget = search.time_budget
    if folder.is_file():
        raise ConfigError(f"{folder} cannot be the folder of a search (it is a file); give another folder")
    # A signal ends the running trial at once, but never interrupts a line of the journal.
    with claimed(folder), _journal_kept(folder), signals_collected() as received:
        study, searched = _open_study(folder, search.seed, json.loads(json.dumps(about)), base, fixed)
        ends = time.monotonic() + budget if budget else float("inf")
        while (search.trials is None or _finished(study) < search.trials) and time.monotonic() < ends:
            if received:
                raise Stopped(received[0], Progress())
            trial = study.ask(searched)
            config = base.updated(trial.params)
            if budget:
                # At most a trial's share past the end, and never too little for a single epoch.
                share = min(budget * _TRIAL_SHARE, ends - time.monotonic())
                config = replace(config, training=replace(config.training, time_budget=max(share, 1.0)))
            _run_trial(study, trial, partial(_score, rows, config, search.metric), log)
            if _best(study) is not None:
                _write_best(folder, study, search.metric, rows.train.name)
        if _best(study) is None:
            raise ConfigError("no trial could be finished; give the search more time or other settings")
        # Again, for a search that was killed after its last trial and before it wrote this.
        _write_best(folder, study, search.metric, rows.train.name)
    return _found(study, search.metric)


@contextmanager
def _journal_kept(folder: Path) -> Iterator[None]:
    """Explain what Optuna raises when the folder is removed while it searches."""
    try:
        yield
    except (OSError, RuntimeError) as fault:
        if (folder / JOURNAL).exists():
            raise
        raise ConfigError(f"{folder} was removed while the search ran; start it again") from fault


def _score(rows: Splits, config: Config, metric: str, callback: Callable[[str, Any], None]) -> float:
    model = fit(rows, config, run=FitRun(callback=callback))
    # Out-of-fold: predicted before the base learners were refitted on the validation rows.
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    return objective(metric, model.valid_truth, model.valid_proba)


def _run_trial(study: Any, trial: Any, score: Callable[[Callable[[str, Any], None]], float], log: Log) -> None:
    import optuna

    def prune(event: str, progress: Any) -> None:
        if event == "epoch":
            trial.report(progress.history[-1].score, progress.history[-1].epoch + 1)  # epoch 0 is the stack
            if trial.should_prune():
                raise optuna.TrialPruned

    failed = optuna.trial.TrialState.FAIL
    try:
        with stoppable():
            value = score(prune)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        log(f"trial {trial.number + 1}: pruned")
    except TrainingDiverged as problem:
        study.tell(trial, state=failed)
        log(f"trial {trial.number + 1}: {problem}")
    except Stopped:
        study.tell(trial, state=failed)
        raise
    else:
        study.tell(trial, value)
        log(f"trial {trial.number + 1}: {value:.4f} (best so far {study.best_value:.4f})")


def _open_study(
    folder: Path, seed: int, about: dict[str, Any], base: Config, fixed: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The study that the folder holds, or a new one, and what it searches."""
    try:
        import optuna
        from optuna.storages import JournalStorage
    except ImportError:
        raise MissingExtra("optuna", "tune", "lampnet tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    searched, first = space(base, fixed), defaults(base, fixed)
    metadata = {"about": about, "fixed": json.loads(json.dumps(fixed))}
    try:
        journal = StudyJournal(folder / JOURNAL, ExpectedSearch(metadata, first, searched, base.training.epochs + 1))
        storage = JournalStorage(journal)
    except OSError as fault:
        raise ConfigError(
            f"{folder} cannot be the folder of a search ({fault.strerror or fault}); give another folder"
        ) from None
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2)
    study = optuna.create_study(
        study_name=STUDY, storage=storage, direction="maximize", load_if_exists=True, pruner=pruner
    )
    for name, value in metadata.items():
        if name not in study.user_attrs:
            study.set_user_attr(name, value)
    if not study.trials:
        study.enqueue_trial(first)
    # A continued search must not sample the same trials again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), n_startup_trials=8)
    return study, searched


def _finished(study: Any) -> int:
    """Trials that ended by themselves."""
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.get_trials(deepcopy=False))


def _best(study: Any) -> Any | None:
    done = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    return max(done, key=lambda trial: trial.value, default=None)


def _found(study: Any, metric: str) -> Found:
    best, first = _best(study), study.get_trials(deepcopy=False)[0]
    assert best is not None
    return Found(
        settings=study.user_attrs["fixed"]
        | {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in best.params.items()},
        value=float(best.value),
        default=float(first.value) if first.state.name == "COMPLETE" else None,
        trials=_finished(study),
        metric=metric,
    )


def _write_best(folder: Path, study: Any, metric: str, data: str) -> None:
    found = _found(study, metric)
    content = {
        "data": data,
        "metric": metric,
        "validation_score": found.value,
        "default_validation_score": found.default,
        "trials": found.trials,
        "settings": found.settings,
        "flags": found.flags(),
    }
    write_json(folder / BEST, content)
