"""How far attention can be trusted: intervene, and compare with chance.

Attention shows where a message came from, not that it mattered. Two experiments on the explained rows, each
against a random baseline of the same size:

- remove the input nodes that a predicted label attends to most, or as many random ones: how far does its
  probability fall?
- cut the messages it receives from the labels it attends to most, or from as many random ones: how far does its
  probability move?

Both act inside the network, on nodes and edges. The initial prediction (stage 0) is kept, so what is measured is
what the messages add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.data.dataset import Dataset
from lampnet.explain.attention import PredictedRows, RowAttention, decision_rule, predict_rows
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.kernels.swap import block_as, plain, with_blocks
from lampnet.model.lamp import MessagePassing
from lampnet.model.neighbourhood import Neighbourhood
from lampnet.model.stacked import StackedLaMP

#: Share of the nodes, or of the other labels, that is removed (at least one).
SHARE = 0.1
RANDOM_DRAWS = 6
#: Fewer cases than this say nothing: their standard error is itself uncertain by a fifth and more.
ENOUGH_CASES = 15
LABELS_PER_ROW = 5
MOST_ROWS = 60
_COPIES = 24
_CLOSED = torch.finfo(torch.float32).min


@dataclass(frozen=True, kw_only=True)
class Check:
    """The outcome of one experiment.

    cases        label and row pairs tried
    attended     mean effect of removing what had most attention
    random       mean effect of removing as much at random
    error        standard error of their difference
    wins         share of the cases in which the first effect was larger than the mean random one
    everything   mean effect of cutting all messages from other labels; None where this was not tried
    skipped      why nothing was measured, or ""
    """

    name: str
    question: str
    cases: int = 0
    attended: float | None = None
    random: float | None = None
    error: float | None = None
    wins: float | None = None
    everything: float | None = None
    skipped: str = ""

    def verdict(self) -> str:
        """The outcome in a sentence, no more confident than the numbers allow."""
        if self.attended is None or self.random is None or self.error is None:
            return f"Not measured: {self.skipped}."
        if self.is_few:
            cases = "1 case is" if self.cases == 1 else f"{self.cases} cases are"
            return f"{cases} too few to compare with chance: explain more rows, until there are {ENOUGH_CASES} cases."
        gap = self.attended - self.random
        if gap > 2 * self.error:
            return "What got most attention mattered more than chance."
        if gap < -2 * self.error:
            return "What got most attention mattered less than chance: do not read attention as a reason here."
        return "No difference from chance could be shown: do not read attention as a reason here."

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict(), "few": self.is_few}

    @property
    def is_few(self) -> bool:
        """Whether there are too few cases to say anything."""
        return self.cases < ENOUGH_CASES


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """Both checks for one set of rows."""

    nodes: Check
    labels: Check
    rows: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        checks = {"nodes": self.nodes.to_json(), "labels": self.labels.to_json()}
        return checks | {"rows": self.rows, "seed": self.seed, "share": SHARE, "random_draws": RANDOM_DRAWS}


def measure(
    model: FittedModel, data: Dataset, rows: Sequence[int] | None = None, *, seed: int = 0, most_rows: int = MOST_ROWS
) -> Faithfulness:
    """Run both checks on predicted labels (at most five per row) of the given rows, all by default.

    `seed` is that of the random baseline, and of the choice of rows where more than `most_rows` are given.
    """
    return measure_predicted(predict_rows(model, data, rows), seed=seed, most_rows=most_rows)


def measure_predicted(
    predicted: PredictedRows, rows: np.ndarray | None = None, *, seed: int = 0, most_rows: int = MOST_ROWS
) -> Faithfulness:
    """`measure` of rows that are predicted already; `rows` are positions among them, all by default."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(predicted)) if rows is None else rows
    if len(rows) > most_rows:
        rows = np.sort(random.choice(rows, most_rows, replace=False))
    chosen = decision_rule(predicted.model).apply(predicted.proba)
    node_effects: list[tuple[float, float]] = []
    label_effects: list[tuple[float, float]] = []
    all_cut: list[float] = []
    edgeless = predicted.model.trained_network().graph.kind == "edgeless"
    for row in rows.tolist():
        case = _Case.of(predicted, row, chosen[row])
        if not len(case.labels):
            continue
        node_effects += _remove_nodes(case, random)
        if not edgeless:
            pairs, everything = _cut_labels(case, random)
            label_effects += pairs
            all_cut += everything
    one_node = "every row is a single node, so there is nothing to remove"
    no_edges = "the label graph has no edges" if edgeless else "no label receives messages from two others"
    if not chosen[rows].any():
        one_node = no_edges = "no label is predicted"
    return Faithfulness(
        nodes=_check(
            "Input nodes",
            f"Remove the {SHARE:.0%} of the input nodes that a predicted label attends to most: how far does its "
            "probability fall, compared with as many random nodes?",
            node_effects,
            one_node,
        ),
        labels=_check(
            "Label messages",
            f"Cut a predicted label's messages from the {SHARE:.0%} of the labels that it attends to most: how far "
            "does its probability move, compared with as many random labels?",
            label_effects,
            no_edges,
            all_cut,
        ),
        rows=len(rows),
        seed=seed,
    )


