"""A label hierarchy: which labels are special cases of others, so that a child never stands without its parents.

A label may have several parents; no label is its own ancestor.

>>> tree = LabelHierarchy.of([("poodle", "dog"), ("dog", "animal")], ("poodle", "dog", "animal"))
>>> tree.with_parents(np.array([[True, False, False]])).astype(int).tolist()
[[1, 1, 1]]
>>> tree.lowered(np.array([[0.9, 0.2, 0.4]])).tolist()
[[0.2, 0.2, 0.4]]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import FALSE, TRUE, States
from lampnet.errors import DataError, ModelFolderError, did_you_mean
from lampnet.runtime.memory_limit import above as above_limit
from lampnet.runtime.memory_limit import in_words, memory_limit

#: whoever asks what is above each label makes something of the same size from it
_COPIES = 2
#: labels of a circle that are named
_SHOWN = 8
#: what a label that is added to a row takes while all of them are collected
_ADDED_BYTES = 64


@dataclass(frozen=True)
class LabelHierarchy:
    """Edges from child to parent, by label number.

    edges        (child, parent), rising
    label_names  the L labels
    """

    edges: tuple[tuple[int, int], ...]
    label_names: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], label_names: Sequence[str]) -> LabelHierarchy:
        """From pairs of names, child first; an unknown label or a cycle is a `DataError`."""
        number = {name: at for at, name in enumerate(label_names)}
        edges = set()
        for pair in pairs:
            for name in pair:
                if name not in number:
                    close = did_you_mean(name, label_names)[:200]
                    raise DataError(
                        f"the label hierarchy names {name[:80]!r}, which is not a label of the rows; {close}"
                    )
            edges.add((number[pair[0]], number[pair[1]]))
        return cls.checked(edges, label_names)

    @classmethod
    def checked(cls, edges: Iterable[Any], label_names: Sequence[str]) -> LabelHierarchy:
        """From pairs of label numbers; a cycle is a `DataError`."""
        made = cls(tuple(sorted((int(child), int(parent)) for child, parent in edges)), tuple(label_names))
        try:
            made.upwards  # noqa: B018  computed once, and here
        except CycleError as fault:
            circle = [repr(label_names[label]) for label in reversed(fault.args[1])]
            if len(circle) > _SHOWN:
                circle = [*circle[: _SHOWN - 1], "...", circle[-1]]
            around = " -> ".join(circle)
            raise DataError(
                f"the label hierarchy goes round in a circle ({around}), so a label would be its own ancestor; take "
                "one of these lines out"
            ) from None
        return made

    @cached_property
    def upwards(self) -> tuple[tuple[int, int], ...]:
        """The edges, those into a label before those out of it: what is passed on goes all the way up."""
        parents: dict[int, list[int]] = {}
        for child, parent in self.edges:
            parents.setdefault(child, []).append(parent)
        children_first = list(TopologicalSorter(parents).static_order())[::-1]
        return tuple((child, parent) for child in children_first for parent in parents.get(child, ()))

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """For each label all labels above it: as many numbers as the square of the labels, where they are one chain.

        Where that would take more memory than the limit, it is a `DataError`.
        """
        above: list[frozenset[int]] = [frozenset()] * len(self.label_names)
        taken, limit = 0, memory_limit()
        for child, parent in reversed(self.upwards):
            taken -= sys.getsizeof(above[child])
            above[child] = above[child] | above[parent] | {parent}
            taken += sys.getsizeof(above[child])
            if _COPIES * taken > limit:
                raise DataError(
                    f"what is above each of {len(self.label_names):,} labels needs more than "
                    f"{in_words(_COPIES * taken)} of memory, {above_limit(limit)}, or give a label hierarchy of fewer "
                    "levels"
                )
        return tuple(above)

    def below(self, label: int) -> set[int]:
        """All labels below one, in the time of looking at each edge once."""
        found = {label}
        for child, parent in reversed(self.upwards):
            if parent in found:
                found.add(child)
        return found - {label}

    @property
    def has_one_parent_each(self) -> bool:
        """Whether the labels are trees."""
        return len({child for child, _ in self.edges}) == len(self.edges)

    def with_parents(self, chosen_nL: np.ndarray) -> np.ndarray:
        """Label sets in which every label has its ancestors: missing ones are added."""
        chosen = np.array(chosen_nL, dtype=bool)
        for child, parent in self.upwards:
            chosen[:, parent] |= chosen[:, child]
        return chosen

    def lowered(self, values_nL: np.ndarray) -> np.ndarray:
        """Probabilities or logits of which no child's is above its parents'."""
        values = np.array(values_nL)
        for child, parent in reversed(self.upwards):
            np.minimum(values[:, child], values[:, parent], out=values[:, child])
        return values

    def ranked(self, proba_nL: np.ndarray) -> np.ndarray:
        """`lowered` by a hair more where a child would be level with its parent, so that parents come first.

        >>> tree = LabelHierarchy.of([("dog", "animal")], ("dog", "animal"))
        >>> bool(np.diff(tree.ranked(np.array([[0.5, 0.5]])))[0, 0] > 0)
        True
        """
        proba = np.array(proba_nL)
        for child, parent in reversed(self.upwards):
            below = np.nextafter(proba[:, parent], np.zeros(1, dtype=proba.dtype))
            np.minimum(proba[:, child], below, out=proba[:, child])
        return proba

    def raised(self, thresholds_L: Sequence[float]) -> tuple[float, ...]:
        """Thresholds of which no child's is below its parents': on lowered probabilities they choose no child alone."""
        values = list(thresholds_L)
        for child, parent in reversed(self.upwards):
            values[child] = max(values[child], values[parent])
        return tuple(values)

    def implied(self, states_nL: States) -> States:
        """What is known of labels, and what follows: labels above a true one are true, those below a false one false.

        >>> tree = LabelHierarchy.of([("poodle", "dog"), ("dog", "animal")], ("poodle", "dog", "animal"))
        >>> tree.implied(np.array([[1, 0, 0], [0, -1, 0]], dtype=np.int8)).tolist()
        [[1, 1, 1], [-1, -1, 0]]
        """
        true = self.with_parents(states_nL == TRUE)
        states = np.where(true, TRUE, states_nL)
        for child, parent in reversed(self.upwards):
            states[:, child] = np.where((states[:, parent] == FALSE) & ~true[:, child], FALSE, states[:, child])
        return states

    def check_known(self, states_nL: States) -> None:
        """Refuse a label that is known as true below one that is known as false."""
        clash = np.argwhere(self.with_parents(states_nL == TRUE) & (states_nL == FALSE))
        if len(clash):
            row, above = clash[0].tolist()
            all_below = self.below(above)
            below = next(label for label in np.flatnonzero(states_nL[row] == TRUE).tolist() if label in all_below)
            names = self.label_names
            raise DataError(
                f"row {row} of known: {names[below]!r} is true and {names[above]!r}, which is above it in the label "
                "hierarchy, is false; correct one of the two"
            )

    def truth_with_parents(self, truth_nL: np.ndarray) -> np.ndarray:
        """Labels (n, L) of 1, 0 and NaN, with 1 for all ancestors of a label that is 1."""
        return np.where(self.with_parents(truth_nL == 1), truth_nL.dtype.type(1), truth_nL)

    def completed(self, data: Dataset) -> tuple[Dataset, int]:
        """The rows with the ancestors of their labels, and how many rows lacked one."""
        if data.labels is None:
            return data, 0
        true = sparse.csc_matrix(data.labels == 1, dtype=np.float32)
        rows_of = {
            label: true.indices[true.indptr[label] : true.indptr[label + 1]] for pair in self.edges for label in pair
        }
        lacking: dict[int, np.ndarray] = {}
        added, limit = 0, memory_limit()
        for child, parent in self.upwards:
            more = np.setdiff1d(rows_of[child], rows_of[parent])
            lacking[parent] = np.union1d(lacking.get(parent, more), more)
            rows_of[parent] = np.union1d(rows_of[parent], more)
            added += len(more)
            if added * _ADDED_BYTES > limit:
                raise DataError(
                    f"with the labels above theirs the rows need more than {in_words(added * _ADDED_BYTES)} of memory, "
                    f"{above_limit(limit)}, or give a label hierarchy of fewer levels"
                )
        at = [np.full(len(rows), label) for label, rows in lacking.items()]
        if not sum(map(len, at)):
            return data, 0
        rows, columns = np.concatenate(list(lacking.values())), np.concatenate(at)
        known = data.labels.tocoo()
        kept = ~np.isin(known.row.astype(np.int64) * known.shape[1] + known.col, rows * known.shape[1] + columns)
        entries: Any = (
            np.concatenate([known.data[kept], np.ones(len(rows), dtype=np.float32)]),
            (np.concatenate([known.row[kept], rows]), np.concatenate([known.col[kept], columns])),
        )
        return replace(data, labels=sparse.csr_matrix(entries, shape=known.shape)), len(np.unique(rows))

    def edited(self, sources: Sequence[tuple[int, ...]], label_names: Sequence[str]) -> LabelHierarchy:
        """The hierarchy of other labels, each true where one of some labels of this hierarchy is.

        A label has those above it that are above all labels that it is made of. What was above and below a label that
        is gone is above and below each other.

        >>> names = ("animal", "dog", "oak", "plant", "poodle")
        >>> tree = LabelHierarchy.of([("poodle", "dog"), ("dog", "animal"), ("oak", "plant")], names)
        >>> tree.edited([(0,), (2,), (3,), (4,)], ("animal", "oak", "plant", "poodle")).edges  # no dog
        ((1, 2), (3, 0))
        >>> tree.edited([(0,), (1,), (2, 4), (3,)], ("animal", "dog", "oak or poodle", "plant")).edges
        ((1, 0),)
        """
        place = {old: new for new, parts in enumerate(sources) for old in parts}
        above: list[set[int]] = []
        for label, parts in enumerate(sources):
            of_parts = [{place[old] for old in (part, *self.ancestors[part]) if old in place} for part in parts]
            above.append(set.intersection(*of_parts) - {label} if of_parts else set())
        edges = {
            (label, parent)
            for label, own in enumerate(above)
            for parent in own.difference(*(above[other] for other in own))
        }
        return LabelHierarchy.checked(edges, label_names)

    def with_labels(self, label_names: Sequence[str]) -> LabelHierarchy:
        """The same hierarchy where labels have other names, or more have come behind them."""
        return LabelHierarchy(self.edges, tuple(label_names))

    def to_json(self) -> list[list[int]]:
        return [list(edge) for edge in self.edges]

    @classmethod
    def from_json(cls, data: Any, label_names: Sequence[str]) -> LabelHierarchy:
        """Read what `to_json` wrote; anything else is refused."""
        pairs = isinstance(data, list) and all(isinstance(edge, list) and len(edge) == 2 for edge in data)
        if not pairs or not all(type(at) is int and 0 <= at < len(label_names) for edge in data for at in edge):
            raise ModelFolderError("the model's label hierarchy must be pairs of label numbers")
        try:
            return cls.checked({tuple(edge) for edge in data}, label_names)
        except DataError as fault:
            raise ModelFolderError(str(fault)) from None


def read_hierarchy(given: Any, label_names: Sequence[str]) -> LabelHierarchy:
    """A hierarchy as Python callers give it: a mapping of children to a parent or several, or (child, parent) pairs.

    >>> read_hierarchy({"poodle": "dog", "dog": ["animal", "pet"]}, ("animal", "dog", "pet", "poodle")).edges
    ((1, 0), (1, 2), (3, 1))
    """
    pairs: list[Any] = []
    if isinstance(given, Mapping):
        for child, parents in given.items():
            lone = isinstance(parents, str) or not isinstance(parents, Iterable)
            pairs += [(child, parent) for parent in ([parents] if lone else parents)]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        pairs = list(given)
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise DataError(f"label_hierarchy holds {pair!r:.80}; expected pairs of a child and its parent")
    if not pairs:
        raise DataError(
            f"label_hierarchy={given!r:.80} has no edge; give a file, a mapping of children to parents, or pairs "
            "(child, parent)"
        )
    return LabelHierarchy.of([(str(child), str(parent)) for child, parent in pairs], label_names)
