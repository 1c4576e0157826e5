"""Labels of a fitted model that are added, renamed, merged or dropped; every function returns a new model.

The probabilities of all other labels stay what they were, until the model learns on from more rows: what was trained
stays as it is, and `ShownLabels` says what is shown of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from lampnet.base_learners.added_label import fit_added_label
from lampnet.base_learners.boosted import BoostedLearner
from lampnet.base_learners.forest import ForestLearner
from lampnet.base_learners.kernel import KernelLearner
from lampnet.base_learners.knn import KNNLearner
from lampnet.base_learners.label_dependence import LabelDependence
from lampnet.base_learners.label_names import LabelNameLearner, words_of
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.protocol import Features
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stacking_weights import StackingWeights
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.label_priors import label_priors
from lampnet.data.names import half_a_character, unwritable
from lampnet.encoders.base import EncodedRows
from lampnet.errors import ConfigError, DataError, did_you_mean
from lampnet.evaluation.choose_rules import Decisions
from lampnet.evaluation.rules import PerLabelThreshold, Rule
from lampnet.evaluation.whole_set import WholeSet
from lampnet.inference.conditional import Conditional
from lampnet.inference.match_schema import moves_of
from lampnet.inference.predictor import FittedModel
from lampnet.inference.shown_labels import ShownLabels, any_of

#: learners whose weights a new label gets, in the order of the features that they read
LINEAR = ("linear", "pretrained_linear")
#: learners whose labels can be added and regrouped
_EDITABLE = (LinearLearner, KNNLearner, LabelNameLearner, ForestLearner, BoostedLearner, KernelLearner)
#: for each label, the labels before that it is made of; none for a label that is added
Sources = Sequence[tuple[int, ...]]


def rename_label(model: FittedModel, old: str, new: str) -> FittedModel:
    """The same model with one label renamed."""
    at = label_number(model, old)
    _check_new_name(new, [name for name in model.label_names if name != old])
    names = tuple(new if number == at else name for number, name in enumerate(model.label_names))
    hierarchy = None if model.hierarchy is None else model.hierarchy.with_labels(names)
    made = _under(replace(model, label_names=names), hierarchy)
    return _noted(made, f"{old!r} renamed to {new!r}", {old: new})


def drop_label(model: FittedModel, name: str) -> FittedModel:
    """The model without one label, which still sends messages to the others."""
    at = label_number(model, name)
    if len(model.label_names) == 1:
        raise ConfigError(f"{name!r} is the only label of the model; it cannot be dropped")
    sources = [(number,) for number in range(len(model.label_names)) if number != at]
    names = tuple(label for label in model.label_names if label != name)
    return _noted(_edited(model, names, sources), f"{name!r} dropped", {name: None})


def merge_labels(model: FittedModel, merged: Sequence[str], into: str) -> FittedModel:
    """Several labels shown as one, which is true where any of them is; it stands in the place of the first."""
    parts = tuple(sorted({label_number(model, name) for name in merged}))
    if len(parts) < 2:
        raise ConfigError(f"{len(parts)} label(s) were given to be merged; give at least two different ones")
    left = [number for number in range(len(model.label_names)) if number not in parts[1:]]
    _check_new_name(into, [model.label_names[number] for number in left if number != parts[0]])
    names = tuple(into if number == parts[0] else model.label_names[number] for number in left)
    sources = [parts if number == parts[0] else (number,) for number in left]
    listed = ", ".join(repr(model.label_names[number]) for number in parts)
    moves = {model.label_names[number]: into for number in parts}
    return _noted(_edited(model, names, sources), f"{listed} merged into {into!r}", moves)


def add_label(
    model: FittedModel, name: str, encoded: EncodedRows, y_n: np.ndarray, prior: float | None = None
) -> FittedModel:
    """The model with one more label, learned from a few examples and, where rows are texts, from its name.

    y_n    1 and 0, both among them
    prior  the share of all rows that have the label, where the examples have it more or less often
    """
    _check_new_name(name, model.label_names)
    y = np.asarray(y_n, dtype=np.float32).ravel()
    if not np.isin(y, (0, 1)).all() or y.min(initial=1) == y.max(initial=0):
        raise DataError(f"the examples of {name!r} must be 1 (rows that have it) and 0 (rows without it), some of both")
    if prior is not None and not 0 < prior < 1:
        raise ConfigError(f"prior={prior} must be between 0 and 1: the share of all rows that have {name!r}")
    stack = model.stack
    if stack is None or "linear" not in stack.names:
        raise ConfigError("a label can be added to models with the linear base learner; train this one again with it")
    column = fit_added_label(
        _read_linearly(stack, encoded.features), y, model.config.training.seed, _features_of_name(model, stack, name)
    )
    own = float(label_priors(y[:, None], np.float64)[0])
    intercept = column.intercept if prior is None else column.intercept + float(logit(prior) - logit(own))
    share = own if prior is None else prior
    before = model.label_priors
    assert before is not None
    shown = model.shown or ShownLabels.as_trained(before)
    columns = len(shown.priors_S)
    made = _edited(
        replace(
            model,
            stack=_with_column(stack, column.weights_F, intercept, share),
            shown=ShownLabels(shown.groups, np.append(shown.priors_S, np.float32(share)), shown.trained),
        ),
        (*model.label_names, name),
        [*((number,) for number in range(len(model.label_names))), ()],
        added=((columns,), share),
    )
    name_too = " and its name" if column.from_name else ""
    return _noted(made, f"{name!r} added from {len(y)} examples{name_too}, {int(y.sum())} of which have it")


def _read_linearly(stack: Stack, X: Features) -> Features:
    """The features that the stack's linear learners read, all of them side by side."""
    return X if all(name in stack.names for name in LINEAR) else stack.columns_of("linear", X)


