"""A whole test set in numbers: who leans on whom, what label messages changed, scores and confusions.

One pass over the rows; attention is summed as it comes, so memory grows with the labels, not with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.evaluation.metrics import five_metrics
from lampnet.explain.explanation import RowAttention, decision_rule, recorded_batches, stage_names, stage_probabilities
from lampnet.inference.predictor import FittedModel

#: What a page can hold of each list; the page says how many there are.
MOST_PAIRS, MOST_DOTS, MOST_CHANGES, MOST_ROWS = 60, 400, 150, 3000
#: Label pairs are judged only where the listener was positive in at least this many rows.
ENOUGH_ROWS = 3


@dataclass(frozen=True, kw_only=True)
class Change:
    """A decision about one label of one row that label messages turned."""

    row: int
    label: int
    step: int
    before: float
    after: float
    right: bool | None
    loudest: int


@dataclass(frozen=True, kw_only=True)
class WholeSet:
    """What `summarise` found; label numbers are the model's.

    leaning     float (L, L), [i, j]: mean attention of i to j over the rows where i was positive
    together    float (L, L), [i, j]: share of the rows with i that have j too
    positives   int (L,), rows in which a label was positive (true or chosen)
    """

    data: str
    kind: str
    rule: str
    label_names: tuple[str, ...]
    ids: tuple[str, ...]
    truth: np.ndarray | None
    chosen: np.ndarray
    scores: dict[str, float] | None
    stages: tuple[str, ...]
    stage_scores: list[float] | None
    leaning: np.ndarray
    together: np.ndarray
    positives: np.ndarray
    turned: list[dict[str, int]]
    changes: list[Change]

    def agreement(self) -> float | None:
        """Rank correlation of attention with co-occurrence over pairs with enough rows; None without any."""
        return rank_correlation(*self._judged())

    def _judged(self) -> tuple[np.ndarray, np.ndarray]:
        open_pairs = (self.positives[:, None] >= ENOUGH_ROWS) & ~np.eye(len(self.positives), dtype=bool)
        return self.leaning[open_pairs], self.together[open_pairs]


def summarise(model: FittedModel, data: Dataset) -> WholeSet:
    """One pass over all rows of a data set."""
    data = model.check(data)
    if not len(data):
        raise DataError(f"{data.name}: there are no rows to summarise; give at least one")
    n_labels, rule = len(model.label_names), decision_rule(model)
    truth = data.indicator() if data.labels is not None else None
    views = model.views(model.encoder.encode(data.rows, data.row_edges))
    chosen = rule.apply(model.proba_of(views))
    positive = chosen if truth is None else chosen | (np.nan_to_num(truth) > 0)
    leaning = np.zeros((n_labels, n_labels))
    turned: list[dict[str, int]] = []
    changes: list[Change] = []
    by_stage: list[np.ndarray] = []
    stages: tuple[str, ...] = ()
    for places, output in recorded_batches(model, views[0]):
        stages = stage_names(output)
        proba = stage_probabilities(output)  # (B, G, L)
        decided = np.stack([rule.apply(proba[:, g]) for g in range(len(stages))], axis=1)
        by_stage = by_stage or [np.zeros(chosen.shape, dtype=bool) for _ in stages]
        for g in range(len(stages)):
            by_stage[g][places] = decided[:, g]
        turned = turned or [{"repaired": 0, "broken": 0, "other": 0} for _ in output.stages[1::2]]
        for b, place in enumerate(places):
            attention = RowAttention(output, b, n_labels)
            for label in np.flatnonzero(positive[place]):
                leaning[label, attention.own] += attention.heard(int(label))
            row_truth = None if truth is None else truth[place]
            found = _turned(proba[b], decided[b], row_truth, attention, int(place), len(stages) % 2)
            for change in found:
                kind = "other" if change.right is None else "repaired" if change.right else "broken"
                turned[change.step][kind] += 1
            changes += found
    positives = positive.sum(axis=0)
    basis = positive if truth is None else np.nan_to_num(truth) > 0
    counted = basis.astype(np.float64)
    together = (counted.T @ counted) / np.maximum(counted.sum(axis=0), 1.0)[:, None]
    return WholeSet(
        data=data.name,
        kind=data.kind,
        rule=rule.describe(),
        label_names=model.label_names,
        ids=data.ids if data.ids is not None else tuple(f"row {i}" for i in range(len(data))),
        truth=truth,
        chosen=chosen,
        scores=None if truth is None else five_metrics(truth, chosen),
        stages=stages,
        stage_scores=None if truth is None else [five_metrics(truth, d)["example_f1"] for d in by_stage],
        leaning=leaning / np.maximum(positives, 1)[:, None],
        together=together,
        positives=positives,
        turned=turned,
        changes=sorted(changes, key=lambda c: -abs(c.after - c.before)),
    )


def _turned(
    proba: np.ndarray, decided: np.ndarray, truth: np.ndarray | None, attention: RowAttention, row: int, first: int
) -> list[Change]:
    """Decisions that differ between t.1 and t.2 of any step; `first` is 1 where stage 0 comes before them."""
    found = []
    for step in range((len(decided) - first) // 2):
        before, after = first + 2 * step, first + 2 * step + 1
        for label in np.flatnonzero(decided[before] != decided[after]):
            heard = attention.heard(int(label))
            known = truth is not None and not np.isnan(truth[label])
            found.append(
                Change(
                    row=row,
                    label=int(label),
                    step=step,
                    before=float(proba[before, label]),
                    after=float(proba[after, label]),
                    right=bool(decided[after, label] == (truth[label] > 0)) if known and truth is not None else None,
                    loudest=int(attention.own[heard.argmax()]) if heard.any() else -1,
                )
            )
    return found


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Spearman's correlation; None where one of them does not vary.

    >>> rank_correlation(np.array([1.0, 2, 3]), np.array([10.0, 20, 15]))
    0.5
    """
    from scipy.stats import rankdata

    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return round(float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]), 6)


