"""One training in one folder: checkpoints and settings while it runs, a model folder when it ends.

==================== =====================================================
DIR/checkpoints/     run.json (what was asked); until the training has finished, where it stands
DIR/*                the model, once there is one (see `persistence/model_folder.py`)
==================== =====================================================
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.label_descriptions import with_descriptions
from lampnet.data.splits import Splits
from lampnet.data.weights import check_label_weight
from lampnet.errors import CheckpointError, ConfigError, DataError, ModelFolderError
from lampnet.evaluation.scores import all_scores
from lampnet.inference.match_schema import as_trained, match_rows
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_description import CHECKPOINTS, MODEL, read_description
from lampnet.persistence.model_folder import check_target, load_model, save_model
from lampnet.pipeline.base_learner_files import has_base_learner_files
from lampnet.pipeline.continuing import Start
from lampnet.pipeline.control import FitRun, Log, OnPhase, no_log, no_phase
from lampnet.pipeline.fit import fit
from lampnet.pipeline.mapped_rows import MappedRows, is_prepared, open_prepared
from lampnet.pipeline.prepare import is_large_table, prepare_source
from lampnet.readers.files import is_file, plain_suffix
from lampnet.readers.label_edges import HIERARCHY, hierarchy_graph, read_label_hierarchy
from lampnet.readers.label_values import read_label_values
from lampnet.readers.sources import Source, arranged, prior_graph
from lampnet.readers.weight_column import read_label_weight
from lampnet.runtime import distributed
from lampnet.runtime.atomic_files import check_no_link, make_folders, remove_file, replace_files
from lampnet.runtime.folder_lock import claimed
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import read_regular
from lampnet.training.checkpoint import latest_checkpoint, remove_checkpoints
from lampnet.training.progress import Callback, Stopped

RUN = "run.json"
#: the rows of a large table, beside the checkpoints
PREPARED = "prepared"
MAX_RUN = 1_000_000
#: what `Run` may name beside the label graph: files and folders
_NAMED = ("label_weight", "label_hierarchy", "label_descriptions", "start")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was asked for; `label_graph` and `label_weight` may also name a file.

    label_hierarchy     the file of a label hierarchy
    label_descriptions  the file that says what labels mean
    start     the folder of a model to learn on from
    finished  whether the training has come to its end and its model is saved
    """

    source: Source
    config: Config
    label_graph: str
    label_weight: str | None = None
    label_hierarchy: str | None = None
    label_descriptions: str | None = None
    start: str | None = None
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in ("label_graph", *_NAMED)}
        asked: dict[str, Any] = {"source": self.source.to_json() | {"root": self.source.root}}
        asked["config"] = self.config.to_json()
        for name, value in given.items():
            asked[name] = str(Path(value).resolve()) if value is not None and Path(value).exists() else value
        return asked | {"finished": self.finished}

    @classmethod
    def from_json(cls, data: Any) -> Run:
        """Read what `to_json` wrote."""
        try:
            source = Source.from_json(data["source"])
            named = {name: data.get(name) for name in _NAMED}
            named["label_graph"] = data["label_graph"]
            for name, given in named.items():
                if (given is not None or name == "label_graph") and (not isinstance(given, str) or "\0" in given):
                    raise TypeError(f"the {name.replace('_', ' ')} is not a name")
            asked: dict[str, Any] = {"source": source, "config": Config.from_json(data["config"])} | named
            return cls(**asked, finished=data.get("finished") is True)
        except (KeyError, TypeError, AttributeError) as fault:
            raise CheckpointError(f"{RUN} is damaged ({fault}); train again into another folder") from None


@dataclass(frozen=True)
class Outcome:
    """A finished training and its scores on held-out rows.

    source    the data that was trained on
    has_test  whether it also has a test part
    """

    model: FittedModel
    scores: dict[str, Any]
    source: Source
    has_test: bool


class AlreadyFinished(Exception):
    """There is nothing to resume: the training came to its end, and its model is in the folder."""


