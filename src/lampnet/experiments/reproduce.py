"""Run what is missing of the paper's tables, one result file at a time."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lampnet.baselines import REGISTRY
from lampnet.config import Config
from lampnet.errors import ConfigError, DataError, LampnetError, did_you_mean
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.protocol import Log, run
from lampnet.experiments.result_files import check_writable, file_name, read_result, write_result
from lampnet.experiments.systems import EVERYWHERE, SYSTEMS, System, check_settings, chosen_systems
from lampnet.pipeline.fit import resolve
from lampnet.readers.named.registry import NAMES
from lampnet.readers.sources import Source
from lampnet.runtime.folder_lock import claimed

#: Data sets in the order in which they are run, and over how many seeds; SIDER's seeds are random splits.
SEEDS: dict[str, int] = {
    "bibtex": 3,
    "reuters21578": 3,
    "sider": 5,
    "delicious": 1,
    "yeast_chipexo": 1,
    "emotions": 3,
    "scene": 3,
    "mediamill": 1,
    "corel5k": 1,
    "tox21": 1,
    "goemotions": 1,
    "imdb": 1,
}
#: Names that stand for several systems.
GROUPS: dict[str, tuple[str, ...]] = {
    "baselines": tuple(REGISTRY),
    "variants": ("emb-el", "emb-fc", "emb-pr", "fmp-el", "fmp-fc", "fmp-pr"),
    "all": EVERYWHERE,
}
#: By default everything but the paper's own settings, which need a GPU.
DEFAULT_SYSTEMS = ("lamp", *GROUPS["baselines"], *GROUPS["variants"], "lamp-paper-form")
TIME_BUDGET = 3600.0
#: Training settings that belong to a run, not to its system.
_OF_THE_RUN = ("seed", "time_budget", "threads")
#: Faults of the machine: no descriptors, no memory, no space, a disk that fails.
_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@dataclass(frozen=True)
class Task:
    """One data set, system and seed."""

    dataset: str
    system: str
    seed: int

    def path(self, folder: Path) -> Path:
        return folder / file_name(self.dataset, self.system, self.seed)

    def command(self) -> str:
        """The command that repeats the run.

        >>> Task("bibtex", "fmp-fc", 1).command()
        'lampnet reproduce --dataset bibtex --model fmp-fc --seed 1 --again'
        """
        return f"lampnet reproduce --dataset {self.dataset} --model {self.system} --seed {self.seed} --again"


def plan(
    datasets: Sequence[str] = (), models: Sequence[str] = (), seeds: int | None = None, only_seeds: Sequence[int] = ()
) -> list[Task]:
    """The tasks that were asked for.

    datasets, models  empty for all of `SEEDS` and for `DEFAULT_SYSTEMS`; models may be groups
    seeds             seeds 0 to seeds - 1, by default as many as in `SEEDS`; `only_seeds` replaces them

    >>> [(t.system, t.seed) for t in plan(["emotions"], ["lamp", "constant"], seeds=2)]
    [('lamp', 0), ('constant', 0), ('lamp', 1), ('constant', 1)]
    """
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds {seeds} must be at least 1")
    for dataset in datasets:
        if dataset not in NAMES:
            raise DataError(f"there is no data set named {dataset!r}; {did_you_mean(dataset, NAMES)}")
    names = [part for name in (models or DEFAULT_SYSTEMS) for part in GROUPS.get(name, (name,))]
    systems = [chosen.name for chosen in chosen_systems(names)]
    tasks = []
    for dataset in dict.fromkeys(datasets or SEEDS):
        count = seeds if seeds is not None else SEEDS.get(dataset, 1)
        # Seeds outside, systems inside: the data are read and encoded once per seed.
        for seed in only_seeds or range(count):
            tasks += [Task(dataset, system, seed) for system in systems]
    return tasks


def open_named(dataset: str, seed: int, data_root: str | None = None) -> Material:
    """A named data set; rows that cannot be read are skipped."""
    return open_material(Source(data=dataset, root=data_root, on_bad_row="skip"), seed)


def reproduce(
    tasks: Iterable[Task],
    folder: Path,
    *,
    time_budget: float = TIME_BUDGET,
    settings: Mapping[str, Any] | None = None,
    again: bool = False,
    log: Log = lambda sentence: None,
    open_data: Callable[[str, int], Material] = open_named,
) -> list[Path]:
    """Run the tasks that have no result yet; every result is written as soon as it is known.

    A stopped run continues with the next missing result when it is started again. A data set that cannot be
    read, or a method that cannot learn from its rows, is logged and skipped.

    again      run tasks that have a result, too
    open_data  (dataset, seed) -> Material

    Returns the files written now.
    """
    tasks = list(tasks)
    check_writable(folder)
    check_settings(chosen_systems([task.system for task in tasks]), settings)
    missing = [task for task in tasks if again or not task.path(folder).exists()]
    log(f"{len(tasks) - len(missing)} of {len(tasks)} results are there; {len(missing)} to run")
    for path in [task.path(folder) for task in tasks if task not in missing]:
        if changed := other_settings(read_result(path), settings):
            log(f"{path.name} was run with other settings ({', '.join(changed)}); --again repeats it")
    written: list[Path] = []
    opened: tuple[tuple[str, int], Material] | None = None
    unreadable: set[tuple[str, int]] = set()
    for number, task in enumerate(missing, start=1):
        key = (task.dataset, task.seed)
        if key in unreadable:
            continue
        try:
            if opened is None or opened[0] != key:
                opened = key, open_data(task.dataset, task.seed)
        except LampnetError as problem:
            if _of_the_machine(problem):
                raise
            unreadable.add(key)
            log(f"{task.dataset} is left out: {problem}")
            continue
        log(f"[{number} of {len(missing)}] {task.dataset}, {task.system}, seed {task.seed}")
        twin = None if again else _same_run(task, folder, opened[1], settings)
        if twin is not None:
            log(f"the same settings have run as {twin['same_run_as']}")
            written.append(write_result(folder, twin))
            continue
        try:
            # Held until it is there: several processes may share the tasks of one folder.
            with claimed(folder, task.path(folder).name):
                if not again and task.path(folder).exists():
                    log("another process has just written this result")
                    continue
                result = run(task.system, opened[1], time_budget=time_budget, settings=settings, log=log)
                # Stored under the name that was asked for, so that the next run finds it.
                written.append(write_result(folder, result | {"dataset": task.dataset, "command": task.command()}))
        except LampnetError as problem:
            if _of_the_machine(problem):
                raise
            log(f"{task.system} on {task.dataset} is left out: {problem}")
    return written


def _of_the_machine(problem: LampnetError) -> bool:
    """Whether the machine is at fault, not the data or the method: then nothing is left out for good."""
    fault = problem.__context__
    return isinstance(fault, OSError) and fault.errno in _MACHINE


def _same_run(
    task: Task, folder: Path, material: Material, settings: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The result of another system whose settings are the same on these rows, under this system's name; or None."""
    own = SYSTEMS[task.system]
    if not own.is_lamp:
        return None

    def config_of(system: System) -> Config:
        return resolve(material.labelled, system.config(material.prior_graph, settings))[1]

    wanted = config_of(own)
    for name, other in SYSTEMS.items():
        path = Task(task.dataset, name, task.seed).path(folder)
        if name == task.system or not other.is_lamp or other.kind not in ("", material.labelled.train.kind):
            continue
        if config_of(other) != wanted:
            continue
        if path.exists() and (known := read_result(path))["finished"] and not other_settings(known, settings):
            named = {"system": own.name, "title": own.title, "command": task.command(), "same_run_as": name}
            # Settings that are equal here may be explicit in one system and derived from the rows in the other.
            asked = own.config(material.prior_graph, settings).to_json()
            asked["training"] |= {key: known["config"]["training"][key] for key in _OF_THE_RUN}
            return known | named | {"config": json.loads(json.dumps(asked))}
    return None


