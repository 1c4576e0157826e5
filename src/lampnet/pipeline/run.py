"""One training in one folder: checkpoints and settings while it runs, a model folder when it ends.

==================== =====================================================
DIR/checkpoints/     run.json (what was asked), checkpoint-* (where it stands)
DIR/*                the model, once there is one (see `lampnet.persistence.model_folder`)
==================== =====================================================
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lampnet.config import Config
from lampnet.errors import CheckpointError, ConfigError, did_you_mean
from lampnet.evaluation.scores import all_scores
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import CHECKPOINTS, MODEL, check_target, save_model
from lampnet.pipeline.fit import fit
from lampnet.pipeline.fit_mapped import fit_mapped, validation
from lampnet.pipeline.mapped_rows import MappedRows, is_prepared, open_prepared
from lampnet.pipeline.prepare_source import is_large_table, prepare_source
from lampnet.readers.sources import Source, as_splits, prior_graph
from lampnet.runtime import distributed
from lampnet.runtime.folder_lock import claimed
from lampnet.training.trainer import Callback, Stopped

RUN = "run.json"
FEATURES = {"embed": 0, "message-passing": 2}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was asked for; `label_graph` may also name a file."""

    source: Source
    config: Config
    label_graph: str

    def to_json(self) -> dict[str, Any]:
        graph = self.label_graph
        if Path(graph).is_file():
            graph = str(Path(graph).resolve())
        source = self.source.to_json() | {"root": self.source.root}
        return {"source": source, "config": self.config.to_json(), "label_graph": graph}

    @classmethod
    def from_json(cls, data: Any) -> Run:
        """Read what `to_json` wrote."""
        try:
            source = Source(**data["source"])
            return cls(source=source, config=Config.from_json(data["config"]), label_graph=str(data["label_graph"]))
        except (KeyError, TypeError) as fault:
            raise CheckpointError(f"{RUN} is damaged ({fault}); train again into another folder") from None


@dataclass(frozen=True)
class Outcome:
    """A finished training and its scores on rows that were not learned from when they were judged.

    has_test  whether the data has a test part besides
    """

    model: FittedModel
    scores: dict[str, Any]
    has_test: bool


def feature_steps(features: str) -> int:
    """`embed` or `message-passing` as rounds of messages among input nodes.

    >>> feature_steps("message-passing")
    2
    """
    if features not in FEATURES:
        raise ConfigError(f"features={features!r} is not known; {did_you_mean(features, FEATURES)}")
    return FEATURES[features]


