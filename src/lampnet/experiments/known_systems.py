"""What is compared where labels are known: our own forms, and methods that a user could build instead.

Every system learns from the same labelled rows and the same out-of-fold logits, and says logits of test rows given
states. None sees the labels of test rows beyond the states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lampnet.base_learners.label_dependence import cross_fit_dependence
from lampnet.baselines.chain import KnownLabelChain
from lampnet.baselines.label_states import LinearStates, PerceptronStates
from lampnet.config import Config
from lampnet.data.known_labels import States
from lampnet.data.splits import fold_numbers
from lampnet.evaluation.known_regimes import Regime, mean_row_precision, reveal, unrevealed
from lampnet.experiments.known_rows import KnownRows
from lampnet.model.label_graph import LabelGraph
from lampnet.pipeline.control import IN_MEMORY, Control
from lampnet.pipeline.known import fit_conditional
from lampnet.runtime.budget import Budget

REGIMES = tuple(map(Regime.read, ("positives:1", "positives:3", "share:25", "share:50", "share:75")))
#: logits of test rows given states of which the rows are chosen by number
Said = Callable[[np.ndarray, States], np.ndarray]
#: what the shifts of the co-occurrence update may count; chosen on labelled rows
UPDATES = (0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
FOLDS = 5
#: lampnet's recipe: 1, what shifts count depends on how much is known
FORM = 1


@dataclass(frozen=True)
class KnownSystem:
    """A method that takes known labels.

    other  one that a user could build without lampnet's label messages, so that messages have to beat it
    form   which of lampnet's recipes this is; results of an earlier one have another number, or none
    """

    name: str
    title: str
    fit: Callable[[KnownRows, int], Said]
    other: bool = False
    form: int = 0


def _nothing(rows: KnownRows, seed: int) -> Said:
    return lambda some, states: rows.logits_test[some]


def _cooccurrence(rows: KnownRows, seed: int) -> Said:
    fold_n = fold_numbers(len(rows.Y), FOLDS, seed)
    fitted = cross_fit_dependence(rows.Y, rows.logits, fold_n)
    found = np.zeros(len(UPDATES))
    for regime in REGIMES:
        states, counts = reveal(rows.Y, regime, seed)
        some = np.flatnonzero(counts)[:1000]
        if len(some):
            shift = fitted.shifts(rows.logits[some], states[some], fold_n[some])[..., 0]
            truth = unrevealed(rows.Y[some], states[some])
            found += [mean_row_precision(truth, rows.logits[some] + a * shift) for a in UPDATES]
    update = UPDATES[int(np.argmax(found))]

    def said(some: np.ndarray, states: States) -> np.ndarray:
        logits = rows.logits_test[some]
        return np.asarray(logits + update * fitted.whole.shifts(logits, states)[..., 0])

    return said


def _linear(rows: KnownRows, seed: int) -> Said:
    model = LinearStates(seed).fit(rows.X, rows.logits, rows.Y)
    return lambda some, states: model.logits(rows.X_test[some], rows.logits_test[some], states)


def _perceptron(rows: KnownRows, seed: int) -> Said:
    model = PerceptronStates(seed).fit(rows.X, rows.logits, rows.Y)
    return lambda some, states: model.logits(rows.X_test[some], rows.logits_test[some], states)


def _chain(rows: KnownRows, seed: int) -> Said:
    model = KnownLabelChain(seed=seed).fit(rows.logits, rows.Y)
    return lambda some, states: model.logits(rows.logits_test[some], states)


def _lampnet(method: str, graph: str = "full") -> Callable[[KnownRows, int], Said]:
    def fit(rows: KnownRows, seed: int) -> Said:
        config = Config.preset("quick").updated(
            {"known.method": method, "training.threads": 1, "training.seed": seed, "label_graph": graph}
        )
        with Control(replace(IN_MEMORY), Budget(0.0)) as control:
            model = fit_conditional(rows.Y, rows.logits, config, LabelGraph(graph, None, rows.Y.shape[1]), control)
        assert model is not None
        return lambda some, states: model.logits(rows.logits_test[some], states)

    return fit


KNOWN_SYSTEMS: dict[str, KnownSystem] = {
    system.name: system
    for system in (
        KnownSystem("nothing", "nothing known", _nothing, other=True),
        KnownSystem("cooccurrence", "co-occurrence update", _cooccurrence, other=True),
        KnownSystem("linear", "linear, label states", _linear, other=True),
        KnownSystem("mlp", "MLP, label states", _perceptron, other=True),
        KnownSystem("chain", "chain, clamped", _chain, other=True),
        KnownSystem("shifts", "lampnet, shifts", _lampnet("shifts"), form=FORM),
        KnownSystem("edgeless", "lampnet, edgeless", _lampnet("messages", "edgeless"), form=FORM),
        KnownSystem("messages", "lampnet, messages", _lampnet("messages"), form=FORM),
    )
}
