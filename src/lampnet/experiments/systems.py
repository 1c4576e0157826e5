"""The systems that are compared, by name: LaMP in the paper's six forms and more, and every baseline.

>>> SYSTEMS["fmp-fc"].title
'FMP + LaMP_fc'
>>> SYSTEMS["emb-el"].config(prior_graph="cooccurrence").label_graph
'edgeless'
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lampnet.baselines import REGISTRY
from lampnet.config import Config
from lampnet.errors import ConfigError, did_you_mean

#: Stands for the data set's own label graph: a tree, protein interactions, else co-occurrence.
PRIOR = "prior"
#: Settings of baselines for which zero has a meaning.
_MAY_BE_ZERO = ("dropout", "patience", "seed", "smoothing", "time_budget")


@dataclass(frozen=True)
class System:
    """One way to predict label sets.

    title     its name in tables
    preset    the LaMP preset it starts from; empty for a baseline
    changes   settings changed from that preset
    kind      the only kind of rows it reads; empty for all
    """

    name: str
    title: str
    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""

    @property
    def is_lamp(self) -> bool:
        return bool(self.preset)

    def config(self, prior_graph: str, settings: Mapping[str, Any] | None = None) -> Config:
        """The settings of this LaMP system; `settings` (dotted names) come last."""
        changes = dict(self.changes)
        if changes.get("label_graph") == PRIOR:
            changes["label_graph"] = prior_graph
        return Config.preset(self.preset).updated(changes).updated(lamp_settings(settings))


#: The paper's six forms of LaMP: raw input vectors (Emb) or messages among input nodes first (FMP); an edgeless (el),
#: full (fc) or prior (pr) label graph.
FORMS: dict[str, str] = {
    f"{features}-{graph}": f"{'Emb' if features == 'emb' else 'FMP'} + LaMP_{graph}"
    for features in ("emb", "fmp")
    for graph in ("el", "fc", "pr")
}


def form_settings(form: str) -> dict[str, Any]:
    """What makes a form of LaMP: its label graph and the steps among input nodes.

    >>> form_settings("fmp-el")
    {'label_graph': 'edgeless', 'model.feature_steps': 2}
    """
    features, graph = form.split("-")
    kind = {"el": "edgeless", "fc": "full", "pr": PRIOR}[graph]
    return {"label_graph": kind, "model.feature_steps": {"emb": 0, "fmp": 2}[features]}


#: a frozen pretrained text encoder, that of an installed package: features for base learners, and nodes
_READ = {"input.pretrained": "auto", "input.pretrained_use": "tokens"}
_ALL = (
    *(System(name, entry.title) for name, entry in REGISTRY.items()),
    # One network, as in the paper; lampnet's default is a cross-fitted ensemble of them.
    *(System(form, title, "fast", form_settings(form) | {"training.folds": 1}) for form, title in FORMS.items()),
    System("lamp-paper-preset", "LaMP, the paper's settings", "paper"),
    System("lamp-paper-form", "LaMP without base learners", "fast", {"model.base_learners": ()}),
    System("stack", "the stack of lampnet's base learners", "fast", {"model.network": False}),
    System("lamp", "LaMP (lampnet's default)", "fast"),
    System("stack-pretrained", "the stack with a pretrained encoder", "fast", _READ | {"model.network": False}, "text"),
    System("lamp-pretrained", "LaMP with a pretrained encoder", "fast", _READ, "text"),
)

SYSTEMS: dict[str, System] = {system.name: system for system in _ALL}
#: what "all" stands for: those that read rows of any kind and need nothing that may not be installed
EVERYWHERE = tuple(name for name, system in SYSTEMS.items() if not system.kind)


def system(name: str) -> System:
    """A system by its name; an unknown one is refused."""
    if name not in SYSTEMS:
        raise ConfigError(f"there is no method {name!r}; {did_you_mean(name, SYSTEMS)}")
    return SYSTEMS[name]


def chosen_systems(names: Iterable[str]) -> list[System]:
    """Systems by name, each once, in the order given; a name may be a list with commas.

    >>> [s.name for s in chosen_systems(["lamp,logistic", "lamp"])]
    ['lamp', 'logistic']
    """
    single = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return [system(name) for name in dict.fromkeys(single)]


def lamp_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those of the settings that are LaMP's.

    >>> lamp_settings({"training.epochs": 2, "mlp.width": 32})
    {'training.epochs': 2}
    """
    return {key: value for key, value in (settings or {}).items() if key.partition(".")[0] not in REGISTRY}


def baseline_settings(name: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those of the settings that are this baseline's.

    >>> baseline_settings("mlp", {"training.epochs": 2, "mlp.width": 32})
    {'width': 32}
    """
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in (settings or {}).items() if key.startswith(prefix)}


def check_settings(systems: Iterable[System], settings: Mapping[str, Any] | None) -> None:
    """Reject unknown settings before hours are spent on systems that do not use them.

    >>> check_settings([SYSTEMS["mlp"]], {"mlp.wdith": 32})
    Traceback (most recent call last):
    lampnet.errors.ConfigError: the method mlp has no setting 'wdith'; did you mean 'width'?
    """
    Config.preset("fast").updated(lamp_settings(settings))
    for chosen in systems:
        if chosen.is_lamp:
            chosen.config("cooccurrence", settings)
            continue
        own = baseline_settings(chosen.name, settings)
        known = inspect.signature(type(REGISTRY[chosen.name].make())).parameters if own else {}
        for name, value in own.items():
            if name not in known:
                raise ConfigError(f"the method {chosen.name} has no setting {name!r}; {did_you_mean(name, known)}")
            _check_type(f"{chosen.name}.{name}", value, str(known[name].annotation))


def _check_type(name: str, value: Any, annotation: str) -> None:
    """Baselines annotate their settings `int`, `float` or either with None; the rest are not for the command line."""
    kind, setting = annotation.partition(" |")[0], name.partition(".")[2]
    if kind not in ("int", "float"):
        raise ConfigError(f"{name} cannot be set here; leave it out")
    wanted = "a whole number" if kind == "int" else "a number"
    fits = not isinstance(value, bool) and isinstance(value, int if kind == "int" else (int, float))
    if not fits or not math.isfinite(value):
        raise ConfigError(f"{name}={value!r} must be {wanted}")
    if setting == "dropout" and value >= 1:
        raise ConfigError(f"{name}={value!r} must be below 1")
    if (value < 0 and setting != "jobs") or (value == 0 and setting not in _MAY_BE_ZERO):
        raise ConfigError(f"{name}={value!r} is too small; leave it out or give a larger one")