def train_into(
    run: Run,
    folder: Path,
    *,
    resume: bool = False,
    any_run: bool = False,
    keep_budget: bool = False,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Outcome:
    """Train and leave a model folder; raises `Stopped` (the best model saved) when a signal asks for the end.

    any_run : with `resume`, continue whatever the folder holds; else what was asked must be the same
    keep_budget : with `resume`, the time budget is the folder's, not the one asked for
    """
    with distributed.joined() as team:
        resume = resume or distributed.restarted()
        kept = folder / CHECKPOINTS
        if team.leads:
            run, resume = _checked(run, folder, kept, resume, any_run, keep_budget)
        run, resume = distributed.from_leader((run, resume))
        seed = run.config.training.seed
        made = not folder.exists()
        # The data first: a mistake there must leave no folder behind.
        prepared = _prepared(run, folder, kept, resume, say)
        splits, columns = None, prepared.columns if prepared is not None else {}
        if prepared is None:
            opened, columns = run.source.open_and_columns(seed, say)
            splits = as_splits(opened)
        names = splits.train.label_names if splits is not None else prepared.label_names if prepared else ()
        kind, edges = prior_graph(run.label_graph, run.source, names)
        config = replace(run.config, label_graph=kind)
        options: dict[str, Any] = {
            "label_edges": edges,
            "folder": kept,
            "resume": resume,
            "callback": callback,
            "say": say,
        }
        with claimed(kept if team.leads else None):
            if team.leads:
                _prepare(run, folder, kept, fresh=not resume)
            try:
                if splits is not None:
                    model = fit(splits, config, **options)
                    assert model.valid_truth is not None
                    assert model.valid_proba is not None
                    truth, proba = model.valid_truth, model.valid_proba
                else:
                    assert prepared is not None
                    model = fit_mapped(prepared, config, **options)
                    truth, proba = validation(prepared, model)
            except Stopped as stopped:
                if stopped.model is not None and team.leads:
                    _save(stopped.model, run, columns, folder)
                raise
            except BaseException:
                if made and team.leads and not any(kept.glob("checkpoint-*")):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            if team.leads:
                _save(model, run, columns, folder)
        has_test = splits is not None and splits.test is not None
        return Outcome(model, all_scores(truth, proba, model.decisions), has_test)


def _prepared(run: Run, folder: Path, kept: Path, resume: bool, say: Callable[[str], None]) -> MappedRows | None:
    """Rows to be read by memory mapping: a prepared folder, or a large table, prepared now; None for all others."""
    if is_prepared(run.source.data):
        return open_prepared(run.source.data)
    if not is_large_table(run.source):
        return None
    rows, made = kept / "prepared", not folder.exists()
    if distributed.team().leads and not (resume and is_prepared(rows)):
        with claimed(kept):
            try:
                prepare_source(run.source, rows, run.config, say)
            except BaseException:
                shutil.rmtree(folder if made else rows, ignore_errors=True)
                raise
    distributed.wait_for_all()
    return open_prepared(rows)


def holds_run(folder: Path) -> bool:
    """Whether there is a training to resume."""
    return (folder / CHECKPOINTS / RUN).is_file()


def _checked(run: Run, folder: Path, kept: Path, resume: bool, any_run: bool, keep_budget: bool) -> tuple[Run, bool]:
    """The run to do and whether there is one to resume; refuses to lose what the folder holds."""
    check_target(folder)
    found = _found(kept)
    if resume and found is not None:
        return _same(run, found, folder, any_run, keep_budget), True
    if not resume and found is not None and not (folder / MODEL).exists() and any(kept.glob("checkpoint-*")):
        raise CheckpointError(
            f"{folder} holds an unfinished training; add --resume to finish it, or give another folder"
        )
    return run, False


def _save(model: FittedModel, run: Run, columns: dict[str, Any], folder: Path) -> None:
    # What was guessed is kept too: a file of other rows might be taken for something else.
    model.metadata["source"] = run.source.to_json() | {"columns": columns}
    save_model(model, folder)


def _found(kept: Path) -> Run | None:
    try:
        return Run.from_json(json.loads((kept / RUN).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as fault:
        if isinstance(fault, CheckpointError):
            raise
        raise CheckpointError(f"{kept / RUN} cannot be read ({fault}); train again into another folder") from None


def _same(asked: Run, found: Run, folder: Path, any_run: bool, keep_budget: bool) -> Run:
    """The run of the folder; what was asked besides may only change how long it lasts."""
    budget = {"training.time_budget": (found if keep_budget else asked).config.training.time_budget}
    asked, found = (replace(run, config=run.config.updated(budget)) for run in (asked, found))
    if any_run:
        return replace(found, source=replace(found.source, root=asked.source.root or found.source.root))
    then, now = _flat(found.to_json()), _flat(asked.to_json())
    for name in sorted(now):
        if name != "source.root" and then.get(name) != now[name]:
            raise ConfigError(
                f"{folder} was trained with {name.removeprefix('config.')}={then.get(name)}, now {now[name]} was "
                "given; to go on leave it out, to change it train into another folder"
            )
    return asked


def _flat(data: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = list(value) if isinstance(value, tuple) else value
    return flat


def _prepare(run: Run, folder: Path, kept: Path, fresh: bool) -> None:
    try:
        kept.mkdir(parents=True, exist_ok=True)
        if fresh:
            for old in kept.glob("checkpoint-*"):
                old.unlink()
            (kept / RUN).write_text(json.dumps(run.to_json(), indent=1) + "\n", encoding="utf-8")
    except OSError as fault:
        raise CheckpointError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder") from None
