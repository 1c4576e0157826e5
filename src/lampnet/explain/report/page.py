"""One self-contained page for a few explained rows.

The page states what it leaves out: where there are many labels and nodes, the nodes with least attention go
first, until the page stays under `MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import DataError
from lampnet.explain.contributions import LogitSum, Term
from lampnet.explain.explanation import Explanation, strongest
from lampnet.explain.faithfulness import Faithfulness
from lampnet.explain.input_view import Node
from lampnet.explain.report.escaping import fill, packed
from lampnet.runtime.atomic_files import replace_files

#: A page of fifty rows must stay below 5 MB; style, script and slack are counted off.
MOST_BYTES = 4_400_000
NODE_LIMITS = (128, 96, 64, 48, 32, 24, 16, 8)
#: Text beyond this many characters is shown around the attended words only.
WHOLE_TEXT = 12_000
_CONTEXT = 120
#: terms listed of each source, at most; fewer where the sums would take more bytes than this
MOST_TERMS, TERM_BYTES = 8, 1_600_000
#: what one term takes, with a name that is not long
_BYTES_OF_TERM = 110
#: Longer names are cut and end with an ellipsis.
LONGEST_NAME = 5_000


def report_page(
    explanations: Sequence[Explanation],
    *,
    faithfulness: Faithfulness | None = None,
    title: str | None = None,
    test_set_link: str | None = None,
) -> str:
    """The HTML of a page for at least one row, with the checks of the same rows and a link to the whole test set.

    The title is by default the data set's name, the link is a file name.
    """
    if not explanations:
        raise DataError("no row was given to explain; give at least one")
    title = title or f"{explanations[0].data}: why these labels"
    data = page_data(explanations, faithfulness, title, test_set_link)
    return fill("report.html", title, data, ("shared.js", "inputs.js", "network.js", "waterfall.js", "report.js"))


def write_report(path: str | Path, explanations: Sequence[Explanation], **options: Any) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    path = Path(path)
    replace_files({path: (report_page(explanations, **options).encode(),)})
    return path


def page_data(
    explanations: Sequence[Explanation], faithfulness: Faithfulness | None, title: str, test_set_link: str | None
) -> dict[str, Any]:
    """What the page's script reads, as JSON data."""
    terms = _term_limit(explanations)
    limit = _node_limit(explanations, terms)
    return {
        "title": title,
        "kind": explanations[0].input["kind"],
        "rule": explanations[0].rule,
        "stages": list(explanations[0].stages),
        "heads": explanations[0].heads,
        "steps": explanations[0].steps,
        "rows": [row_data(e, limit, terms) for e in explanations],
        "faithfulness": None if faithfulness is None else faithfulness.to_json(),
        "testSet": test_set_link,
    }


def row_data(e: Explanation, node_limit: int, term_limit: int) -> dict[str, Any]:
    """One row for the page: the `node_limit` most attended nodes, attention packed as (T, H, K, N) and (T, H, K, K)."""
    kept = strongest(e.to_input.mean(axis=1), node_limit)
    nodes = [e.nodes[i] for i in kept]
    return {
        "row": e.row,
        "id": _cut(e.id),
        "note": e.note,
        "labels": [_cut(name) for name in e.labels],
        "nLabels": e.n_labels,
        "nNodes": e.n_nodes,
        "nodes": [{"name": _cut(n.name), "places": list(map(list, n.places)), "value": n.value} for n in nodes],
        "stages": np.round(e.stage_proba.astype(float), 4).tolist(),
        "proba": np.round(e.proba.astype(float), 6).tolist(),
        "chosen": e.chosen.tolist(),
        "threshold": np.round(e.threshold.astype(float), 4).tolist(),
        "truth": e.truth_json(),
        "known": e.known_json(),
        "whatIf": None if e.what_if is None else packed(e.what_if),
        "exchangesMessages": e.exchanges_messages.tolist(),
        "toInput": packed(e.to_input[..., kept]),
        "toLabels": packed(e.to_labels),
        "input": _shown_input(e.input, nodes),
        "supports": None if e.steps else supports(e, nodes).tolist(),
        "sums": [_sum_data(one, term_limit) for one in e.logit_sums],
    }