@dataclass(frozen=True)
class _Case:
    """The most probable predicted labels of one row with their attention, averaged over steps and heads."""

    predicted: PredictedRows
    row: int
    labels: np.ndarray  # (K,)
    proba: np.ndarray  # (K,)
    to_nodes: np.ndarray  # (K, S)
    attention: RowAttention

    @classmethod
    def of(cls, predicted: PredictedRows, row: int, chosen: np.ndarray) -> _Case:
        output = predicted.model.output(predicted.examples, np.array([row]))
        attention = RowAttention(output, 0, len(predicted.model.label_names))
        proba = probabilities(predicted.model.calibrated(output.stages[-1][0].float().numpy()))
        allowed = np.flatnonzero(chosen & (attention.position >= 0))
        labels = allowed[np.argsort(-proba[allowed], kind="stable")][:LABELS_PER_ROW]
        return cls(predicted, row, labels, proba[labels], attention.to_input(labels).mean(axis=(0, 1)), attention)


def _remove_nodes(case: _Case, random: np.random.Generator) -> list[tuple[float, float]]:
    """(fall without the most attended nodes, mean fall without random ones) of each label."""
    n_nodes = case.to_nodes.shape[1]
    if n_nodes < 2:
        return []
    count = min(n_nodes - 1, max(1, round(SHARE * n_nodes)))
    keep = np.ones((len(case.labels) + RANDOM_DRAWS, n_nodes), dtype=bool)
    for i, attention in enumerate(case.to_nodes):
        keep[i, np.argsort(-attention, kind="stable")[:count]] = False
    for i in range(len(case.labels), len(keep)):
        keep[i, random.choice(n_nodes, count, replace=False)] = False
    proba = _with_nodes(case.predicted, case.row, torch.from_numpy(keep))[:, case.labels]
    fall = case.proba - proba  # (copies, K)
    drawn = fall[len(case.labels) :].mean(axis=0)
    return [(float(fall[i, i]), float(drawn[i])) for i in range(len(case.labels))]


def _cut_labels(case: _Case, random: np.random.Generator) -> tuple[list[tuple[float, float]], list[float]]:
    """(move without the strongest sources, mean move without random ones) of each label; move without any."""
    cuts: list[tuple[int, np.ndarray]] = []
    tried = []  # labels that attend to at least two others
    for which, label in enumerate(case.labels):
        weights = case.attention.to_others(int(label))
        others = np.flatnonzero(weights > 0)  # positions among the labels that exchange messages
        if len(others) < 2:
            continue
        tried.append(which)
        count = max(1, round(SHARE * len(others)))
        at = int(case.attention.position[label])
        cuts.append((at, others[np.argsort(-weights[others], kind="stable")[:count]]))
        cuts += [(at, random.choice(others, count, replace=False)) for _ in range(RANDOM_DRAWS)]
        cuts.append((at, others))
    if not cuts:
        return [], []
    proba = _with_cuts(case.predicted, case.row, cuts, len(case.attention.labels))
    pairs, everything = [], []
    for copies, which in zip(np.split(proba, len(tried)), tried, strict=True):
        moved = np.abs(copies[:, case.labels[which]] - case.proba[which])
        pairs.append((float(moved[0]), float(moved[1:-1].mean())))
        everything.append(float(moved[-1]))
    return pairs, everything


