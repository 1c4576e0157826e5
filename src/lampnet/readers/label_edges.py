"""Prior label graphs as edges between label numbers: trees, STRING interactions, lists of names.

`label_graph_edges` takes whatever the user gave; the others read one kind of file. Every reader returns int64
(E, 2), ready for a label graph: an undirected edge once, the smaller number first; a tree's edges as (child, parent).
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.errors import DataError, FormatError, did_you_mean
from lampnet.readers.files import is_file, read_text, read_text_lines, text_fields_size
from lampnet.runtime.memory_limit import MemoryBudget

WITHOUT_EDGES = ("edgeless", "full", "cooccurrence")
WITH_EDGES = ("tree", "given")
#: the label graph of the label hierarchy
HIERARCHY = "hierarchy"
#: bytes of memory that an edge takes while edges are put in order, an edge of a hierarchy besides, a name in a tree,
#: and the names of a protein
_PER_EDGE, _PER_PARENT, _PER_NODE, _PER_PROTEIN = 256, 640, 512, 320


def label_graph_edges(
    graph: str | Path, label_names: Sequence[str], own: tuple[str, Callable[[], np.ndarray]] | None = None
) -> tuple[str, np.ndarray | None]:
    """A label graph's kind and its edges, int64 (E, 2), or None where the kind needs none.

    >>> label_graph_edges("full", ("a", "b"))
    ('full', None)

    `graph` is `edgeless`, `full` or `cooccurrence`; `tree` or `given`: the data set's own; `prior`: whichever it has,
    else co-occurrence; or a file: a tree (`.taxonomy`, LYRL2004's hierarchy), STRING's links with their
    `*.protein.info*` file beside them, or two label names per line. `own` is the label graph that the data set comes
    with: its kind, and a function that reads its edges.
    """
    kind = str(graph)
    if kind == "prior":
        kind = "cooccurrence" if own is None else own[0]
    if kind in WITHOUT_EDGES:
        return kind, None
    if kind in WITH_EDGES:
        if own is None or own[0] != kind:
            raise DataError(
                f"the label graph {kind!r} needs edges, which the data do not bring; give a file of edges (two label "
                "names per line) or, in Python, an int array (E, 2)"
            )
        return kind, own[1]()
    path = Path(graph)
    if not path.is_file():
        known = did_you_mean(kind, (*WITHOUT_EDGES, *WITH_EDGES, "prior"))
        raise DataError(f"{kind!r} is neither a known label graph nor a file; {known}")
    if _is_tree(path):
        return "tree", read_tree_edges(path, label_names)
    if ".protein." in path.name and ".links." in path.name:
        info = sorted(path.parent.glob(f"{path.name.partition('.')[0]}.protein.info*"))
        if not info:
            raise DataError(f"{path}: STRING's links need its *.protein.info* file in the same folder")
        return "given", read_string_edges(path, info[0], label_names)
    return "given", read_edge_list(path, label_names)


def _edges(pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    unique = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    return np.array(unique, dtype=np.int64).reshape(-1, 2)


def read_edge_list(path: str | Path, label_names: Sequence[str]) -> np.ndarray:
    """Edges from a CSV or TSV file with two names per line (further columns are left out).

    A first line that names no label (`source,target`) is taken for a header.
    """
    return _edges(_named_pairs(Path(path), label_names)[1])


def read_label_hierarchy(path: str | Path, label_names: Sequence[str]) -> LabelHierarchy:
    """A hierarchy from a file: a label and its parent on each line, or a tree (see `read_taxonomy`).

    A label with several parents has several lines. The header `parent,child` says that the parent comes first.
    """
    path = Path(path)
    if not is_file(path):
        shown = str(path)[:200]
        raise DataError(
            f"{shown} is not a file; give a file of the label hierarchy, a label and its parent on each line"
        )
    try:
        if _is_tree(path):
            edges = read_tree_edges(path, label_names)
            MemoryBudget(path).check(_PER_PARENT * len(edges))
            return LabelHierarchy.checked(edges.tolist(), label_names)
        header, pairs = _named_pairs(path, label_names)
        MemoryBudget(path).check(_PER_PARENT * len(pairs))
        parent_first = [name.lower() for name in header] == ["parent", "child"]
        return LabelHierarchy.checked({pair[::-1] if parent_first else pair for pair in pairs}, label_names)
    except DataError as fault:
        raise fault if str(path) in str(fault) else DataError(f"{path}: {fault}") from None


def hierarchy_graph(hierarchy: LabelHierarchy | None) -> tuple[str, np.ndarray]:
    """The kind and the edges of the label graph in which labels exchange messages with their parents and children."""
    if hierarchy is None:
        raise DataError(
            f"the label graph {HIERARCHY!r} is that of a label hierarchy; give one (--label-hierarchy FILE)"
        )
    edges = np.array(hierarchy.edges, dtype=np.int64).reshape(-1, 2)
    return "tree" if hierarchy.has_one_parent_each else "given", edges


def _is_tree(path: Path) -> bool:
    return ".taxonomy" in path.suffixes or ".hier" in path.suffixes


def _named_pairs(path: Path, label_names: Sequence[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """The two names of the header, if there is one, and the label numbers of each line."""
    text = read_text(path)
    MemoryBudget(path).check(text_fields_size(text) + _PER_EDGE * (text.count("\n") + 1))
    place = {name: number for number, name in enumerate(label_names)}
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    header: list[str] = []
    pairs: list[tuple[int, int]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for record in reader:
            if not record or not any(field.strip() for field in record) or record[0].startswith("#"):
                continue
            names = [field.strip() for field in record[:2]]
            if len(names) < 2:
                raise FormatError(path, "an edge needs two label names", reader.line_num)
            if reader.line_num == 1 and not any(name in place for name in names):
                header = names
                continue
            for name in names:
                if name not in place:
                    close = did_you_mean(name, label_names)[:200]
                    raise FormatError(path, f"{name!r} is not one of the {len(place)} labels; {close}", reader.line_num)
            pairs.append((place[names[0]], place[names[1]]))
    except csv.Error as error:
        raise FormatError(path, f"the line cannot be split into names ({error})", reader.line_num) from None
    if not pairs:
        raise FormatError(path, "the file holds no edge; expected two label names per line", 1)
    return header, pairs


def read_taxonomy(path: str | Path) -> dict[str, str]:
    """Parent of every node, from `rcv1.taxonomy` (parent, then its children, by tabs) or LYRL2004's hierarchy.

    The second form is `rcv1.topics.hier.orig`: lines of `parent: A child: B child-description: ...`.
    """
    path = Path(path)
    parents: dict[str, str] = {}
    budget = MemoryBudget(path)
    for number, line in enumerate(read_text_lines(path, "latin-1"), start=1):
        budget.take(2 * sys.getsizeof(line) + _PER_NODE * (line.count("\t") + line.count(" ")), number)
        words = line.split()
        if not words:
            continue
        if words[0] == "parent:":
            if len(words) < 4 or words[2] != "child:":
                raise FormatError(path, "expected 'parent: A child: B child-description: ...'", number)
            pairs = [(words[1], words[3])] if words[1] != "None" else []
        else:
            if len(words) < 2:
                raise FormatError(path, "expected a parent and its children, separated by tabs", number)
            pairs = [(words[0], child) for child in words[1:]]
        for parent, child in pairs:
            if parents.get(child, parent) != parent:
                raise FormatError(path, f"{child!r} has two parents, {parents[child]!r} and {parent!r}", number)
            parents[child] = parent
    if not parents:
        raise FormatError(path, "the file holds no parent and child", 1)
    lead_to_root: set[str] = set()  # every node is climbed from once
    for start in parents:
        climbed, node = {start}, parents[start]
        while node in parents and node not in lead_to_root:
            if node in climbed:
                raise FormatError(path, f"{node!r} is its own ancestor; a tree has no cycle")
            climbed.add(node)
            node = parents[node]
        lead_to_root |= climbed
    return parents


def read_tree_edges(path: str | Path, label_names: Sequence[str]) -> np.ndarray:
    """(child, parent) pairs of topics; the root, which is not a label, joins nothing.

    A label that the tree does not know is an error.
    """
    parents = read_taxonomy(path)
    nodes = set(parents) | set(parents.values())
    for name in label_names:
        if name not in nodes:
            raise DataError(f"{path}: the label {name!r} is not in the tree; {did_you_mean(name, nodes)[:200]}")
    place = {name: number for number, name in enumerate(label_names)}
    pairs = sorted((place[c], place[p]) for c, p in parents.items() if c in place and p in place)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)  # child first: a tree's edges have a direction


def read_string_edges(
    links: str | Path, info: str | Path, label_names: Sequence[str], *, min_score: int = 700
) -> np.ndarray:
    """Protein interactions of STRING among the labels, protein names in any case.

    `links` has two STRING ids and a score per line, `info` STRING ids and preferred names; an edge needs a combined
    score (0 to 1000) of at least `min_score`, and a protein that STRING does not know has no edges.
    """
    if not 0 <= min_score <= 1000:
        raise DataError(f"the score cut-off is {min_score}; STRING's scores are from 0 to 1000")
    mapped = string_ids(info, label_names)
    if not mapped:
        raise DataError(f"{info}: none of the {len(label_names)} labels is a protein name of STRING")
    numbers = {name: number for number, name in enumerate(label_names)}
    place = {identifier: numbers[name] for name, identifier in mapped.items()}
    path = Path(links)
    pairs: list[tuple[int, int]] = []
    for number, line in enumerate(read_text_lines(path)[1:], start=2):
        words = line.split()
        if len(words) < 3:
            if words:
                raise FormatError(path, "expected two protein ids and a score", number)
            continue
        first, second = place.get(words[0]), place.get(words[1])
        if first is None or second is None:
            continue
        if not words[-1].isdecimal() or len(words[-1]) > 9:
            raise FormatError(path, f"the score {words[-1][:20]!r} is not a whole number from 0 to 1000", number)
        if int(words[-1]) >= min_score:
            pairs.append((first, second))
    return _edges(pairs)


def string_ids(info: str | Path, label_names: Sequence[str]) -> dict[str, str]:
    """The STRING id of every label that is a preferred name or an id without its taxon number."""
    path = Path(info)
    known: dict[str, str] = {}
    systematic: dict[str, str] = {}
    lines = read_text_lines(path)[1:]
    MemoryBudget(path).check(4 * sum(map(sys.getsizeof, lines)) + _PER_PROTEIN * len(lines))
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) < 2:
            raise FormatError(path, "expected a protein id and its preferred name, separated by a tab", number)
        known.setdefault(fields[1].lower(), fields[0])
        systematic.setdefault(fields[0].partition(".")[2].lower(), fields[0])
    found = {name: known.get(name.lower(), systematic.get(name.lower())) for name in label_names}
    return {name: identifier for name, identifier in found.items() if identifier is not None}