def supports(e: Explanation, nodes: Sequence[Node]) -> np.ndarray:
    """What the listed features of the base learners that lie in each node say for each label, (K, N), 0 or more."""
    found = np.zeros((len(e.labels), len(nodes)))
    for k, one in enumerate(e.logit_sums):
        terms = [term for source in one.contributions for term in source.terms if term.similarity is None]
        for term in terms:
            lying = [n for n, node in enumerate(nodes) if _lies_in(term, node)]
            found[k, lying] += max(0.0, term.value) / max(1, len(lying))
    return np.round(found, 4)


def _lies_in(term: Term, node: Node) -> bool:
    """Whether a feature counts something of a node; nodes of a part begin with its name."""
    named = node.name.removeprefix(f"{term.part}: ")
    if term.part and named == node.name:  # a column, which has no place
        return node.name in (term.name, term.part) or node.name.startswith(f"{term.part} = ")
    return named == term.name or bool({*term.places} & {*node.places})


def _sum_data(one: LogitSum, most: int) -> dict[str, Any]:
    """A label's sum with at most this many terms of each source."""

    def term(term: Term) -> dict[str, Any]:
        labels = [name[:60] for name in term.labels[:5]]
        named = {"name": term.name[:120], "part": term.part[:60], "value": round(term.value, 4)}
        return named | {"labels": labels, "similarity": None if term.similarity is None else round(term.similarity, 3)}

    return {
        "logit": round(one.logit, 5),
        "contributions": [
            {
                "source": source.source,
                "value": round(source.value, 5),
                "terms": [term(t) for t in source.terms[:most]],
                "nTerms": source.n_terms,
                "others": round(source.value - sum(t.value for t in source.terms[:most]), 5),
            }
            for source in one.contributions
        ],
    }


def _term_limit(explanations: Sequence[Explanation]) -> int:
    """Terms of each source that leave room for everything else."""
    sources = sum(bool(source.terms) for e in explanations for one in e.logit_sums for source in one.contributions)
    return int(np.clip(TERM_BYTES // (_BYTES_OF_TERM * max(1, sources)), 1, MOST_TERMS))


def _node_limit(explanations: Sequence[Explanation], terms: int) -> int:
    """The largest limit with which the whole page stays small enough."""

    def size(e: Explanation, limit: int) -> float:
        by_label = len(e.labels) * e.steps * e.heads * 2.7
        sums = sum(80 + terms * _BYTES_OF_TERM for one in e.logit_sums for _ in one.contributions)
        fixed = len(e.labels) * (by_label + len(e.labels) * 5.4) + sums + len(str(e.input)[: WHOLE_TEXT * 2]) + 2_000
        return fixed + min(len(e.nodes), limit) * (by_label + 60)

    fitting = (limit for limit in NODE_LIMITS if sum(size(e, limit) for e in explanations) <= MOST_BYTES)
    return next(fitting, NODE_LIMITS[-1])


def _shown_input(shown: dict[str, Any], nodes: Sequence[Any]) -> dict[str, Any]:
    kind = shown["kind"]
    if kind == "text":
        return {"kind": kind, "chunks": text_chunks(shown["text"], [place for node in nodes for place in node.places])}
    if kind == "molecule":
        from lampnet.explain.report.molecule import molecule_drawing

        return {"kind": kind, "smiles": _cut(shown["smiles"]), "drawing": molecule_drawing(shown["smiles"])}
    return shown


def text_chunks(text: str, places: Sequence[tuple[int, ...]], whole: int = WHOLE_TEXT) -> list[dict[str, Any]]:
    """The text as chunks {start, text}; a long one only around its attended words.

    Places are counted in code points, as Python does; the page counts the same way.

    >>> text_chunks("short", [])
    [{'start': 0, 'text': 'short'}]
    >>> [chunk["start"] for chunk in text_chunks("x" * 1000, [(500, 501)], whole=10)]
    [380]
    """
    if len(text) <= whole:
        return [{"start": 0, "text": text}]
    spans = sorted((max(0, a - _CONTEXT), min(len(text), b + _CONTEXT)) for a, b in places)
    joined: list[list[int]] = []
    for a, b in spans:
        if joined and a <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], b)
        else:
            joined.append([a, b])
    chunks, used = [], 0
    for a, b in joined or [[0, whole]]:
        b = min(b, a + max(0, 2 * whole - used))
        if b > a:
            chunks.append({"start": a, "text": text[a:b]})
            used += b - a
    return chunks


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"
