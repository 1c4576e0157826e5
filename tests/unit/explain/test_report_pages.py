"""What goes into the pages: escaped, small, and honest about what is left out."""

from __future__ import annotations

import base64
import json
import re
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.explain.contributions import Contribution, LogitSum, Term
from lampnet.explain.explanation import Explanation
from lampnet.explain.input_view import Node
from lampnet.explain.report.escaping import packed, script_json
from lampnet.explain.report.folder import write_folder
from lampnet.explain.report.page import report_page, text_chunks
from lampnet.explain.report.pictures import write_pictures
from lampnet.explain.report.whole_set import summarise, whole_set_data
from lampnet.inference.predictor import FittedModel

HOSTILE = [
    "</script><script>alert(1)</script>",
    "\"'`&amp;",
    "\u202eright to left",
    "שלום",
    "🙂\u2028\u2029",
    "$x_1^{$",
    "x" * 5000,
]


def logit_sum(label: str, word: str) -> LogitSum:
    """Twelve words by each of two base learners, and twelve neighbours."""
    terms = tuple(Term(name=f"{word} {i}", part="part", value=0.1) for i in range(12))
    rows = tuple(Term(name=f"training row {i}", value=0.1, labels=(word,) * 8, similarity=0.5) for i in range(12))
    of = {"start": (), "linear": terms, "forest": terms, "knn": rows, "calibration": ()}
    sources = tuple(
        Contribution(source=name, value=1.2, terms=found, n_terms=len(found), others=0.0) for name, found in of.items()
    )
    return LogitSum(label=label, logit=6.0, contributions=sources)


def explanation(labels: int = 6, nodes: int = 9, words: int = 9, seed: int = 0, **changes: Any) -> Explanation:
    """A made-up explanation of a text."""
    random = np.random.default_rng(seed)
    tokens = [f"word{i}" for i in range(words)]
    starts = np.cumsum([0, *(len(token) + 1 for token in tokens)])
    picked = np.sort(random.choice(words, nodes, replace=False))
    to_input, to_labels = random.random((2, 4, labels, nodes)), random.random((2, 4, labels, labels))
    given: dict[str, Any] = {
        "row": seed, "id": f"text {seed}", "data": "made up", "n_nodes": words, "n_labels": labels + 900,
        "input": {"kind": "text", "text": " ".join(tokens)},
        "nodes": tuple(Node(number=int(i), name=tokens[i], places=((int(starts[i]), int(starts[i]) + len(tokens[i])),))
                       for i in picked),
        "labels": tuple(f"label {i}" for i in range(labels)), "label_index": np.arange(labels),
        "stages": ("0", "1.1", "1.2", "2.1", "2.2"),
        "stage_proba": random.random((5, labels)).astype(np.float32),
        "proba": np.sort(random.random(labels).astype(np.float32))[::-1],
        "chosen": np.arange(labels) < 3, "threshold": np.full(labels, 0.5, dtype=np.float32), "rule": "threshold 0.5",
        "truth": (np.arange(labels) % 2).astype(np.float32),
        "to_input": (to_input / to_input.sum(-1, keepdims=True)).astype(np.float32),
        "to_labels": (to_labels / to_labels.sum(-1, keepdims=True)).astype(np.float32),
        "exchanges_messages": np.ones(labels, dtype=bool),
        "logit_sums": tuple(logit_sum(f"label {i}", tokens[0]) for i in range(labels)),
    }  # fmt: skip
    return Explanation(**(given | changes))


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


LEAF = st.text() | st.integers() | st.none()


