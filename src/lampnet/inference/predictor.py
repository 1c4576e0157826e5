"""A fitted model: everything needed to go from raw rows to label sets.

Rows are encoded once, by `encoder.encode`; `views` adds the base logits, and the resulting `Examples` flow through
prediction, explanation and its checks. Predicting changes nothing of a fitted model.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse

from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import UNKNOWN, States
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.schema import align_labels
from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.evaluation.calibration import Calibration
from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.promises import Promise, Promises
from lampnet.evaluation.rules import Rule, Threshold
from lampnet.evaluation.under_hierarchy import plain_rule
from lampnet.evaluation.whole_set import WholeSet
from lampnet.inference.conditional import Conditional, decide
from lampnet.inference.examples import Examples, examples_of_views
from lampnet.inference.logits import logits_of_views, probabilities, with_priors_for_empty_rows
from lampnet.inference.shown_labels import ShownLabels
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels.int8 import check_int8_pays, quantised
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.kernels.swap import plain
from lampnet.model.lamp import Output
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime.forks import ForkSafeLock

#: twenty threads that predict first with a model would lay it out twenty times
_LAYING_OUT = ForkSafeLock()
#: label sets by the model's own rules
AS_CHOSEN = AskedSets()
LAYOUTS = {"float32": laid_out, "int8": quantised}


@dataclass
class FittedModel:
    """Encoder, base learners, ensemble and decisions of one training run; without a network, the stack predicts.

    metadata      what the model card states: data, split, seeds, scores, times
    label_priors  (L,) what rows without any node are predicted from
    valid_truth, valid_proba  labels and out-of-fold probabilities (n, L) of the held-out rows that the decisions
                  were chosen on: the validation rows or, cross-fitted, all labelled rows; not saved
    precision     "float32", or "int8" for 8-bit products
    network_weight  the network's share of the logits, chosen out-of-fold; the stack has the rest. At 0 a network may
                  be there all the same, for explanations of its messages
    conditional   predicts where some labels are known; None for a model that cannot take known labels
    calibration   makes the probabilities match how often labels are true; None where they do already
    promises      thresholds for which recall or precision is promised; None for models of an older lampnet
    shown         labels that were added, merged or dropped since the training; None where none were
    hierarchy     labels that never stand without their parents, nor are more probable than they; None for none
    """

    config: Config
    label_names: tuple[str, ...]
    encoder: Encoder
    stack: Stack | None
    graph: sparse.csr_matrix | None
    network: Ensemble | None
    decisions: Decisions
    metadata: dict[str, Any] = field(default_factory=dict)
    label_priors: np.ndarray | None = None
    valid_truth: np.ndarray | None = None
    valid_proba: np.ndarray | None = None
    precision: str = "float32"
    network_weight: float = 1.0
    conditional: Conditional | None = None
    calibration: Calibration | None = None
    promises: Promises | None = None
    shown: ShownLabels | None = None
    hierarchy: LabelHierarchy | None = None

    def views(self, encoded: EncodedRows, targets: Any = None) -> list[Examples]:
        """Encoded rows with their base logits, and the same rows in their other view where the input has one."""
        base_logits = None if self.stack is None else self.stack.logits(encoded.features)
        return examples_of_views(encoded, targets, base_logits, None if self.stack is None else self.stack.weights)

    def logits(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) final, calibrated logits; of an input with a second view (the other DNA strand), the mean of both."""
        return self.logits_of(self.views(self.encoder.encode(rows, row_edges)))

    def logits_of(self, views: Sequence[Examples]) -> np.ndarray:
        """`logits` of rows that are encoded already."""
        logits = self._shown_logits(views)
        return logits if self.hierarchy is None else self.hierarchy.lowered(logits)

    def _shown_logits(self, views: Sequence[Examples]) -> np.ndarray:
        """Calibrated logits of the labels that are shown, each by itself."""
        if self.shown is None:
            return with_priors_for_empty_rows(self._trained_logits(views), views[0].nodes, self.label_priors)
        logits = self._trained_logits([view.first_labels(self.shown.trained) for view in views])
        stacked = views[0].stacked()
        if stacked is not None:
            logits = np.hstack([logits, stacked[:, self.shown.trained :]])
        return self.shown.logits(with_priors_for_empty_rows(logits, views[0].nodes, self.shown.priors_S))

    def _trained_logits(self, views: Sequence[Examples]) -> np.ndarray:
        """Calibrated logits of the labels of the training."""
        stacked = views[0].stacked() if self.network_weight < 1 else None
        if self.network_weight == 0:
            assert stacked is not None
            return self.calibrated(stacked)
        logits = logits_of_views(self._layouts.suited_to, views)
        if stacked is not None:
            logits = self.network_weight * logits + np.float32(1 - self.network_weight) * stacked
        return self.calibrated(logits)

    def calibrated(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated logits (n, L)."""
        return logits if self.calibration is None else self.calibration.apply(logits)

    def proba(self, rows: Any, row_edges: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """(n, L) probabilities."""
        return probabilities(self.logits(rows, row_edges))

    def given_known(self) -> Conditional:
        """What predicts where some labels are known."""
        if self.conditional is None:
            raise ConfigError(
                "this model cannot take known labels: it was trained with known.method=none, by an older lampnet, or "
                "from too few rows; train it again"
            )
        return self.conditional

    def proba_given(self, logits_nL: np.ndarray, states_nL: States) -> np.ndarray:
        """(n, L) probabilities of rows with these logits, given what is known of their labels."""
        return self.given_known().proba(logits_nL, self.implied(states_nL))

    def implied(self, states_nL: States) -> States:
        """What is known, with what follows from it by the hierarchy; a contradiction is a `DataError`."""
        if self.hierarchy is None:
            return states_nL
        self.hierarchy.check_known(states_nL)
        return self.hierarchy.implied(states_nL)

    def promised(self, decision: str) -> Threshold:
        """The threshold that keeps a promise such as "recall>=0.9"."""
        promise = Promise.read(decision)
        if self.promises is None:
            raise ConfigError(
                "this model makes no promises: its labels were changed since the training, or an older lampnet trained "
                f"it; train it again for {promise}"
            )
        return self.promises.threshold(promise)

    def decided(
        self,
        metric: str,
        proba_nL: np.ndarray,
        states_nL: States | None = None,
        asked: AskedSets = AS_CHOSEN,
    ) -> np.ndarray:
        """Label sets, bool (n, L), by the rules that were best for this metric on held-out rows, or as asked for.

        Numbers of labels that are asked for are meant beside those that are known.
        """
        proba = proba_nL
        if self.hierarchy is not None:
            proba = self.hierarchy.ranked(proba_nL)
            if states_nL is not None:
                states_nL = self.hierarchy.implied(states_nL)
                proba = np.where(states_nL == UNKNOWN, proba, proba_nL)
        rule = asked.rule(plain_rule(self.decisions.best[metric]))
        if states_nL is None or self.conditional is None or not states_nL.any():
            return self.completed(rule.apply(proba), proba, asked)
        rules: dict[str, Rule] = {"nothing": rule}
        rules |= {name: asked.rule(own.best[metric]) for name, own in self.conditional.decisions.items()}
        return self.completed(decide(rules, proba, states_nL), proba, asked)

    def completed(self, chosen_nL: np.ndarray, proba_nL: np.ndarray, asked: AskedSets = AS_CHOSEN) -> np.ndarray:
        """Label sets with what they lack: a label where one is asked for, and the parents of their labels."""
        if self.hierarchy is None:
            return asked.completed(chosen_nL, proba_nL)
        return self.hierarchy.with_parents(asked.completed(chosen_nL, self.hierarchy.ranked(proba_nL)))

    def whole_set_rule(self) -> WholeSet:
        """The rule that chooses whole sets."""
        rule = self.decisions.whole_set
        if rule is None:
            raise ConfigError(
                "this model has no decision for whole sets: it was trained by an older lampnet, or no label set "
                "occurs twice among its rows; use another decision"
            )
        return rule

    def whole_sets(self, logits_nL: np.ndarray, states_nL: States | None = None) -> np.ndarray:
        """The most probable label set of each row as a whole, bool (n, L), among those that agree with what is known.

        logits_nL  with nothing known
        """
        rule = self.whole_set_rule()
        proba = probabilities(logits_nL)
        if states_nL is None:
            return self.completed(rule.apply(proba), proba)
        states_nL = self.implied(states_nL)
        chosen = rule.apply(np.where(states_nL == UNKNOWN, proba, (1 + states_nL) / 2))
        return self.completed(np.where(states_nL == UNKNOWN, chosen, states_nL > 0), proba)

    def output(self, examples: Examples, rows: np.ndarray) -> Output:
        """Every stage's logits and all attention weights of a few rows, in one batch."""
        with torch.inference_mode():
            output: Output = self.plain_network(
                examples.nodes.batch(rows), examples.label_input(rows), return_attention=True
            )
        return output

    @cached_property
    def plain_network(self) -> Ensemble:
        """The ensemble by the equations as written, whose attention weights can be read."""
        return self.trained_network().with_members(plain)

    def trained_network(self) -> Ensemble:
        """The network, where there is one."""
        self.check_labels_as_trained("explained")
        if self.network is None:
            raise ConfigError(
                "this model is the stack of its base learners and has no network whose messages could be shown "
                "(the preset quick, or a time budget too short for one); train with the preset fast to have one"
            )
        return self.network

    def check_labels_as_trained(self, doing: str) -> None:
        """Refuse what needs the labels of the training where some were added, merged or dropped since."""
        if self.shown is not None:
            raise ConfigError(
                f"labels of this model were added, merged or dropped since its training, so it cannot be {doing}; "
                "learn on from it first (lampnet train DATA --start MODEL)"
            )

    @cached_property
    def _layouts(self) -> _Layouts:
        assert self.network is not None
        return _Layouts(self.network, self.precision)

    def for_prediction(self, precision: str = "float32", shortlist: int | None = None) -> FittedModel:
        """A copy that predicts with other products or among fewer labels; weights are shared.

        Parameters
        ----------
        precision : "float32", or "int8" for 8-bit products
        shortlist : only this many of the most promising labels of a row exchange messages; 0 for all, None as trained

        Raises
        ------
        ConfigError
            where int8 is not faster on this processor, or the network was trained with a shorter shortlist
        """
        if precision not in LAYOUTS:
            raise ConfigError(f"precision {precision!r} is not one of {', '.join(LAYOUTS)}")
        network = self.network
        if network is not None and precision == "int8":
            check_int8_pays(network.config.width)
        if network is not None and shortlist is not None:
            network = network.with_members(_with_shortlist(shortlist))
        return replace(self, network=network, precision=precision)

    def check(self, data: Dataset) -> Dataset:
        """Rows of the kind this model was trained on, their labels in this model's order."""
        if data.kind != self.encoder.kind:
            raise DataError(
                f"{data.name}: the rows are of kind {data.kind!r}, but the model was trained on {self.encoder.kind!r}; "
                "give data of the same kind"
            )
        if data.labels is None or data.label_names == self.label_names:
            return data
        return align_labels(data, self.label_names)


def _with_shortlist(shortlist: int) -> Any:
    def changed(member: StackedLaMP) -> StackedLaMP:
        trained = member.config.shortlist
        if shortlist < 0:
            raise ConfigError(f"the shortlist is {shortlist}; give at least 0, which lets all labels take part")
        if 0 < trained < member.n_labels and not 0 < shortlist <= trained:
            # Messages among many more labels than in training drown what the network has learned.
            raise ConfigError(
                f"the shortlist is {shortlist}, but the network was trained with {trained} labels per row; give 1 to "
                f"{trained}, or train with model.shortlist=0 to let all labels take part"
            )
        made = copy.copy(member)
        made.shortlist = shortlist
        return made

    return changed


class _Layouts:
    """The ensemble laid out for prediction: once for few nodes, once for so many that words are looked up."""

    def __init__(self, network: Ensemble, precision: str) -> None:
        self.network, self.lay_out = network, LAYOUTS[precision]
        self._few: tuple[int, Ensemble] | None = None
        self._many: tuple[int, Ensemble] | None = None

    def suited_to(self, n_nodes: int) -> Ensemble:
        """The ensemble for this many nodes."""
        found = self._found(n_nodes)
        if found is None:
            with _LAYING_OUT.held():
                found = self._found(n_nodes)
                if found is None:
                    found = self._made(n_nodes)
        return found

    def _found(self, n_nodes: int) -> Ensemble | None:
        few, many = self._few, self._many  # other threads may replace them
        if few is not None and n_nodes <= few[0]:
            return few[1]
        return many[1] if many is not None and n_nodes >= many[0] else None

    def _made(self, n_nodes: int) -> Ensemble:
        made = self.network.with_members(lambda member: self.lay_out(member, n_nodes))
        if made.networks[0].embedding is self.network.networks[0].embedding:
            self._few = (n_nodes, made)
        else:
            self._many = (n_nodes, made)
        return made
