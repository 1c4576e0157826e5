"""How far attention can be trusted: intervene, and compare with chance.

Attention is where a message came from, not proof that it mattered. Two experiments on the rows that were
explained, each against a random baseline of the same size:

- take away the input nodes a chosen label attended to most, or as many random ones: how far does its
  probability fall?
- cut the messages it got from the labels it listened to most, or from as many random ones: how far does its
  probability move?

Both act inside the network, on the nodes and edges themselves; a first opinion (stage 0) is kept as it was,
so what is measured is what the messages add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lampnet.data.dataset import Dataset
from lampnet.explain.explanation import RowAttention, checked_rows, decision_rule
from lampnet.inference.examples import Examples
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel
from lampnet.model.neighbourhood import Neighbourhood

#: Share of the nodes, or of the other labels, that is taken away (at least one).
SHARE = 0.1
RANDOM_DRAWS = 6
LABELS_A_ROW = 5
_COPIES = 24


@dataclass(frozen=True, kw_only=True)
class Check:
    """The outcome of one experiment.

    cases        label and row pairs tried
    attended     mean effect of taking away what had most attention
    random       mean effect of taking away as much at random
    error        standard error of their difference
    wins         share of the cases in which the first effect was larger than the mean of the random ones
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
        """The outcome in a sentence, with no more confidence than the numbers give."""
        if self.attended is None or self.random is None or self.error is None:
            return f"Not measured: {self.skipped}."
        gap = self.attended - self.random
        if gap > 2 * self.error:
            return "What got most attention mattered more than chance."
        if gap < -2 * self.error:
            return "What got most attention mattered less than chance: do not read attention as a reason here."
        return "No difference from chance could be shown: do not read attention as a reason here."

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict()}


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """Both checks for one set of rows."""

    nodes: Check
    labels: Check
    rows: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes.to_json(),
            "labels": self.labels.to_json(),
            "rows": self.rows,
            "seed": self.seed,
            "share": SHARE,
            "random_draws": RANDOM_DRAWS,
        }


def measure(
    model: FittedModel, data: Dataset, rows: Sequence[int] | None = None, *, seed: int = 0, most_rows: int = 60
) -> Faithfulness:
    """Run both checks on chosen labels (at most five a row) of the given rows.

    Parameters
    ----------
    model, data, rows
        As for `lampnet.explain.explanation.explain`.
    seed : int
        Of the random baseline, and of the choice of rows where more than `most_rows` were given.
    """
    data = model.check(data)
    index = checked_rows(data, rows)
    random = np.random.default_rng(seed)
    if len(index) > most_rows:
        index = np.sort(random.choice(index, most_rows, replace=False))
    part = data.take(index)
    views = model.views(model.encoder.encode(part.rows, part.row_edges))
    examples, chosen = views[0], decision_rule(model).apply(model.proba_of(views))
    node_effects: list[tuple[float, float]] = []
    label_effects: list[tuple[float, float]] = []
    all_cut: list[float] = []
    edgeless = model.network.graph.kind == "edgeless"
    for row in range(len(part)):
        labels = _surest(model, examples, row, chosen[row])
        if not len(labels.numbers):
            continue
        node_effects += _remove_nodes(model, examples, row, labels, random)
        if not edgeless:
            pairs, everything = _cut_labels(model, examples, row, labels, random)
            label_effects += pairs
            all_cut += everything
    one_node = "every row is a single node, so there is nothing to take away"
    no_edges = "the label graph has no edges" if edgeless else "no label had another one to listen to"
    return Faithfulness(
        nodes=_check(
            "Input nodes",
            f"Take away the {SHARE:.0%} of the input a chosen label attended to most: how far does its "
            "probability fall, against as many random nodes?",
            node_effects,
            one_node if len(chosen) and chosen.any() else "no label was chosen",
        ),
        labels=_check(
            "Label messages",
            f"Cut a chosen label's messages from the {SHARE:.0%} of labels it listened to most: how far does its "
            "probability move, against as many random ones?",
            label_effects,
            no_edges if len(chosen) and chosen.any() else "no label was chosen",
            all_cut,
        ),
        rows=len(part),
        seed=seed,
    )


@dataclass(frozen=True)
class _Chosen:
    """The surest chosen labels of a row with their attention, averaged over steps and heads."""

    numbers: np.ndarray  # (K,)
    proba: np.ndarray  # (K,)
    to_nodes: np.ndarray  # (K, S)
    attention: RowAttention


def _surest(model: FittedModel, examples: Examples, row: int, chosen: np.ndarray) -> _Chosen:
    output = model.output(examples, np.array([row]))
    attention = RowAttention(output, 0, len(model.label_names))
    proba = probabilities(output.stages[-1][0].float().numpy())
    allowed = np.flatnonzero(chosen & (attention.place >= 0))
    numbers = allowed[np.argsort(-proba[allowed], kind="stable")][:LABELS_A_ROW]
    return _Chosen(numbers, proba[numbers], attention.to_input(numbers).mean(axis=(0, 1)), attention)