#: settings of model and training that count where there is no network
_WITHOUT_NETWORK = {"model.base_learners", "training.calibrate", "training.folds", "training.metric"}


def other_settings(result: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> list[str]:
    """The settings of a stored LaMP result that differ from those lampnet would use now.

    >>> other_settings({"system": "constant", "finished": True})
    []
    """
    known = SYSTEMS.get(str(result.get("system")))
    if known is None or not known.is_lamp or not result.get("finished"):
        return []
    graph = result["config"].get("label_graph", "cooccurrence")
    now = _flat(known.config(graph if graph in ("tree", "given") else "cooccurrence", settings).to_json())
    then = _flat(result["config"])
    ignored = {f"training.{name}" for name in _OF_THE_RUN}
    ignored |= {name for name in now if name.startswith("known.")}  # of predictions from known labels only
    if not now["model.network"] and not then.get("model.network", True):
        ignored |= {name for name in now if name.partition(".")[0] in ("preset_name", "model", "training")}
        ignored -= _WITHOUT_NETWORK
    if not now["input.pretrained"] and not then.get("input.pretrained"):
        ignored.add("input.pretrained_use")
    return sorted(name for name in now.keys() | then.keys() if name not in ignored and now.get(name) != then.get(name))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(config)).items():  # tuples become lists, as in the file
        flat |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    return flat
