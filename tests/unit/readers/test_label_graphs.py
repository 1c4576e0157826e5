"""One reading of whatever the user calls a label graph, for the command line and the estimator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lampnet.errors import DataError
from lampnet.readers.label_edges import label_graph_edges
from lampnet.readers.sources import Source, prior_graph

LABELS = ("GCN4", "TBP", "SPT15")


def test_kinds_without_edges() -> None:
    for kind in ("edgeless", "full", "cooccurrence"):
        assert label_graph_edges(kind, LABELS) == (kind, None)
    assert label_graph_edges("prior", LABELS) == ("cooccurrence", None)
    assert prior_graph("prior", Source(data="digits"), LABELS) == ("cooccurrence", None)


def test_the_data_sets_own_graph() -> None:
    own = ("tree", lambda: np.array([[1, 0]]))
    for asked in ("prior", "tree"):
        kind, edges = label_graph_edges(asked, LABELS, own)
        assert kind == "tree"
        assert edges is not None
        assert edges.tolist() == [[1, 0]]
    for given in (own, None):
        with pytest.raises(DataError, match="'given' needs edges"):
            label_graph_edges("given", LABELS, given)


def test_files_are_recognised_by_their_names(tmp_path: Path) -> None:
    def edges(name: str, text: str) -> tuple[str, list[list[int]]]:
        (tmp_path / name).write_text(text)
        kind, found = label_graph_edges(tmp_path / name, LABELS)
        assert found is not None
        return kind, found.tolist()

    assert edges("a.taxonomy", "Root\tGCN4\nGCN4\tTBP\tSPT15\n") == ("tree", [[1, 0], [2, 0]])
    lines = "".join(f"parent: {a} child: {b} child-description: x\n" for a, b in (("Root", "GCN4"), ("GCN4", "TBP")))
    assert edges("t.hier.orig", lines + "parent: TBP child: SPT15 child-description: y\n") == ("tree", [[1, 0], [2, 1]])
    assert edges("edges.csv", "TBP,GCN4\n") == ("given", [[0, 1]])
    links = "4932.protein.links.v12.0.txt"
    with pytest.raises(DataError, match=r"\*\.protein\.info\*"):
        edges(links, "protein1 protein2 combined_score\n4932.A 4932.C 900\n")
    (tmp_path / "4932.protein.info.v12.0.txt").write_text("id\tname\n4932.A\tGCN4\n4932.B\tTBP\n4932.C\tSPT15\n")
    assert edges(links, "protein1 protein2 combined_score\n4932.A 4932.C 900\n") == ("given", [[0, 2]])
    with pytest.raises(DataError, match="did you mean 'full'"):
        label_graph_edges("ful", LABELS)