def _remove_nodes(
    model: FittedModel, examples: Examples, row: int, labels: _Chosen, random: np.random.Generator
) -> list[tuple[float, float]]:
    """(fall after the most attended, mean fall after random ones) of each label."""
    n_nodes = labels.to_nodes.shape[1]
    if n_nodes < 2:
        return []
    count = min(n_nodes - 1, max(1, round(SHARE * n_nodes)))
    keep = np.ones((len(labels.numbers) + RANDOM_DRAWS, n_nodes), dtype=bool)
    for i, attention in enumerate(labels.to_nodes):
        keep[i, np.argsort(-attention, kind="stable")[:count]] = False
    for i in range(len(labels.numbers), len(keep)):
        keep[i, random.choice(n_nodes, count, replace=False)] = False
    proba = _with_nodes(model, examples, row, torch.from_numpy(keep))[:, labels.numbers]
    fall = labels.proba - proba  # (copies, K)
    drawn = fall[len(labels.numbers) :].mean(axis=0)
    return [(float(fall[i, i]), float(drawn[i])) for i in range(len(labels.numbers))]


def _cut_labels(
    model: FittedModel, examples: Examples, row: int, labels: _Chosen, random: np.random.Generator
) -> tuple[list[tuple[float, float]], list[float]]:
    """(move after cutting the loudest, mean move after random ones) of each label, and after cutting all."""
    cuts: list[tuple[int, np.ndarray]] = []
    tried = []  # labels that have at least two others to hear
    for which, number in enumerate(labels.numbers):
        heard = labels.attention.heard(int(number))
        others = np.flatnonzero(heard > 0)  # places among the labels that took part
        if len(others) < 2:
            continue
        tried.append(which)
        count = max(1, round(SHARE * len(others)))
        at = int(labels.attention.place[number])
        cuts.append((at, others[np.argsort(-heard[others], kind="stable")[:count]]))
        cuts += [(at, random.choice(others, count, replace=False)) for _ in range(RANDOM_DRAWS)]
        cuts.append((at, others))
    if not cuts:
        return [], []
    proba = _with_cuts(model, examples, row, cuts, len(labels.attention.own))
    pairs, everything = [], []
    for own, which in zip(np.split(proba, len(tried)), tried, strict=True):
        moved = np.abs(own[:, labels.numbers[which]] - labels.proba[which])
        pairs.append((float(moved[0]), float(moved[1:-1].mean())))
        everything.append(float(moved[-1]))
    return pairs, everything


def _with_nodes(model: FittedModel, examples: Examples, row: int, keep_CS: Tensor) -> np.ndarray:
    """Probabilities (C, L) of copies of a row, each with some of its nodes taken away after the embedding."""

    def take_away(module: Any, given: Any, made: tuple[Tensor, Tensor, Tensor | None]) -> Any:
        z_BSD, present_BS, edges_BSS = made
        if edges_BSS is not None:
            edges_BSS = edges_BSS * (keep_CS.unsqueeze(1) & keep_CS.unsqueeze(2))
        return z_BSD, present_BS & keep_CS, edges_BSS

    handles = [member.embedding.register_forward_hook(take_away) for member in model.plain_network.networks]
    try:
        return _copies(model, examples, row, len(keep_CS))
    finally:
        for handle in handles:
            handle.remove()


def _with_cuts(
    model: FittedModel,
    examples: Examples,
    row: int,
    cuts: list[tuple[int, np.ndarray]],
    heard: int,
) -> np.ndarray:
    """Probabilities (C, L) of copies of a row, each with some edges into one label cut at every step."""
    shut = torch.finfo(torch.float32).min
    parts = []
    for first in range(0, len(cuts), _COPIES):
        some = cuts[first : first + _COPIES]
        bias_C1MM = torch.zeros(len(some), 1, heard, heard)
        for copy, (label, sources) in enumerate(some):
            bias_C1MM[copy, 0, label, torch.from_numpy(sources)] = shut
        with _extra_bias(model, bias_C1MM):
            parts.append(_copies(model, examples, row, len(some)))
    return np.concatenate(parts)


@contextmanager
def _extra_bias(model: FittedModel, bias: Tensor) -> Iterator[None]:
    """Close pairs of labels in every label-to-label step, on top of what the graph closes."""

    def close(module: Any, given: tuple[Tensor, Tensor | None, Neighbourhood]) -> Any:
        u, sources, neighbours = given
        own = neighbours.bias
        summed = bias if own is None else torch.maximum(bias + own, torch.tensor(torch.finfo(torch.float32).min))
        return u, sources, Neighbourhood(bias=summed)

    handles = [yy.register_forward_pre_hook(close) for member in model.plain_network.networks for yy in member.yy]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _copies(model: FittedModel, examples: Examples, row: int, count: int) -> np.ndarray:
    output = model.output(examples, np.full(count, row))
    return probabilities(output.stages[-1].float().numpy())


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
