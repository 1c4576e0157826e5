"""A whole test set in numbers: which labels attend to which, what label messages changed, scores and confusions.

One pass over the rows; attention is summed as it comes, so memory grows with the labels, not with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.evaluation.metrics import five_metrics
from lampnet.explain.attention import PredictedRows, RowAttention, Stages, decision_rule, predict_rows
from lampnet.inference.predictor import FittedModel

#: What a page can hold of each list; the page states how many there are.
MOST_PAIRS, MOST_DOTS, MOST_CHANGES, MOST_ROWS = 60, 400, 150, 3000
#: Label pairs are listed only where the attending label was positive in at least this many rows.
ENOUGH_ROWS = 3


@dataclass(frozen=True)
class Change:
    """A decision about one label of one row (its number in the data set) that label messages changed.

    correct          whether the new decision is right; None where the truth is unknown
    strongest_source the label that it attends to most; -1 for none
    """

    row: int
    label: int
    step: int
    before: float
    after: float
    correct: bool | None
    strongest_source: int


@dataclass(frozen=True, kw_only=True)
class WholeSet:
    """What `summarise` found; label numbers are the model's.

    numbers        int (n,), the rows' numbers in their data set
    attention      float (L, L), [i, j]: mean attention of i to j over the rows where i was positive
    cooccurrence   float (L, L), [i, j]: share of the rows with i that have j too
    positives      int (L,), rows in which a label was positive (true or predicted)
    changed        for each step, how many decisions label messages corrected, broke, or changed without a known truth
    """

    data: str
    kind: str
    rule: str
    label_names: tuple[str, ...]
    numbers: np.ndarray
    ids: tuple[str, ...]
    truth: np.ndarray | None
    chosen: np.ndarray
    scores: dict[str, float] | None
    stages: tuple[str, ...]
    stage_scores: list[float] | None
    attention: np.ndarray
    cooccurrence: np.ndarray
    positives: np.ndarray
    changed: list[dict[str, int]]
    changes: list[Change]

    def pairs(self) -> np.ndarray:
        """bool (L, L): pairs of two labels with enough rows."""
        open_pairs: np.ndarray = (self.positives[:, None] >= ENOUGH_ROWS) & ~np.eye(len(self.positives), dtype=bool)
        return open_pairs

    def agreement(self) -> float | None:
        """Rank correlation of attention with co-occurrence over pairs with enough rows; None without any."""
        return rank_correlation(self.attention[self.pairs()], self.cooccurrence[self.pairs()])


def summarise(model: FittedModel, data: Dataset) -> WholeSet:
    """One pass over all rows of a data set."""
    if not len(data):
        raise DataError(f"{data.name}: there are no rows to summarise; give at least one")
    return summarise_predicted(predict_rows(model, data))


def summarise_predicted(predicted: PredictedRows, rows: np.ndarray | None = None) -> WholeSet:
    """`summarise` of rows that are predicted already; `rows` are positions among them, all by default."""
    rows = np.arange(len(predicted)) if rows is None else rows
    model, data = predicted.model, predicted.data
    n_labels, rule = len(model.label_names), decision_rule(model)
    all_chosen, truth = rule.apply(predicted.proba), predicted.truth()
    positive = all_chosen if truth is None else all_chosen | (np.nan_to_num(truth) > 0)
    attention_LL = np.zeros((n_labels, n_labels))
    changes: list[Change] = []
    by_stage: list[np.ndarray] = []
    stages: tuple[str, ...] = ()
    for batch, output in predicted.attention_batches(rows):
        stages, proba, _ = Stages.of(output, predicted.model)
        decided = np.stack([rule.apply(proba[:, g]) for g in range(len(stages))], axis=1)
        by_stage = by_stage or [np.zeros(all_chosen.shape, dtype=bool) for _ in stages]
        for g in range(len(stages)):
            by_stage[g][batch] = decided[:, g]
        for b, row in enumerate(batch):
            attention = RowAttention(output, b, n_labels)
            for label in np.flatnonzero(positive[row]):
                attention_LL[label, attention.labels] += attention.to_others(int(label))
            row_truth = None if truth is None else truth[row]
            changes += _changes(proba[b], decided[b], row_truth, attention, int(predicted.numbers[row]))
    changed = [{"corrected": 0, "broken": 0, "unknown": 0} for _ in range(len(stages) // 2)]
    for change in changes:
        kind = "unknown" if change.correct is None else "corrected" if change.correct else "broken"
        changed[change.step][kind] += 1
    chosen, positive, truth = all_chosen[rows], positive[rows], None if truth is None else truth[rows]
    positives = positive.sum(axis=0)
    counted = (positive if truth is None else np.nan_to_num(truth) > 0).astype(np.float64)
    numbers = predicted.numbers[rows]
    return WholeSet(
        data=data.name,
        kind=data.kind,
        rule=rule.describe(),
        label_names=model.label_names,
        numbers=numbers,
        ids=tuple(f"row {i}" for i in numbers) if data.ids is None else tuple(data.ids[row] for row in rows),
        truth=truth,
        chosen=chosen,
        scores=None if truth is None else five_metrics(truth, chosen),
        stages=stages,
        stage_scores=None if truth is None else [five_metrics(truth, d[rows])["example_f1"] for d in by_stage],
        attention=attention_LL / np.maximum(positives, 1)[:, None],
        cooccurrence=(counted.T @ counted) / np.maximum(counted.sum(axis=0), 1.0)[:, None],
        positives=positives,
        changed=changed,
        changes=sorted(changes, key=lambda c: -abs(c.after - c.before)),
    )


def _changes(
    proba_GL: np.ndarray, decided_GL: np.ndarray, truth: np.ndarray | None, attention: RowAttention, row: int
) -> list[Change]:
    """Decisions about one row that differ between t.1 and t.2 of any step."""
    found = []
    first = len(decided_GL) % 2  # stage 0 comes before them, where there is one
    for step in range(len(decided_GL) // 2):
        before, after = first + 2 * step, first + 2 * step + 1
        for label in np.flatnonzero(decided_GL[before] != decided_GL[after]).tolist():
            correct = None
            if truth is not None and not np.isnan(truth[label]):
                correct = bool(decided_GL[after, label] == (truth[label] > 0))
            source = next(iter(attention.strongest_sources(label, 1)), -1)
            moved = float(proba_GL[before, label]), float(proba_GL[after, label])
            found.append(Change(row, label, step, *moved, correct, source))
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


def whole_set_data(found: WholeSet, part: str = "test") -> dict[str, Any]:
    """JSON data for the page: lists cut to what a person can read, with their full lengths."""
    n_labels, changes = len(found.label_names), found.changes[:MOST_CHANGES]
    names = dict(zip(found.numbers.tolist(), found.ids, strict=True))
    return {
        "title": f"{found.data}: the whole {part} set",
        "trainedOn": part != "test",
        "kind": found.kind,
        "rule": found.rule,
        "labels": [name[:5_000] for name in found.label_names],
        "rows": len(found.ids),
        "scores": found.scores,
        "stages": list(found.stages),
        "stageScores": found.stage_scores,
        "changed": found.changed,
        "changes": [
            [c.row, c.label, c.step, round(c.before, 4), round(c.after, 4), c.correct, c.strongest_source]
            for c in changes
        ],
        "nChanges": len(found.changes),
        "ids": {str(c.row): names[c.row][:200] for c in changes},
        "pairs": _top_pairs(found),
        "dots": _dots(found),
        "nPairs": n_labels * (n_labels - 1),
        "agreement": found.agreement(),
        "perLabel": _per_label(found),
        "confusions": _confusions(found),
        "list": _row_list(found),
    }


def _top_pairs(found: WholeSet) -> list[list[Any]]:
    """[label, label it attends to, attention, co-occurrence, rows] of the strongest pairs with enough rows."""
    attention = np.where(found.pairs(), found.attention, 0.0)
    listed = []
    for flat in np.argsort(-attention, axis=None, kind="stable")[:MOST_PAIRS]:
        i, j = divmod(int(flat), len(attention))
        if attention[i, j] > 0:
            scores = round(attention[i, j], 4), round(found.cooccurrence[i, j], 4)
            listed.append([i, j, *scores, int(found.positives[i])])
    return listed


def _dots(found: WholeSet) -> list[list[Any]]:
    """Pairs for the scatter: the strongest by attention and by co-occurrence."""
    pairs, both = found.pairs(), (found.attention, found.cooccurrence)
    strongest = [np.argsort(-np.where(pairs, score, -1.0), axis=None)[: MOST_DOTS // 2].tolist() for score in both]
    chosen = [f for f in dict.fromkeys([*strongest[0], *strongest[1]]) if pairs.flat[f]]
    return [[*divmod(f, len(pairs)), *(round(float(score.flat[f]), 4) for score in both)] for f in chosen]


def _per_label(found: WholeSet) -> list[list[Any]]:
    """[label, true rows, predicted rows, precision, recall, F1], or [label, predicted rows] without truth."""
    chosen = found.chosen.sum(axis=0)
    if found.truth is None:
        return [[i, int(c)] for i, c in enumerate(chosen)]
    known = ~np.isnan(found.truth)
    true = np.nan_to_num(found.truth) > 0
    hits = (true & found.chosen).sum(axis=0)
    scored, positives = (found.chosen & known).sum(axis=0), true.sum(axis=0)
    rows = []
    for i in range(len(found.label_names)):
        precision = hits[i] / scored[i] if scored[i] else None
        recall = hits[i] / positives[i] if positives[i] else None
        f1 = 2 * hits[i] / (scored[i] + positives[i]) if scored[i] + positives[i] else None
        numbers = [None if x is None else round(float(x), 4) for x in (precision, recall, f1)]
        rows.append([i, int(positives[i]), int(chosen[i]), *numbers])
    return rows


def _confusions(found: WholeSet) -> list[list[int]] | None:
    """[missed label, label predicted wrongly, rows] of the most frequent pairs; None without truth."""
    if found.truth is None:
        return None
    known = ~np.isnan(found.truth)
    missed = ((np.nan_to_num(found.truth) > 0) & ~found.chosen).astype(np.float64)
    wrong = (found.chosen & known & (np.nan_to_num(found.truth) == 0)).astype(np.float64)
    counts = missed.T @ wrong
    order = np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS]
    return [[*divmod(int(f), len(counts)), int(counts.flat[f])] for f in order if counts.flat[f] > 0]


def _row_list(found: WholeSet) -> list[list[Any]]:
    """[row number, id, right labels, wrong labels, missed labels] of the first rows."""
    listed: list[list[Any]] = []
    for row in range(min(len(found.ids), MOST_ROWS)):
        chosen = found.chosen[row]
        true = chosen if found.truth is None else np.nan_to_num(found.truth[row]) > 0
        unknown = np.zeros_like(chosen) if found.truth is None else np.isnan(found.truth[row])
        parts = (chosen & (true | unknown), chosen & ~true & ~unknown, true & ~chosen)
        labels = [np.flatnonzero(part).tolist() for part in parts]
        listed.append([int(found.numbers[row]), found.ids[row][:200], *labels])
    return listed