def _features_of_name(model: FittedModel, stack: Stack, name: str) -> np.ndarray | None:
    """What sets the name apart from those of the other labels, (F,); None where rows are not texts."""
    if model.encoder.kind != "text":
        return None
    texts = [words_of(label) for label in (name, *model.label_names)]
    features = _read_linearly(stack, model.encoder.encode(texts, None).features)
    own, *others = np.asarray(features.toarray() if sparse.issparse(features) else features, dtype=np.float64)
    return np.asarray(own - np.mean(others, axis=0))


def label_number(model: FittedModel, name: str) -> int:
    """Which label this is."""
    if name not in model.label_names:
        raise ConfigError(f"the model has no label {name[:80]!r}; {did_you_mean(name, model.label_names)[:300]}")
    return model.label_names.index(name)


def _check_new_name(name: str, others: Sequence[str]) -> None:
    if not name.strip() or unwritable([name]) is not None:
        raise DataError(half_a_character("the label", name) if name.strip() else "a label needs a name")
    if name in others:
        raise ConfigError(f"the model has a label {name[:80]!r} already; give another name, or merge them")


def _noted(model: FittedModel, edit: str, moves: Mapping[str, str | None] | None = None) -> FittedModel:
    """What was done, for the model card and, as moves from labels to labels, for rows labelled before it."""
    edits = model.metadata.get("label_edits", [])
    before = moves_of(model.metadata)
    now = {old: new if new is None or moves is None else moves.get(new, new) for old, new in before.items()}
    moved = {old: new for old, new in (now | dict(moves or {})).items() if old != new}
    kept = {key: value for key, value in model.metadata.items() if key not in ("estimator", "model_sha256")}
    changed = {"label_edits": [*edits, edit], "label_moves": moved, "labels": len(model.label_names)}
    return replace(model, metadata=kept | changed)


def _edited(
    model: FittedModel, names: tuple[str, ...], sources: Sources, added: tuple[tuple[int, ...], float] | None = None
) -> FittedModel:
    """The model with other labels shown, each made of labels before.

    added  the columns and the prior of a label that is not
    """
    before = model.label_priors
    assert before is not None
    shown = model.shown or ShownLabels.as_trained(before)
    groups, priors = [], []
    for parts in sources:
        if not parts:
            assert added is not None
            groups.append(added[0])
            priors.append(added[1])
            continue
        groups.append(tuple(sorted(column for part in parts for column in shown.groups[part])))
        priors.append(_any_prior(before, parts))
    numbers = np.array(priors, dtype=np.float32)
    hierarchy = None if model.hierarchy is None else model.hierarchy.edited(sources, names)
    made = replace(
        model,
        label_names=names,
        shown=ShownLabels(tuple(groups), shown.priors_S, shown.trained),
        label_priors=numbers,
        decisions=_decisions(model.decisions.under(None), sources, numbers),
        conditional=None if model.conditional is None else _conditional(model.conditional, sources, numbers),
        promises=None,  # they hold for the labels that they were made about
        valid_truth=None,
        valid_proba=None,
    )
    return _under(made, hierarchy)


def _under(model: FittedModel, hierarchy: LabelHierarchy | None) -> FittedModel:
    """The model with this hierarchy, in its decisions too."""
    if hierarchy is None:
        return model
    conditional = None if model.conditional is None else replace(model.conditional, hierarchy=hierarchy)
    return replace(model, hierarchy=hierarchy, decisions=model.decisions.under(hierarchy), conditional=conditional)


def _any_prior(priors: np.ndarray, parts: tuple[int, ...]) -> float:
    if len(parts) == 1:
        return float(priors[parts[0]])
    return float(expit(any_of(logit(priors[list(parts)].astype(np.float64))[None]))[0])


def _decisions(decisions: Decisions, sources: Sources, priors: np.ndarray) -> Decisions:
    whole = None if decisions.whole_set is None else _whole_set(decisions.whole_set, sources, priors)
    best: Mapping[str, Rule] = decisions.best
    made: dict[str, Rule] = {}
    for metric, rule in best.items():
        if rule is decisions.whole_set and whole is not None:
            made[metric] = whole
        elif isinstance(rule, PerLabelThreshold):
            made[metric] = _thresholds(rule, sources)
        else:
            made[metric] = rule
    return Decisions(decisions.paper, made, whole)