class _FewerNodes(nn.Module):
    """An embedding that removes nodes of copies of a row: it keeps those of `keep_CS`."""

    def __init__(self, embedding: nn.Module, keep_CS: Tensor) -> None:
        super().__init__()
        self.embedding, self.keep_CS = embedding, keep_CS

    def forward(self, batch: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        z_BSD, present_BS, edges_BSS = self.embedding(batch)
        if edges_BSS is not None:
            edges_BSS = edges_BSS * (self.keep_CS.unsqueeze(1) & self.keep_CS.unsqueeze(2))
        return z_BSD, present_BS & self.keep_CS, edges_BSS


class _CutEdges(MessagePassing):
    """A label-to-label step with `bias_C1MM` on top of that of the graph."""

    bias_C1MM: Tensor

    def attend(
        self, q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, neighbourhood: Neighbourhood
    ) -> tuple[Tensor, Tensor | None]:
        bias = self.bias_C1MM
        if neighbourhood.bias is not None:
            bias = torch.maximum(bias + neighbourhood.bias, torch.tensor(_CLOSED))
        return super().attend(q_BHRC, u_BHSC, v_BHSC, Neighbourhood(bias=bias))


def _with_nodes(predicted: PredictedRows, row: int, keep_CS: Tensor) -> np.ndarray:
    """Probabilities (C, L) of copies of a row, each with some of its nodes removed after the embedding."""

    def fewer(network: StackedLaMP) -> StackedLaMP:
        made = plain(network)
        made._modules["embedding"] = _FewerNodes(network.embedding, keep_CS)
        return made

    return _copies(predicted, row, len(keep_CS), fewer)


def _with_cuts(predicted: PredictedRows, row: int, cuts: list[tuple[int, np.ndarray]], n_labels: int) -> np.ndarray:
    """Probabilities (C, L) of copies of a row, each with some edges into one label cut at every step.

    A cut is the receiver and its sources, as positions among the labels that exchange messages.
    """
    parts = []
    for first in range(0, len(cuts), _COPIES):
        some = cuts[first : first + _COPIES]
        bias_C1MM = torch.zeros(len(some), 1, n_labels, n_labels)
        for copy, (label, sources) in enumerate(some):
            bias_C1MM[copy, 0, label, torch.from_numpy(sources)] = _CLOSED
        parts.append(_copies(predicted, row, len(some), partial(_with_bias, bias_C1MM=bias_C1MM)))
    return np.concatenate(parts)


def _with_bias(network: StackedLaMP, bias_C1MM: Tensor) -> StackedLaMP:
    """A copy of the network with a bias on top of the graph's in every label-to-label step."""
    made = with_blocks(network, lambda name, _, block: block_as(_CutEdges, block) if name == "yy" else block)
    for block in made.yy:
        block.bias_C1MM = bias_C1MM
    return made


def _copies(predicted: PredictedRows, row: int, count: int, change: Callable[[StackedLaMP], StackedLaMP]) -> np.ndarray:
    """Probabilities (C, L) of copies of a row by a changed copy of the ensemble, which shares its weights."""
    examples, rows = predicted.examples, np.full(count, row)
    network = predicted.model.trained_network().with_members(change)
    with torch.inference_mode():
        output = network(examples.nodes.batch(rows), examples.label_input(rows), return_attention=True)
    return probabilities(predicted.model.calibrated(output.stages[-1].float().numpy()))


def _check(
    name: str, question: str, effects: list[tuple[float, float]], reason: str, everything: Sequence[float] = ()
) -> Check:
    if not effects:
        return Check(name=name, question=question, skipped=reason)
    attended, drawn = np.array(effects).T
    gap = attended - drawn
    error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("inf")
    return Check(
        name=name,
        question=question,
        cases=len(effects),
        attended=round(float(attended.mean()), 5),
        random=round(float(drawn.mean()), 5),
        error=round(error, 5) if np.isfinite(error) else 1.0,
        wins=round(float((gap > 0).mean()), 4),
        everything=round(float(np.mean(everything)), 5) if everything else None,
    )
