"""The paper's networks alone: its preset, no base learners, one network, the 27 thresholds.

Each run is one data set, form (Emb or FMP; edgeless, full or prior label graph), width, start, lambda and seed, and one
result file. The weight lambda of the earlier stages' losses is chosen by the validation rows of seed 0 among those of
the paper's four values that were tried. Other widths, starts and seeds of the same form use the chosen one; what was
trained with another one counts as missing.

>>> Network("bibtex", "fmp-fc").system
'fmp-fc-d128-random'
>>> Network("bibtex", "fmp-fc", weight=0.1).lamp().config("cooccurrence").model.dropout
0.2
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lampnet.data.dataset import Dataset, Table
from lampnet.errors import ConfigError, LampnetError, did_you_mean
from lampnet.experiments.material import Material
from lampnet.experiments.protocol import Log, run
from lampnet.experiments.reproduce import open_named
from lampnet.experiments.result_files import Result, file_name, read_results, write_json
from lampnet.experiments.systems import FORMS, System, form_settings

#: Where the runs are stored, beside the other results.
FOLDER = "paper"
#: The values of lambda that the paper chooses from, and the one in use until a form's choice is made.
WEIGHTS = (0.0, 0.1, 0.2, 0.3)
UNCHOSEN_WEIGHT = 0.2
#: What the paper states for single data sets; everything else has a dropout of 0.1, as in the preset.
DATASET_SETTINGS: dict[str, dict[str, Any]] = {
    # 23,662 words in the table of data sets; texts are cut to 300 words in the authors' code.
    "reuters21578": {"model.dropout": 0.2, "input.vocabulary": 23_662, "input.max_nodes": 300},
    "bibtex": {"model.dropout": 0.2},
    "sider": {"model.dropout": 0.2},
}
#: Every two labels share a training row (SIDER: all 351 pairs, in each of its splits): the prior graph is the full one.
COMPLETE_PRIOR = ("sider",)
#: Tables of measurements of a picture: the paper reads those (NUS-WIDE) as one vector, not as one node per number.
VECTORS = ("scene",)
#: To convergence: the paper does not say how long it trained.
CONVERGENCE = {"training.epochs": 300, "training.patience": 15, "training.threads": 1}


@dataclass(frozen=True)
class Network:
    """One training. `weight` is lambda; None for the value that validation chose for this form."""

    dataset: str
    form: str
    width: int = 128
    start: str = "random"
    seed: int = 0
    weight: float | None = None

    @property
    def system(self) -> str:
        return f"{self.form}-d{self.width}-{self.start}"

    def path(self, folder: Path) -> Path:
        """Its result file; the weight must be known."""
        assert self.weight is not None
        return folder / file_name(self.dataset, f"{self.system}-lambda{self.weight:g}", self.seed)

    def lamp(self) -> System:
        """The paper's preset with the settings of this run."""
        assert self.weight is not None
        changes = form_settings(self.form) | DATASET_SETTINGS.get(self.dataset, {}) | CONVERGENCE
        changes |= {
            "model.width": self.width,
            "training.start": self.start,
            "training.intermediate_weight": self.weight,
        }
        title = f"{FORMS[self.form]}, d = {self.width}, {self.start} start"
        return System(self.system, title, "paper", changes)


def networks(
    datasets: Sequence[str] = (),
    widths: Sequence[int] = (),
    forms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    weights: Sequence[float] = (),
    starts: Sequence[str] = (),
) -> list[Network]:
    """All runs in their order, the cheapest first; where values are given, only runs that have one of them.

    Runs whose lambda validation chooses (weight None) pass every choice of `weights`; a form whose runs are those of
    another one gives the other one's.

    >>> [n.form for n in networks(["sider"])[:2]]
    ['emb-el', 'emb-fc']
    >>> {n.form for n in networks(["sider"], forms=["emb-pr"])}
    {'emb-fc'}
    >>> [(n.form, n.seed) for n in networks(["sider"], [128], ["fmp-fc"], [0, 3], [0.2], ["random"])]
    [('fmp-fc', 0), ('fmp-fc', 3)]
    """
    queue = list(_queue())
    asked = {
        "dataset": (datasets, SEEDS),
        "width": (widths, {n.width for n in queue}),
        "form": (forms, FORMS),
        "seed": (seeds, {n.seed for n in queue}),
        "weight": (weights, WEIGHTS),
        "start": (starts, {n.start for n in queue}),
    }
    for part, (values, known) in asked.items():
        for value in values:
            if value not in known:
                name = "lambda" if part == "weight" else part
                raise ConfigError(f"no network of the paper is run with {name} {value!r}; {_instead(value, known)}")

    def passes(network: Network) -> bool:
        own = asdict(network)
        if own_form(network.dataset, network.form) in [own_form(network.dataset, form) for form in forms]:
            own["form"] = None
        return all(not values or own[part] in (*values, None) for part, (values, _) in asked.items())

    return [network for network in dict.fromkeys(queue) if passes(network)]


def _instead(value: object, known: Iterable[object]) -> str:
    if isinstance(value, str):
        return did_you_mean(value, [str(one) for one in known])
    return f"there are {', '.join(map(str, sorted(known, key=str)))}"