def _described(data: Splits | MappedRows, path: str, config: Config) -> Splits:
    """The rows with what a file says that their labels mean."""
    if isinstance(data, MappedRows):
        raise ConfigError("prepared rows take no label descriptions; train on the rows themselves")
    file = Path(path)
    if not is_file(file):
        raise ConfigError(
            f"--label-descriptions {path[:200]!r} is not a file; give a label and what it means on each line"
        )
    given = {name: one.value for name, one in read_label_values(file, "description").items()}
    return replace(data, train=with_descriptions(data.train, given, config))


@dataclass(frozen=True)
class Resume:
    """How a training is continued.

    any_run      whatever the folder holds; else what was asked must be the same
    keep_budget  with the time budget that the folder has; else with the one asked for
    """

    any_run: bool = False
    keep_budget: bool = False


def train_into(
    asked: Run,
    folder: Path,
    resume: Resume | None = None,
    overwrite: bool = False,
    callback: Callback | None = None,
    log: Log = no_log,
    phase: OnPhase = no_phase,
) -> Outcome:
    """Train and leave a model folder; raises `Stopped` (the best model saved) when a signal asks for the end.

    Raises `AlreadyFinished` where a training is to be resumed that has come to its end.

    overwrite  replace the model that the folder holds, once there is a new one, and drop a training that has not ended
    """
    leads, began = distributed.team().leads, time.monotonic()
    if leads:
        check_target(folder)  # before a lock is put there
    is_new = not folder.exists()
    with claimed(folder if leads else None):
        run = FitRun(callback=callback, log=log, phase=phase, began=began)
        return _train_into(asked, folder, is_new, resume, overwrite, run)


