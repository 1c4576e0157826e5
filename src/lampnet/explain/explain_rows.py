"""Model and rows -> `Explanation`s.

Axes: T steps, G stages, H heads, K labels shown, S nodes, L all labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError, did_you_mean
from lampnet.evaluation.rules import PerLabelThreshold, Rule, Threshold
from lampnet.evaluation.under_hierarchy import plain_rule
from lampnet.explain.attention import PredictedRows, RowAttention, Stages, predict_rows
from lampnet.explain.explanation import Explanation, strongest
from lampnet.explain.given_known import GivenKnown
from lampnet.explain.input_view import describe_input
from lampnet.explain.logit_sums import StageLogits, logit_sums
from lampnet.inference.predictor import FittedModel

#: Labels shown for a row: at most, and at least where the model has as many.
MOST_LABELS, FEWEST_LABELS = 40, 14
#: Nodes kept for a row, those with most attention.
MOST_NODES = 256
STRANDS = (
    "Stages and attention are those of the strand as given; the probability and the decision "
    "average both strands, as every prediction of this model does."
)


STACK_ONLY = (
    "This model predicts by its base learners (stage 0), because its network scored no better on held-out rows; "
    "the later stages and the attention show what the network makes of the row."
)
NO_NETWORK = "This model is the stack of its base learners: it has no network, so there is no attention to show."
KNOWN = (
    "Some labels were known: probabilities and decisions are those given what was known; stages and attention show "
    "what the input alone says."
)
MIXED = (
    "The prediction is {weight:.0%} the network's last stage and otherwise that of the base learners (stage 0): the "
    "share that scored best on held-out rows, in the folds in which the network scored better."
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a row shows: labels that are asked for by number, and at most this many labels and nodes."""

    labels: tuple[int, ...] = ()
    most_labels: int = MOST_LABELS
    most_nodes: int = MOST_NODES


def explain(
    model: FittedModel,
    data: Dataset,
    rows: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    *,
    rule: Rule | None = None,
    metric: str = "example_f1",
    max_labels: int = MOST_LABELS,
    max_nodes: int = MOST_NODES,
) -> list[Explanation]:
    """Explain rows of a data set.

    Parameters
    ----------
    data : rows of the kind the model was trained on, with or without labels
    rows : row numbers; all rows by default
    labels : labels to show in any case
    rule : the decision rule; by default the best one for `metric`
    metric : rows with known labels are decided by the rule that is best for it with that many known labels
    max_labels, max_nodes : how much a row shows (see `labels_shown`); the nodes with most attention
    """
    numbers = label_numbers(model.label_names, labels or ())
    shown = Shown(labels=numbers, most_labels=max(1, max_labels), most_nodes=max(1, max_nodes))
    return explain_predicted(predict_rows(model, data, rows), shown=shown, rule=rule, metric=metric)


def explain_predicted(
    predicted: PredictedRows,
    rows: np.ndarray | None = None,
    *,
    shown: Shown,
    rule: Rule | None = None,
    metric: str = "example_f1",
) -> list[Explanation]:
    """Explain rows that are predicted already; `rows` are positions among them, all by default."""
    rows = np.arange(len(predicted)) if rows is None else rows
    rule = predicted.model.decisions.best[metric] if rule is None else rule
    given = GivenKnown.of(predicted, rule, metric)
    chosen, proba, truth = given.chosen, given.proba, predicted.truth()
    explained: dict[int, Explanation] = {}
    by_stage: dict[int, StageLogits] = {}
    for batch, output in predicted.attention_batches(rows):
        stages = Stages.of(output, predicted.model)
        raw = _mean_over_views(predicted, batch, stages.logits)
        for b, row in enumerate(batch):
            nodes, described = describe_input(predicted.encoded, predicted.data, int(row))
            attention = RowAttention(output, b, len(predicted.model.label_names), len(nodes))
            row_truth = None if truth is None else truth[row]
            positive = chosen[row] if row_truth is None else chosen[row] | (np.nan_to_num(row_truth) > 0)
            asked = replace(shown, labels=(*shown.labels, *given.known_true(row)))
            index = labels_shown(stages.proba[b], proba[row], positive, attention, asked)
            to_input = attention.to_input(index)
            kept = strongest(to_input.mean(axis=1), shown.most_nodes)
            if raw is not None:
                by_stage[int(row)] = _stage_logits(predicted.model, stages.names, raw[b][:, index], index, attention)
            number, ids = int(predicted.numbers[row]), predicted.data.ids
            explained[int(row)] = Explanation(
                row=number,
                id=f"row {number}" if ids is None else ids[row],
                data=predicted.data.name,
                input=described,
                nodes=tuple(nodes[i] for i in kept),
                n_nodes=len(nodes),
                labels=tuple(predicted.model.label_names[i] for i in index),
                n_labels=len(predicted.model.label_names),
                label_index=index,
                stages=stages.names,
                stage_proba=stages.proba[b][:, index],
                proba=proba[row, index],
                chosen=chosen[row, index],
                threshold=_thresholds(rule, proba[row], chosen[row])[index],
                rule=rule.describe(),
                truth=None if row_truth is None else row_truth[index],
                to_input=to_input[..., kept],
                to_labels=attention.to_labels(index),
                exchanges_messages=attention.position[index] >= 0,
                logit_sums=(),
                note=_note(predicted, given.any_known(row)),
                known=given.known(row, index),
                what_if=given.what_if(row, index),
            )
    sums = logit_sums(predicted, {row: e.label_index for row, e in explained.items()}, by_stage, given)
    return [replace(explained[int(row)], logit_sums=sums[int(row)]) for row in rows]