#: Each data set with its number of seeds at d = 128, the cheapest first.
SEEDS = {
    "emotions": 3,
    "scene": 3,
    "mediamill": 3,
    "sider": 5,
    "bibtex": 3,
    "reuters21578": 1,
    "delicious": 1,
    "yeast_chipexo": 1,
}
#: Where a training takes minutes; the others take hours on one core.
SMALL = ("emotions", "scene", "mediamill", "sider")
LARGE = ("bibtex", "reuters21578", "delicious", "yeast_chipexo")
#: What is trained at d = 512: the simplest form and the full one.
WIDEST = ("emb-el", "fmp-fc")


def _queue() -> Iterable[Network]:
    """First every form of every data set once; then lambda, and after it the seeds, starts and widths that use it."""
    for dataset in (*SMALL, *LARGE):
        yield from (Network(dataset, form, weight=UNCHOSEN_WEIGHT) for form in forms_of(dataset))
    for dataset in (*SMALL, *LARGE):
        forms = forms_of(dataset)
        yield from (Network(dataset, form, weight=weight) for form in forms for weight in WEIGHTS)
        yield from (Network(dataset, form, seed=seed) for seed in range(1, SEEDS[dataset]) for form in forms)
        yield from (Network(dataset, form, start="spectral") for form in forms)
        yield from (Network(dataset, form, width=256) for form in forms)
        if dataset in ("sider", "bibtex"):
            yield from (Network(dataset, form, width=512) for form in WIDEST)


def own_form(dataset: str, form: str) -> str:
    """The form whose runs are those of this one: where the prior graph is complete, the one with the full graph.

    >>> own_form("sider", "fmp-pr"), own_form("scene", "fmp-pr")
    ('fmp-fc', 'fmp-pr')
    """
    return form.replace("-pr", "-fc") if dataset in COMPLETE_PRIOR else form


def forms_of(dataset: str) -> list[str]:
    """The forms that are trained."""
    return [form for form in FORMS if own_form(dataset, form) == form]


def open_as_published(dataset: str, seed: int, data_root: str | None = None) -> Material:
    """A named data set in the form in which the paper reads its kind."""
    material = open_named(dataset, seed, data_root)
    if dataset not in VECTORS:
        return material

    def vectors(part: str) -> Dataset:
        data = material.part(part)
        assert isinstance(data.rows, Table)
        return replace(data, kind="vector", rows=data.rows.values)

    splits = replace(material.splits, train=vectors("train"), valid=vectors("valid"), test=vectors("test"))
    return Material(material.name, splits, seed, material.prior_graph, material.edges)


def chosen_weight(results: Iterable[Result], dataset: str, form: str) -> float:
    """Lambda by the validation rows of seed 0, d = 128 and a random start; the usual one where none was tried."""
    tried = {
        result["lambda"]: result["validation"]["paper"]["example_f1"]
        for result in results
        if result["dataset"] == dataset and result["system"] == Network(dataset, form).system and result["seed"] == 0
    }
    return max(tried, key=lambda weight: tried[weight]) if tried else UNCHOSEN_WEIGHT


def chosen_results(results: Sequence[Result]) -> list[Result]:
    """One result for each data set, form, width, start and seed: that of the chosen lambda, or none."""
    forms = {(result["dataset"], result["form"]) for result in results}
    weights = {(dataset, form): chosen_weight(results, dataset, form) for dataset, form in forms}
    return [result for result in results if result["lambda"] == weights[result["dataset"], result["form"]]]


def train_all(
    wanted: Iterable[Network],
    folder: Path,
    checkpoints: Path,
    *,
    log: Log = lambda sentence: None,
    settings: Mapping[str, Any] | None = None,
    open_data: Callable[[str, int], Material] = open_as_published,
) -> list[Path]:
    """Train what has no result yet; a stopped training goes on from its last checkpoint when started again.

    settings  dotted settings that come last, for trials

    Returns the files written now.
    """
    written: list[Path] = []
    opened: tuple[tuple[str, int], Material] | None = None
    missing_data: set[str] = set()
    for network in wanted:
        results = read_results(folder) if folder.is_dir() else []
        if network.weight is None:
            network = replace(network, weight=chosen_weight(results, network.dataset, network.form))
        if is_done(network, results) or network.dataset in missing_data:
            continue
        key = (network.dataset, network.seed)
        if opened is None or opened[0] != key:
            try:
                opened = key, open_data(*key)
            except LampnetError as problem:
                missing_data.add(network.dataset)
                log(f"{network.dataset} is left out: {problem}")
                continue
        log(f"{network.dataset}: {network.system}, lambda {network.weight:g}, seed {network.seed}")
        written.append(_train(network, opened[1], folder, checkpoints, log, settings))
    return written


def is_done(network: Network, results: Sequence[Result]) -> bool:
    """Whether one of these results is of this training; of one without a lambda, with the one that is chosen by now."""
    weight = chosen_weight(results, network.dataset, network.form) if network.weight is None else network.weight
    key = (network.dataset, network.system, network.seed, weight)
    return any((r["dataset"], r["system"], r["seed"], r["lambda"]) == key for r in results)


def _train(
    network: Network, material: Material, folder: Path, checkpoints: Path, log: Log, settings: Mapping[str, Any] | None
) -> Path:
    path = network.path(folder)
    state = checkpoints / path.stem
    result = run(network.lamp(), material, settings=settings, folder=state, log=log)
    about = {"dataset": network.dataset, "form": network.form, "lambda": network.weight}
    write_json(path, result | about | {"command": f"lampnet reproduce --paper --dataset {network.dataset}"})
    shutil.rmtree(state, ignore_errors=True)
    return path
