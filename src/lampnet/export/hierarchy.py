"""A label hierarchy as ONNX operators: no child more probable than its parents, and what known labels say of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.errors import DataError
from lampnet.export.graph import Graph, Value
from lampnet.runtime.memory_limit import above, in_words, memory_limit

#: a label's number in a list and in an array
_CELL = 16


def lowered(graph: Graph, hierarchy: LabelHierarchy, logits_BL: Value) -> Value:
    """`LabelHierarchy.lowered`: the least logit of each label and all labels above it."""
    return graph.op("ReduceMin", logits_BL.taken(_itself_and(hierarchy.ancestors), axis=1), np.array([2]), keepdims=0)


def implied(graph: Graph, hierarchy: LabelHierarchy, states_BL: Value) -> Value:
    """`LabelHierarchy.implied`, int64; a label that is known as true below a false one counts."""
    below: list[set[int]] = [set() for _ in hierarchy.label_names]
    for label, its_ancestors in enumerate(hierarchy.ancestors):
        for ancestor in its_ancestors:
            below[ancestor].add(label)
    has_true = graph.op("ReduceMax", states_BL.taken(_itself_and(below), axis=1), np.array([2]), keepdims=0)
    with_true = graph.where(has_true > np.int64(0), np.int64(1), states_BL)
    least = graph.op("ReduceMin", with_true.taken(_itself_and(hierarchy.ancestors), axis=1), np.array([2]), keepdims=0)
    refused = (least < np.int64(0)) & with_true.equals(np.int64(0))
    return graph.where(refused, np.int64(-1), with_true)


def _itself_and(others: Sequence[frozenset[int] | set[int]]) -> np.ndarray:
    """(L, A): each label and its others, filled up with the label itself."""
    most = max(map(len, others), default=0)
    taken, limit = _CELL * len(others) * (most + 1), memory_limit()
    if taken > limit:
        raise DataError(
            f"a label hierarchy of {len(others):,} labels, {most:,} of which are above or below one, needs about "
            f"{in_words(taken)} of memory to be exported, {above(limit)}"
        )
    rows = [[label, *sorted(own)] + [label] * (most - len(own)) for label, own in enumerate(others)]
    return np.array(rows, dtype=np.int64)
