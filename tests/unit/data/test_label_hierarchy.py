"""A label hierarchy against a slow reference: sets, probabilities, known labels and labels that change."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import FALSE, TRUE
from lampnet.data.label_hierarchy import LabelHierarchy, read_hierarchy
from lampnet.errors import DataError, FormatError, ModelFolderError
from lampnet.evaluation.asked_sets import TopAbove
from lampnet.evaluation.choose_rules import Decisions, choose_decisions, raised_where_better
from lampnet.evaluation.metrics import METRICS
from lampnet.evaluation.rules import ExactExpectedF1, ExpectedF1, PerLabelThreshold, Rule, Threshold, TopK
from lampnet.evaluation.under_hierarchy import UnderHierarchy
from lampnet.readers.label_edges import read_label_hierarchy
from lampnet.runtime.memory_limit import limited_to

NAMES = tuple("abcdefg")


@st.composite
def hierarchies(draw: st.DrawFn, L: int = 6) -> LabelHierarchy:
    """Any acyclic graph, the labels in any order."""
    order = draw(st.permutations(range(L)))
    pairs = draw(st.sets(st.tuples(st.integers(0, L - 1), st.integers(0, L - 1)).filter(lambda p: p[0] < p[1])))
    return LabelHierarchy.checked({(order[child], order[parent]) for child, parent in pairs}, NAMES[:L])


def arrays(values: st.SearchStrategy[Any], L: int = 6) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.lists(values, min_size=L, max_size=L), min_size=1, max_size=4).map(np.array)


def reaches(hierarchy: LabelHierarchy) -> np.ndarray:
    """bool (L, L): whether the second label is above the first, by powers of the adjacency."""
    L = len(hierarchy.label_names)
    up = np.zeros((L, L), dtype=bool)
    for child, parent in hierarchy.edges:
        up[child, parent] = True
    for _ in range(L):
        up |= up @ up
    return up


def keeps(hierarchy: LabelHierarchy, sets: np.ndarray) -> bool:
    return not any(row[child] and not row[parent] for row in sets for child, parent in hierarchy.edges)


@given(hierarchies(), arrays(st.booleans()))
def test_parents_are_added_and_nothing_else(hierarchy: LabelHierarchy, sets: np.ndarray) -> None:
    up = reaches(hierarchy)
    expected = sets | (sets.astype(int) @ up.astype(int) > 0)
    assert (hierarchy.with_parents(sets) == expected).all()
    assert [set(np.flatnonzero(row)) for row in up] == [set(own) for own in hierarchy.ancestors]


@given(hierarchies(), arrays(st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.0])))
def test_no_child_is_more_probable_than_its_parents(hierarchy: LabelHierarchy, proba: np.ndarray) -> None:
    up = reaches(hierarchy)
    expected = np.array([[min([p[i], *p[up[i]]]) for i in range(len(p))] for p in proba])
    assert (hierarchy.lowered(proba) == expected).all()
    ranked = hierarchy.ranked(proba)
    assert np.allclose(ranked, expected, atol=1e-12)
    for child, parent in hierarchy.edges:
        assert ((ranked[:, child] < ranked[:, parent]) | (ranked[:, parent] == 0)).all()


RULES = [
    Threshold(0.4),
    Threshold(0.95, min_labels=2),
    TopK(2),
    TopK(6),
    ExpectedF1(1.5),
    ExactExpectedF1(),
    TopAbove(2, 0.3),
    PerLabelThreshold((0.3, 0.9, 0.1, 0.6, 0.2, 0.8)),
]


@given(hierarchies(), arrays(st.floats(0.001, 1) | st.sampled_from([0.5, 0.25])), st.sampled_from(RULES))
def test_no_rule_gives_a_child_alone(hierarchy: LabelHierarchy, proba: np.ndarray, rule: Rule) -> None:
    for kind in (np.float32, np.float64):
        chosen = UnderHierarchy(rule, hierarchy).apply(proba.astype(kind))
        assert keeps(hierarchy, chosen)
        if isinstance(rule, TopK):
            assert (chosen.sum(axis=1) == rule.k).all()
        if isinstance(rule, TopAbove):
            assert (chosen.sum(axis=1) <= rule.k).all()


@given(hierarchies(4), arrays(st.sampled_from([-1, 0, 0, 1]), 4))
def test_what_is_known_says_what_follows(hierarchy: LabelHierarchy, states: np.ndarray) -> None:
    """The reference tries all label sets that agree with the hierarchy and with what is known."""
    states = states.astype(np.int8)
    worlds = np.array([world for world in product([False, True], repeat=4) if keeps(hierarchy, np.array([world]))])
    for row in states:
        possible = worlds[((row == 0) | (worlds == (row == 1))).all(axis=1)]
        if not len(possible):
            with pytest.raises(DataError, match=r"row 0 of known: '\w' is true and '\w', which is above it"):
                hierarchy.check_known(row[None])
            continue
        hierarchy.check_known(row[None])
        certain = np.where(possible.all(axis=0), 1, np.where(~possible.any(axis=0), -1, 0))
        assert hierarchy.implied(row[None])[0].tolist() == certain.tolist()


@given(hierarchies(), arrays(st.sampled_from([0.0, 1.0, np.nan])))
def test_rows_are_completed(hierarchy: LabelHierarchy, truth: np.ndarray) -> None:
    truth = truth.astype(np.float32)
    labels = sparse.csr_matrix(truth)
    data = Dataset(name="x", kind="text", rows=[""] * len(truth), labels=labels, label_names=NAMES[:6])
    made, lacking = hierarchy.completed(data)
    expected = hierarchy.truth_with_parents(truth)
    assert np.array_equal(made.indicator(), expected, equal_nan=True)
    assert np.array_equal(data.indicator(), truth, equal_nan=True)
    changed = ~((expected == truth) | (np.isnan(expected) & np.isnan(truth)))
    assert lacking == int(changed.any(axis=1).sum())
    assert (expected[hierarchy.with_parents(truth == 1)] == 1).all()


@given(hierarchies(), st.data())
def test_labels_that_change_keep_what_follows_from_them(hierarchy: LabelHierarchy, data: st.DataObject) -> None:
    """Label sets of the old hierarchy, shown as the new labels, keep the new hierarchy; and it is the strictest."""
    into = data.draw(st.lists(st.integers(-1, 3), min_size=6, max_size=6))
    groups = [tuple(old for old, new in enumerate(into) if new == number) for number in sorted(set(into) - {-1})]
    if not groups:
        return
    edited = hierarchy.edited([*groups, ()], NAMES[: len(groups) + 1])
    worlds = np.array([w for w in product([False, True], repeat=6) if keeps(hierarchy, np.array([w]))])
    shown = np.column_stack([*(worlds[:, list(group)].any(axis=1) for group in groups), np.zeros(len(worlds), bool)])
    assert keeps(edited, shown)
    up = reaches(edited)
    for a, b in product(range(len(groups)), repeat=2):
        always = bool((~shown[:, a] | shown[:, b]).all())
        assert a == b or always == bool(up[a, b])


def test_thresholds_per_label_are_raised_where_that_is_better() -> None:
    """Where children at their own low threshold are wrong, parents that are added for them are wrong too."""
    tree = LabelHierarchy.of([("a", "b")], ("a", "b", "c"))
    rule = PerLabelThreshold((0.3, 0.6, 0.5))
    proba = np.array([[0.35, 0.4, 0.9], [0.7, 0.9, 0.9], [0.1, 0.7, 0.1]] * 10)
    for there, expected in ((0.0, PerLabelThreshold((0.6, 0.6, 0.5))), (1.0, rule)):
        y = np.array([[there, there, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]] * 10)
        for metric in METRICS:
            assert raised_where_better(rule, metric, y, proba, tree) == expected
    assert raised_where_better(TopK(1), "micro_f1", y, proba, tree) == TopK(1)


def test_decisions_under_a_hierarchy_are_stored_without_it() -> None:
    random = np.random.default_rng(0)
    parent = random.random(300) < 0.5
    y = np.column_stack([parent & (random.random(300) < 0.3), parent]).astype(float)
    tree = LabelHierarchy.of([("a", "b")], ("a", "b"))
    proba = tree.lowered(np.clip(0.5 * y + 0.5 * random.random((300, 2)), 0, 1))
    made = choose_decisions(y, proba, hierarchy=tree)
    for rule in made.best.values():
        assert keeps(tree, rule.apply(random.random((50, 2))))
    stored = json.loads(json.dumps(made.to_json()))
    assert Decisions.from_json(stored, 2).under(tree) == made
    assert made.under(None).to_json() == made.to_json()


def test_files(tmp_path: Path) -> None:
    labels = ("animal", "dog", "pet", "poodle")
    file = tmp_path / "h.csv"

    def edges(text: str) -> list[tuple[int, int]]:
        file.write_text(text)
        return list(read_label_hierarchy(file, labels).edges)

    expected = [(1, 0), (1, 2), (3, 1)]
    assert edges("poodle,dog\ndog,animal\ndog,pet\n") == expected
    assert edges("child\tparent\tnote\npoodle\tdog\tx\ndog\tanimal\ty\ndog\tpet\t\n") == expected
    assert edges("parent,child\ndog,poodle\nanimal,dog\npet,dog\n") == expected
    tree = tmp_path / "t.taxonomy"
    tree.write_text("Root\tanimal\tpet\nanimal\tdog\ndog\tpoodle\n")
    assert list(read_label_hierarchy(tree, labels).edges) == [(1, 0), (3, 1)]
    for text, problem, fault in [
        ("poodle,cat\n", r"h\.csv.*1.*'cat' is not one of the 4 labels", FormatError),
        (
            "poodle,dog\ndog,animal\nanimal,poodle\n",
            r"h\.csv: .*circle \('\w+' -> '\w+' -> '\w+' -> '\w+'\)",
            DataError,
        ),
        ("dog,dog\n", r"h\.csv: .*circle \('dog' -> 'dog'\)", DataError),
        ("child,parent\n", r"h\.csv.*no edge", FormatError),
    ]:
        file.write_text(text)
        with pytest.raises(fault, match=problem) as raised:
            read_label_hierarchy(file, labels)
        assert "\n" not in str(raised.value)
    for name in ("nothing.csv", "9" * 400):
        with pytest.raises(DataError, match="is not a file"):
            read_label_hierarchy(tmp_path / name, labels)


@pytest.mark.parametrize(
    ("given_as", "problem"),
    [
        ({"dog": "cat"}, "names 'cat', which is not a label of the rows"),
        ([("dog",)], "expected pairs of a child and its parent"),
        (["dog"], "expected pairs of a child and its parent"),
        (3, "has no edge; give a file"),
        ({}, "has no edge; give a file"),
        ({"dog": "animal", "animal": "dog"}, "goes round in a circle"),
    ],
)
def test_what_is_no_hierarchy(given_as: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_hierarchy(given_as, ("animal", "dog"))


@pytest.mark.parametrize(
    "forged", [{}, "x", [[0]], [[0, 2]], [[0, True]], [[0.0, 1]], [[0, 1], [1, 0]], [[0, -1]], [3]]
)
def test_forged_hierarchies_of_model_folders(forged: Any) -> None:
    with pytest.raises(ModelFolderError):
        LabelHierarchy.from_json(forged, ("a", "b"))


def chain(length: int) -> LabelHierarchy:
    """Each label below the next."""
    names = tuple(f"label{number}" for number in range(length))
    return LabelHierarchy.checked([(number, number + 1) for number in range(length - 1)], names)


def test_what_is_above_each_label_of_a_long_chain_is_counted_while_it_is_found() -> None:
    with (
        limited_to(10**8),
        pytest.raises(DataError, match=r"20,000 labels needs more than 100 MB of memory, above the"),
    ):
        assert chain(20_000).ancestors
    with limited_to(10**8):
        assert len(chain(500).ancestors[0]) == 499


def test_a_clash_in_a_long_chain_is_named_without_what_is_above_each_label() -> None:
    tree = chain(20_000)
    known = np.zeros((1, 20_000), dtype=np.int8)
    known[0, [3, 17_000]] = TRUE, FALSE
    with limited_to(10**6), pytest.raises(DataError, match="'label3' is true and 'label17000', which is above it"):
        tree.check_known(known)
    assert tree.below(2) == {0, 1}


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1])))
def test_below_is_the_other_side_of_above(edges: set[tuple[int, int]]) -> None:
    tree = LabelHierarchy.checked(edges, tuple("abcdefgh"))
    for label in range(8):
        assert tree.below(label) == {other for other in range(8) if label in tree.ancestors[other]}


def test_a_long_circle_is_named_in_part() -> None:
    names = tuple(f"label{number}" for number in range(5_000))
    with pytest.raises(DataError, match=r"circle .*'label\d+' -> '\w+' .* -> \.\.\. -> '\w+'") as raised:
        LabelHierarchy.checked([(number, (number + 1) % 5_000) for number in range(5_000)], names)
    assert len(str(raised.value)) < 400


def test_labels_that_would_be_added_to_rows_are_counted() -> None:
    tree, lowest = (
        chain(500),
        sparse.csr_matrix((np.ones(1_000), (np.arange(1_000), np.zeros(1_000, int))), (1_000, 500)),
    )
    rows = Dataset(name="rows", kind="vector", rows=np.zeros((1_000, 1)), labels=lowest, label_names=tree.label_names)
    with limited_to(10**7), pytest.raises(DataError, match=r"the rows need more than 10 MB of memory, above the limit"):
        tree.completed(rows)
    assert tree.completed(rows)[1] == 1_000


def test_a_hierarchy_of_one_deep_label_among_many_is_not_exported_beyond_the_memory() -> None:
    graph = pytest.importorskip("lampnet.export.hierarchy")
    deep = LabelHierarchy(chain(200).edges, tuple(map(str, range(20_000))))
    with limited_to(10**7), pytest.raises(DataError, match=r"20,000 labels, 199 of which .* to be exported, above"):
        graph._itself_and(deep.ancestors)