def _train_into(
    asked: Run, folder: Path, is_new: bool, resume: Resume | None, overwrite: bool, fit_run: FitRun
) -> Outcome:
    team, kept, log = distributed.team(), folder / CHECKPOINTS, fit_run.log
    if resume is None and distributed.restarted():
        resume = Resume(keep_budget=True)
    run, resumes, is_over = asked, False, False
    if team.leads:
        run, resumes = _checked(asked, folder, kept, resume, overwrite)
        is_over = resumes and run.finished and _standing(kept) is None
    run, resumes, is_over = distributed.from_leader((run, resumes, is_over))
    if is_over:
        raise AlreadyFinished
    # The data first: a mistake there must leave no folder behind.
    start = None
    if run.start is None:
        try:
            data, columns = _data(run, folder if is_new else None, kept, resumes, fit_run)
        except Stopped:
            if team.leads and not resumes:
                _begin(run, folder, kept)
            raise
    else:
        data, columns, start = new_rows(run.source, load_model(run.start), run.config, log)
    names = data.label_names if isinstance(data, MappedRows) else data.train.label_names
    config, edges = run.config, None
    hierarchy = None if run.label_hierarchy is None else read_label_hierarchy(run.label_hierarchy, names)
    if start is None:
        if run.label_graph == HIERARCHY:
            kind, edges = hierarchy_graph(hierarchy)
        else:
            kind, edges = prior_graph(run.label_graph, run.source, names)
        config = replace(run.config, label_graph=kind)
    label_weight = check_label_weight(read_label_weight(run.label_weight), names)
    if run.label_descriptions is not None:
        data = _described(data, run.label_descriptions, config)
    if team.leads and not resumes:
        _begin(run, folder, kept)
    try:
        fit_run = replace(fit_run, folder=kept, resume=resumes)
        given: dict[str, Any] = {"label_edges": edges, "label_weight": label_weight, "hierarchy": hierarchy}
        model = fit(data, config, **given, start=start, run=fit_run)
    except Stopped as stopped:
        if stopped.model is not None and team.leads:
            _save(stopped.model, run, columns, folder)
        raise
    except BaseException:
        if is_new and team.leads and not any(kept.glob("checkpoint-*")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if team.leads:
        _save(model, run, columns, folder)
        _write_run(replace(run, finished=True), folder, kept)
        # A network that the time budget ended goes on from its checkpoint when it is given more time.
        if model.metadata["status"] != "time budget":
            _forget_state(kept)
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    scores = all_scores(model.valid_truth, model.valid_proba, model.decisions)
    return Outcome(model, scores, run.source, has_test=isinstance(data, Splits) and data.test is not None)


def new_rows(source: Source, model: FittedModel, config: Config, log: Log) -> tuple[Splits, dict[str, Any], Start]:
    """Rows to add to a model, read as those that it was trained on; and what their columns were taken for."""
    if is_prepared(source.data) or is_large_table(source):
        raise DataError("rows that are mapped from disk cannot be added to a model; give fewer rows, or parts")
    opened, columns = as_trained(model, source).open_and_columns(config.training.seed, log)
    splits = arranged(opened, source)
    matched = {
        part: _matched(model, getattr(splits, part)) for part in ("train", "valid") if getattr(splits, part) is not None
    }
    listed = bool(columns.get("separator")) or plain_suffix(Path(source.data)) in (".jsonl", ".ndjson", ".json")
    made = Splits(train=matched["train"], valid=matched.get("valid"), arranged=splits.arranged)
    return made, columns, Start(model, absent_is_false=listed)


def _matched(model: FittedModel, data: Dataset) -> Dataset:
    """Rows with the model's features; labels as they are, because some may be new."""
    rows = match_rows(model, replace(data, labels=None, label_names=()), data.name)
    return replace(rows, labels=data.labels, label_names=data.label_names)


def _data(
    run: Run, new_folder: Path | None, kept: Path, resumes: bool, fit_run: FitRun
) -> tuple[Splits | MappedRows, dict[str, Any]]:
    """The rows, and what a table's columns were taken for.

    A prepared folder and a large table, which is prepared now, are mapped; everything else is read into memory.
    """
    asked = {"group", "time", "weight"} & set(run.source.columns)
    if asked and (is_prepared(run.source.data) or is_large_table(run.source)):
        raise DataError("rows that are mapped from disk take no groups, times or weights; give fewer rows, or parts")
    if is_prepared(run.source.data):
        mapped = open_prepared(run.source.data, pretrained=run.config.input.pretrained)
        return mapped, mapped.columns
    if not is_large_table(run.source):
        opened, columns = run.source.open_and_columns(run.config.training.seed, fit_run.log)
        return arranged(opened, run.source), columns
    rows = kept / PREPARED
    if distributed.team().leads and not (resumes and is_prepared(rows)):
        try:
            prepare_source(run.source, rows, run.config, fit_run.log, overwrite=True, run=fit_run)
        except BaseException:
            if not has_base_learner_files(rows):
                shutil.rmtree(new_folder or rows, ignore_errors=True)
            raise
    distributed.wait_for_all()
    mapped = open_prepared(rows, pretrained=run.config.input.pretrained)
    return mapped, mapped.columns


def holds_run(folder: Path) -> bool:
    """Whether there is a training to resume."""
    return (folder / CHECKPOINTS / RUN).is_file()


def _checked(asked: Run, folder: Path, kept: Path, resume: Resume | None, overwrite: bool) -> tuple[Run, bool]:
    """The run to do and whether there is one to resume; refuses to lose what the folder holds."""
    check_target(folder)
    for own in (kept, kept / PREPARED, *kept.glob("network-*")):
        check_no_link(own)
    try:
        found = _found(kept)
    except CheckpointError:
        if not overwrite:
            raise
        found = None
    if resume is not None and found is not None:
        return _same(asked, found, folder, resume), True
    if overwrite:
        return asked, False
    there = [_describe_model(folder)] if (folder / MODEL).exists() else []
    standing = None if found is None or found.finished else _standing(kept)
    if found is not None and standing is not None:
        there.append(f"an unfinished training on {_shown(found.source.data)} ({standing})")
    if there:
        way = "--resume to finish it or --overwrite to start again" if standing else "--overwrite to replace it"
        raise CheckpointError(f"{folder} holds {' and '.join(there)}; add {way}, or give another folder")
    return asked, False


def _describe_model(folder: Path) -> str:
    """The model of a folder, for a sentence."""
    try:
        metadata = read_description(folder)["metadata"]
        rows, labels, epochs = metadata["rows"]["train"], metadata["labels"], metadata["epochs"]
        written = datetime.fromtimestamp((folder / MODEL).stat().st_mtime).strftime("%Y-%m-%d %H:%M")
        size = f"{int(rows)} rows, {int(labels)} labels, {int(epochs)} epochs"
        return f"a model trained on {_shown(metadata['data'])} ({size}, written {written})"
    except (ModelFolderError, OSError, KeyError, TypeError, ValueError):
        return "a model that cannot be read"


def _standing(kept: Path) -> str | None:
    """Where an unfinished training stands, for a sentence; None where it has done nothing yet."""
    for folder in (*sorted(kept.glob("network-*"), reverse=True), kept):
        newest, _ = latest_checkpoint(folder)
        progress = newest.state.get("progress") if newest is not None else None
        if isinstance(progress, dict):
            network, networks, epochs = (progress.get(name) for name in ("network", "networks", "epochs"))
            return f"network {network} of {networks}, {progress.get('epoch')} of {epochs} epochs done"
    if any(kept.glob("checkpoint-*")):
        return "its checkpoints are damaged"
    return "at its base learners" if any(map(has_base_learner_files, (kept, kept / PREPARED))) else None


def _shown(name: Any) -> str:
    """A name out of an untrusted file, in one line."""
    return repr(Path(str(name)).name[:80])


def _save(model: FittedModel, run: Run, columns: dict[str, Any], folder: Path) -> None:
    # What was guessed is kept too: a file of other rows might be taken for something else.
    model.metadata["source"] = run.source.to_json() | {"columns": columns}
    save_model(model, folder)


def _found(kept: Path) -> Run | None:
    try:
        return Run.from_json(parse_json(read_regular(kept / RUN, MAX_RUN)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except CheckpointError:
        raise
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) and fault.strerror else fault
        raise CheckpointError(f"{kept / RUN} cannot be read ({why}); train again into another folder") from None


def _same(asked: Run, found: Run, folder: Path, resume: Resume) -> Run:
    """The run of the folder; what was asked besides may only change how long it lasts."""
    budget = {"training.time_budget": (found if resume.keep_budget else asked).config.training.time_budget}
    asked, found = (replace(run, config=run.config.updated(budget)) for run in (asked, found))
    if resume.any_run:
        return replace(found, source=replace(found.source, root=asked.source.root or found.source.root))
    then, now = _flat(found.to_json()), _flat(asked.to_json())
    for name in sorted(now):
        if name not in ("source.root", "finished") and then.get(name) != now[name]:
            raise ConfigError(
                f"{folder} was trained with {name.removeprefix('config.')}={then.get(name)}, now {now[name]} was "
                "given; to go on leave it out, to change it train into another folder"
            )
    return replace(asked, finished=found.finished)


def _flat(data: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = list(value) if isinstance(value, tuple) else value
    return flat


def _begin(run: Run, folder: Path, kept: Path) -> None:
    """Note what was asked, in place of an earlier run."""
    for network in (kept, *kept.glob("network-*")):
        remove_checkpoints(network)
    _write_run(run, folder, kept)


def _forget_state(kept: Path) -> None:
    """Keep only what was asked: prediction needs none of the rest, which can be ten times as large as the model."""
    for path in kept.iterdir():
        if path.name == RUN:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove_file(path)


def _write_run(run: Run, folder: Path, kept: Path) -> None:
    try:
        make_folders(kept, [])
        replace_files({kept / RUN: (json.dumps(run.to_json(), indent=1).encode() + b"\n",)})
    except OSError as fault:
        raise CheckpointError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder") from None