@given(LEAF | st.lists(LEAF) | st.dictionaries(st.text(), LEAF | st.lists(LEAF)))
def test_json_in_a_page_cannot_end_its_element(data: Any) -> None:
    text = script_json(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == data


@given(st.lists(st.floats(0, 1), max_size=30))
def test_packed_numbers_are_exact_to_a_65535th(values: list[float]) -> None:
    whole = np.frombuffer(base64.b64decode(packed(np.array(values))), dtype="<u2") / 65535
    np.testing.assert_allclose(whole, values, atol=0.51 / 65535)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_never_becomes_markup(text: str) -> None:
    labels = (text, *(f"label {i}" for i in range(5)))
    hostile = explanation(labels=6)
    hostile = Explanation(
        **{**vars(hostile), "labels": labels, "id": text, "input": {"kind": "text", "text": text * 3},
           "logit_sums": tuple(logit_sum(label, text) for label in labels)}
    )  # fmt: skip
    page = report_page([hostile], title=text)
    shown = data_of(page)
    assert shown["rows"][0]["labels"][0] == text
    assert shown["title"] == text
    terms = {source["source"]: source["terms"] for source in shown["rows"][0]["sums"][0]["contributions"]}
    assert terms["linear"][0]["name"] == f"{text} 0"[:120]
    assert terms["knn"][0]["labels"][0] == text[:60]
    # Only the page's own two scripts, whatever the data are.
    assert page.count("<script") == 2
    assert page.count("</script>") == 2


def test_the_page_is_closed_to_the_network() -> None:
    page = report_page([explanation()])
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    addresses = set(re.findall(r"https?://[^\"'\s)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name of SVG, not an address to fetch


def test_fifty_rows_of_20000_words_and_983_labels_stay_below_5_mb() -> None:
    rows = [explanation(labels=40, nodes=256, words=20_000, seed=i) for i in range(50)]
    page = report_page(rows)
    assert len(page.encode()) < 5_000_000
    first = data_of(page)["rows"][0]
    assert first["nNodes"] == 20_000
    for source in first["sums"][0]["contributions"]:  # fewer terms are listed, and still they add up
        assert sum(term["value"] for term in source["terms"]) + source["others"] == pytest.approx(source["value"])
    assert 8 <= len(first["nodes"]) < 256
    weight = rows[0].to_input.mean(axis=1).max(axis=(0, 1))
    strongest = rows[0].nodes[int(weight.argmax())].name
    assert strongest in {node["name"] for node in first["nodes"]}


def test_no_row_is_refused() -> None:
    with pytest.raises(DataError, match="no row was given"):
        report_page([])


@given(st.integers(0, 3000), st.lists(st.tuples(st.integers(0, 2990), st.integers(1, 10)), max_size=8))
def test_long_texts_keep_the_attended_words(length: int, spans: list[tuple[int, int]]) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    places = [(a, min(a + n, length)) for a, n in spans if a + n <= length]
    chunks = text_chunks(text, places, whole=1500)
    ends = 0
    for chunk in chunks:
        assert chunk["start"] >= ends
        assert text[chunk["start"] : chunk["start"] + len(chunk["text"])] == chunk["text"]
        ends = chunk["start"] + len(chunk["text"])
    if length <= 1500:
        assert chunks == [{"start": 0, "text": text}]
    elif sum(b - a + 240 for a, b in places) < 3000:
        for a, b in places:
            assert any(p["start"] <= a and b <= p["start"] + len(p["text"]) for p in chunks)


def test_pictures_are_written_small_for_names_of_any_kind(tmp_path: Any) -> None:
    e = explanation(labels=len(HOSTILE))
    e = Explanation(**{**vars(e), "labels": tuple(HOSTILE), "id": HOSTILE[0]})
    files = write_pictures(e, tmp_path)
    assert [f.name for f in files] == [
        f"row0_{n}.{x}" for n in ("stages", "to_input", "to_labels") for x in ("png", "svg")
    ]
    for file in files:
        start = file.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else start.startswith(b"<?xml")
        assert file.stat().st_size < 250_000


def test_files_that_cannot_be_written_leave_the_old_ones(
    trained: Callable[..., FittedModel], words: Dataset, tmp_path: Path
) -> None:
    model = trained(words)
    write_folder(model, words, tmp_path / "out", [0])
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))  # as on a full disk: files end at 10 kB
    try:
        with pytest.raises(DataError, match=r"out cannot be written \(File too large\); give another folder"):
            write_folder(model, words, tmp_path / "out", [1, 2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    write_folder(model, words, tmp_path / "out", [1, 2])
    assert (tmp_path / "out" / "report.html").read_bytes() != before[tmp_path / "out" / "report.html"]


def test_the_whole_set_counts_as_a_slow_loop_does(trained: Callable[..., FittedModel]) -> None:
    random = np.random.default_rng(3)
    X = (random.random((50, 12)) < 0.5).astype(np.float32)
    X[:, 0] = 1
    Y = X[:, 1:6].copy()
    Y[random.random(Y.shape) < 0.2] = np.nan
    data = Dataset(name="words", kind="wordset", rows=sparse.csr_matrix(X), labels=sparse.csr_matrix(Y),
                   label_names=tuple("abcde"))  # fmt: skip
    model = trained(data, training__epochs=3, training__batch_size=8)
    found = summarise(model, data)
    rule = model.decisions.best["example_f1"]
    chosen = rule.apply(model.proba(data.rows))
    corrected = broken = unknown = 0
    attention = np.zeros((5, 5))
    examples = model.views(model.encoder.encode(data.rows))[0]
    for row in range(50):
        output = model.output(examples, np.array([row]))
        logits = [model.calibrated(stage.numpy())[0] for stage in output.stages]
        for before, after in ((0, 1), (2, 3)):
            was, became = (rule.apply(expit(logits[g][None]))[0] for g in (before, after))
            for label in range(5):
                if was[label] != became[label]:
                    truth = Y[row, label]
                    unknown += bool(np.isnan(truth))
                    corrected += bool(became[label] == truth)
                    broken += bool(was[label] == truth)
        weights = np.mean([x[0].mean(0).numpy() for x in output.to_labels or []], axis=0)
        for label in range(5):
            if chosen[row, label] or Y[row, label] == 1:
                attention[label] += weights[label] * (np.arange(5) != label)
    assert [sum(step[kind] for step in found.changed) for kind in ("corrected", "broken", "unknown")] == [
        corrected, broken, unknown,
    ]  # fmt: skip
    np.testing.assert_allclose(found.attention * found.positives[:, None], attention, atol=1e-4)
    written = whole_set_data(found)
    json.dumps(written, allow_nan=False)
    confused = {(i, j): n for i, j, n in written["confusions"]}
    for i in range(5):
        for j in range(5):
            slow = sum(bool(Y[r, i] == 1 and not chosen[r, i] and Y[r, j] == 0 and chosen[r, j]) for r in range(50))
            assert confused.get((i, j), 0) == slow
    for label, true, given_to, precision, *_ in written["perLabel"]:
        assert true == int(np.nansum(Y[:, label]))
        assert given_to == int(chosen[:, label].sum())
        scored = chosen[:, label] & ~np.isnan(Y[:, label])
        if scored.any():
            assert precision == pytest.approx(Y[scored, label].mean(), abs=1e-4)