def _thresholds(rule: PerLabelThreshold, sources: Sources) -> PerLabelThreshold:
    """Merged labels have the mean of their thresholds, an added one the median of all."""
    values = np.asarray(rule.values)
    edited = (float(values[list(parts)].mean()) if parts else float(np.median(values)) for parts in sources)
    return replace(rule, values=tuple(edited))


def _whole_set(rule: WholeSet, sources: Sources, priors: np.ndarray) -> WholeSet:
    """The sets with the labels that are shown; sets that become the same are counted together."""
    counts: dict[tuple[int, ...], float] = {}
    for labels, count in zip(rule.sets, rule.counts, strict=True):
        there = set(labels)
        own = tuple(number for number, parts in enumerate(sources) if there.intersection(parts))
        counts[own] = counts.get(own, 0.0) + count
    return replace(rule, sets=tuple(counts), counts=tuple(counts.values()), priors=tuple(map(float, priors)))


def _conditional(conditional: Conditional, sources: Sources, priors: np.ndarray) -> Conditional:
    """What known labels say about labels that are shown as they were trained; the others take no part."""
    dependence = conditional.dependence
    place = {parts[0]: number for number, parts in enumerate(sources) if len(parts) == 1}
    kept = np.array([at for at, label in enumerate(dependence.labels_m) if int(label) in place], dtype=np.int64)
    labels = np.array([place[int(dependence.labels_m[at])] for at in kept], dtype=np.int64)
    square = np.ix_(kept, kept)
    shifts, covariance = (np.ascontiguousarray(t[square]) for t in (dependence.shifts_mm, dependence.covariance_mm))
    weights = conditional.shift_weights.without_sets()
    decisions = {name: _decisions(rules, sources, priors) for name, rules in conditional.decisions.items()}
    return Conditional(LabelDependence(labels, shifts, covariance, None), weights, [], 0.0, decisions)


def _with_column(stack: Stack, weights_F: np.ndarray, intercept: float, prior: float) -> Stack:
    """A copy of the stack with one more label, whose logit is that of the linear learners alone."""
    made = Stack.restore(stack.names, stack.arrays())
    K = len(made.names)
    own = np.zeros((1, K), dtype=np.float32)
    rest, bias = weights_F.astype(np.float32), np.float32(intercept)
    for name in LINEAR:  # in the order of the features that they read
        if name in made.names and len(rest):
            at = made.names.index(name)
            learner = made.learners[at]
            assert isinstance(learner, LinearLearner)
            size = len(learner.weights)
            learner.weights = np.column_stack([learner.weights, rest[:size]])
            learner.intercepts = np.append(learner.intercepts, bias)
            own[0, at] = made.spread[at]
            rest, bias = rest[size:], np.float32(0)
    for number, learner in enumerate(made.learners):
        if not own[0, number]:
            assert isinstance(learner, _EDITABLE)
            learner.add_silent_label(prior)
    made.centre = np.vstack([made.centre, np.zeros((1, K), dtype=np.float32)])
    made.weights = StackingWeights(
        np.vstack([made.weights.weights_LK, own]), np.append(made.weights.bias_L, np.float32(0))
    )
    return made


def as_one_training(model: FittedModel) -> FittedModel:
    """The model with the labels that it shows as if trained with them: where the next training starts.

    Only here do other labels move: a label that was dropped sends no messages any more.
    """
    shown, stack = model.shown, model.stack
    if shown is None:
        return model
    groups = [list(group) for group in shown.groups]
    if stack is not None:
        stack = Stack.restore(stack.names, stack.arrays())
        for learner in stack.learners:
            assert isinstance(learner, _EDITABLE)
            learner.regroup(groups)
        stack.centre = _means(stack.centre, groups)
        stack.weights = StackingWeights(_means(stack.weights.weights_LK, groups), _means(stack.weights.bias_L, groups))
    calibration = model.calibration
    if calibration is not None:
        more = len(shown.priors_S) - shown.trained
        slope = np.pad(calibration.slope_L, (0, more), constant_values=1.0)
        shift = np.pad(calibration.shift_L, (0, more))
        calibration = replace(calibration, slope_L=_means(slope, groups), shift_L=_means(shift, groups))
    graph = model.graph
    if graph is not None:
        wide = np.ones((len(shown.priors_S),) * 2)  # added labels: edges to all
        wide[: shown.trained, : shown.trained] = graph.toarray()
        member = np.zeros((len(groups), len(shown.priors_S)))
        for label, group in enumerate(groups):
            member[label, group] = 1.0
        graph = sparse.csr_matrix(member @ wide @ member.T > 0)
    return replace(model, stack=stack, calibration=calibration, graph=graph, shown=None)


def _means(values: np.ndarray, groups: Sequence[list[int]]) -> np.ndarray:
    return np.stack([values[group].mean(axis=0) for group in groups]).astype(values.dtype)