def _mean_over_views(predicted: PredictedRows, batch: np.ndarray, logits_BGL: np.ndarray) -> np.ndarray | None:
    """Every stage's logits (B, G, L) as they enter the prediction; None where the network does not."""
    model = predicted.model
    if model.network is None or model.network_weight == 0:
        return None
    others = [Stages.of(model.output(view, batch), model).logits for view in predicted.views[1:]]
    return np.asarray(np.mean([logits_BGL, *others], axis=0, dtype=np.float64))


def _stage_logits(
    model: FittedModel, names: tuple[str, ...], logits_GK: np.ndarray, labels: np.ndarray, attention: RowAttention
) -> StageLogits:
    biases = [member.bias.detach().numpy() for member in model.trained_network().networks if member.bias is not None]
    bias = np.asarray(np.mean(biases, axis=0, dtype=np.float64))[labels] if biases else np.zeros(len(labels))
    return StageLogits(names, logits_GK, np.where(attention.position[labels] >= 0, bias, 0.0))


def _note(predicted: PredictedRows, known: bool) -> str:
    sentences = [KNOWN] if known else []
    sentences += [STRANDS] if predicted.encoded.other_view is not None else []
    weight = predicted.model.network_weight
    if predicted.model.network is None:
        sentences.append(NO_NETWORK)
    elif weight == 0:
        sentences.append(STACK_ONLY)
    elif weight < 1:
        sentences.append(MIXED.format(weight=weight))
    return " ".join(sentences)


def label_numbers(names: Sequence[str], labels: Sequence[str]) -> tuple[int, ...]:
    """Numbers of labels by name.

    >>> label_numbers(("red", "blue"), ["blue"])
    (1,)
    """
    number = {name: i for i, name in enumerate(names)}
    for label in labels:
        if label not in number:
            raise DataError(f"the model has no label {label!r}; {did_you_mean(label, names)}")
    return tuple(number[label] for label in labels)


def labels_shown(
    stages_GL: np.ndarray, proba_L: np.ndarray, positive_L: np.ndarray, attention: RowAttention, shown: Shown
) -> np.ndarray:
    """Which labels a row shows, int (K,), by falling probability.

    Labels that were asked for come first, then the true and predicted ones, then those they attend to most, then
    those whose probability moved most between stages.
    """
    by_proba = np.argsort(-proba_L, kind="stable")
    marked = [int(i) for i in by_proba if positive_L[i]]
    sources = [source for label in marked[: shown.most_labels] for source in attention.strongest_sources(label, 2)]
    moved = np.abs(np.diff(stages_GL, axis=0)).max(axis=0, initial=0.0) if len(stages_GL) > 1 else proba_L
    order = [*shown.labels, *marked, *sources, *np.argsort(-moved, kind="stable").tolist()]
    enough = min(len(proba_L), shown.most_labels, max(FEWEST_LABELS, len(marked) + 6))
    kept = list(dict.fromkeys(order))[: max(enough, min(len(set(shown.labels)), shown.most_labels))]
    rank = np.argsort(by_proba)
    return np.array(sorted(kept, key=lambda i: rank[i]), dtype=np.int64)


def _thresholds(rule: Rule, proba: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """float32 (L,): the probability that each label had to reach in this row."""
    rule = plain_rule(rule)
    lowest = proba[chosen].min() if chosen.any() else 1.0
    if isinstance(rule, Threshold):  # a row that must have a label may have taken one below the threshold
        return np.full(len(proba), min(rule.value, lowest), dtype=np.float32)
    if isinstance(rule, PerLabelThreshold):
        return np.minimum(rule.values, np.where(chosen, proba, 1.0)).astype(np.float32)
    # Rules about the whole set: the row's threshold is its least probable predicted label.
    return np.full(len(proba), lowest, dtype=np.float32)