def whole_set_data(found: WholeSet, numbers: list[int] | None = None) -> dict[str, Any]:
    """JSON data for the page: lists cut to what a person can use, with how long they are.

    `numbers` are the rows' numbers in their data set, where only some of it was summarised.
    """
    n_labels = len(found.label_names)
    number = numbers if numbers is not None else list(range(len(found.ids)))
    pairs = _top_pairs(found)
    return {
        "title": f"{found.data}: the whole test set",
        "kind": found.kind,
        "rule": found.rule,
        "labels": [name[:5_000] for name in found.label_names],
        "rows": len(found.ids),
        "scores": found.scores,
        "stages": list(found.stages),
        "stageScores": found.stage_scores,
        "turned": found.turned,
        "changes": [
            [number[c.row], c.label, c.step, round(c.before, 4), round(c.after, 4), c.right, c.loudest]
            for c in found.changes[:MOST_CHANGES]
        ],
        "nChanges": len(found.changes),
        "ids": {str(number[c.row]): found.ids[c.row][:200] for c in found.changes[:MOST_CHANGES]},
        "pairs": pairs[:MOST_PAIRS],
        "dots": _dots(found),
        "nPairs": n_labels * (n_labels - 1),
        "agreement": found.agreement(),
        "perLabel": _per_label(found),
        "confusions": _confusions(found),
        "list": [[number[row], *rest] for row, *rest in _row_list(found)],
    }


def _top_pairs(found: WholeSet) -> list[list[Any]]:
    """[listener, speaker, attention, co-occurrence, rows] of the strongest pairs with enough rows."""
    judged = np.where(found.positives[:, None] >= ENOUGH_ROWS, found.leaning, 0.0)
    order = np.argsort(-judged, axis=None, kind="stable")[: MOST_PAIRS * 2]
    listed = []
    for flat in order:
        i, j = divmod(int(flat), judged.shape[1])
        if judged[i, j] > 0:
            listed.append([i, j, round(judged[i, j], 4), round(found.together[i, j], 4), int(found.positives[i])])
    return listed


def _dots(found: WholeSet) -> list[list[Any]]:
    """Pairs for the scatter: the strongest by attention and by co-occurrence."""
    open_pairs = (found.positives[:, None] >= ENOUGH_ROWS) & ~np.eye(len(found.positives), dtype=bool)
    by_attention = np.argsort(-np.where(open_pairs, found.leaning, -1.0), axis=None)[: MOST_DOTS // 2]
    by_together = np.argsort(-np.where(open_pairs, found.together, -1.0), axis=None)[: MOST_DOTS // 2]
    chosen = [f for f in dict.fromkeys([*by_attention.tolist(), *by_together.tolist()]) if open_pairs.flat[f]]
    width = len(found.positives)
    return [
        [f // width, f % width, round(float(found.leaning.flat[f]), 4), round(float(found.together.flat[f]), 4)]
        for f in chosen
    ]


def _per_label(found: WholeSet) -> list[list[Any]]:
    """[label, true rows, chosen rows, precision, recall, F1], or [label, chosen rows] without truth."""
    chosen = found.chosen.sum(axis=0)
    if found.truth is None:
        return [[i, int(c)] for i, c in enumerate(chosen)]
    known = ~np.isnan(found.truth)
    true = np.nan_to_num(found.truth) > 0
    hits = (true & found.chosen).sum(axis=0)
    judged, positives = (found.chosen & known).sum(axis=0), true.sum(axis=0)
    rows = []
    for i in range(len(found.label_names)):
        precision = hits[i] / judged[i] if judged[i] else None
        recall = hits[i] / positives[i] if positives[i] else None
        f1 = 2 * hits[i] / (judged[i] + positives[i]) if judged[i] + positives[i] else None
        numbers = [None if x is None else round(float(x), 4) for x in (precision, recall, f1)]
        rows.append([i, int(positives[i]), int(chosen[i]), *numbers])
    return rows


def _confusions(found: WholeSet) -> list[list[int]] | None:
    """[missed label, label chosen in its place, rows] of the most frequent pairs; None without truth."""
    if found.truth is None:
        return None
    known = ~np.isnan(found.truth)
    missed = ((np.nan_to_num(found.truth) > 0) & ~found.chosen).astype(np.float64)
    wrong = (found.chosen & known & (np.nan_to_num(found.truth) == 0)).astype(np.float64)
    counts = missed.T @ wrong
    order = np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS]
    width = counts.shape[1]
    return [[int(f // width), int(f % width), int(counts.flat[f])] for f in order if counts.flat[f] > 0]


def _row_list(found: WholeSet) -> list[list[Any]]:
    """[row, id, right labels, wrong labels, missed labels] of the first rows."""
    listed: list[list[Any]] = []
    for row in range(min(len(found.ids), MOST_ROWS)):
        chosen = found.chosen[row]
        true = chosen if found.truth is None else np.nan_to_num(found.truth[row]) > 0
        unknown = np.zeros_like(chosen) if found.truth is None else np.isnan(found.truth[row])
        parts = (chosen & (true | unknown), chosen & ~true & ~unknown, true & ~chosen)
        listed.append([row, found.ids[row][:200], *(np.flatnonzero(part).tolist() for part in parts)])
    return listed
