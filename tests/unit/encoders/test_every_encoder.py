"""What every input kind promises: one row alone equals the row in a batch, and saving changes nothing."""

from __future__ import annotations

import io
import json
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import InputConfig
from lampnet.data.dataset import KINDS, Dataset, Table
from lampnet.data.parts import Part, PartRows
from lampnet.encoders import make_encoder, restore_encoder
from lampnet.errors import DataError

random = np.random.default_rng(0)
SETTINGS = {"max_nodes": 64, "min_count": 1, "filter_bases": 5, "pool": 3}
TEXTS = ["the cat sat on the mat", "a dog!", "the dog and the cat ran, and ran", "", "zebra the cat"]
MIXED = Table(
    values=np.column_stack([random.normal(3, 2, 5), [0, 1, np.nan, 1, 0], [1.0, np.nan, 2, 3, 4]]),
    names=("size", "colour", "age"),
    categories={1: ("red", "blue")},
)
CASES = {
    "wordset": ("wordset", {}, sparse.random_array((5, 9), density=0.4, rng=random, format="csr")),
    "text set": ("text", {}, TEXTS),
    "text sequence": ("text", {"text_nodes": "sequence"}, TEXTS),
    "text chunks": ("text", {"tokenizer": "bpe", "vocabulary": 30, "text_nodes": "sequence"}, TEXTS),
    "vector": ("vector", {}, random.normal(5, 2, (5, 7))),
    "columns": ("columns", {}, MIXED),
    "dna": ("dna", {}, random.integers(0, 5, (5, 20), dtype=np.uint8)),
    "molecule": ("molecule", {}, ["CCO", "c1ccccc1C(=O)O", "C", "[Na+].[Cl-]", "C#N"]),
    "image": ("image", {}, random.integers(0, 256, (5, 24, 24), dtype=np.uint8)),
    "colour image": ("image", {"patch": 5}, list(random.integers(0, 256, (5, 13, 17, 3), dtype=np.uint8))),
}
MOLECULES = Part(name="m", kind="molecule", rows=["CCO", "c1ccccc1", "C"], where=np.array([0, -1, 1, 2, -1]))
PLAIN = Part(name="", kind="columns", rows=MIXED)
TITLE, BODY = (Part(name=name, kind="text", rows=texts) for name, texts in (("t", TEXTS), ("b", TEXTS[::-1])))
VECTOR = Part(name="v", kind="vector", rows=random.normal(5, 2, (5, 3)))
ROLES = (("t", "text"), ("b", "text"), ("size", "number"), ("colour", "category"), ("age", "date"), ("m", "smiles"))
CASES["parts"] = ("parts", {}, PartRows((TITLE, BODY, PLAIN, MOLECULES), ROLES))
CASES["parts without a graph"] = ("parts", {"text_nodes": "sequence"}, PartRows((TITLE, PLAIN, VECTOR)))
CASES["dense parts"] = ("parts", {}, PartRows((PLAIN, VECTOR, MOLECULES)))
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def fitted(case):
    kind, settings, rows = case
    return make_encoder(kind, InputConfig(**{**SETTINGS, **settings})).fit(rows), rows


def length(rows):
    return rows.shape[0] if hasattr(rows, "shape") else len(rows)


def one_row(rows, row):
    return [rows[row]] if isinstance(rows, list) else rows[[row]]


def same_nodes(a, b):
    assert len(a.parts) == len(b.parts)
    for left, right in zip(a.parts, b.parts, strict=True):
        same_nodes(left, right)
    for name in ("offsets", "ids", "values", "vectors", "positions", "edges", "edge_offsets"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype


def test_every_kind_has_a_case():
    assert {kind for kind, _, _ in CASES.values()} == set(KINDS)


@ALL
def test_padding_and_company_do_not_change_a_rows_nodes(case):
    encoder, rows = fitted(case)
    torch.manual_seed(0)
    module = encoder.embedding(16).eval()
    nodes = encoder.encode(rows).nodes
    together, present, edges = module(nodes.batch(np.arange(length(rows))))
    assert together.shape[2] == 16
    for row in range(length(rows)):
        alone, own, own_edges = module(encoder.encode(one_row(rows, row)).nodes.batch(np.array([0])))
        count = int(own.sum())
        assert count == int(present[row].sum()) == len(encoder.encode(rows).node_names(row))
        torch.testing.assert_close(alone[0, :count], together[row, :count])
        assert present[row, :count].all()
        if edges is not None:
            assert torch.equal(own_edges[0, :count, :count], edges[row, :count, :count])


@ALL
def test_rows_that_were_divided_and_joined_are_the_rows(case):
    kind, _, rows = case
    encoder, _ = fitted(case)
    labels = sparse.csr_matrix(random.integers(0, 2, (5, 3)).astype(np.float32))
    ids, edges = tuple("abcde"), tuple(np.full((i, 2), i) for i in range(5))
    data = Dataset(name="x", kind=kind, rows=rows, labels=labels, label_names=("p", "q", "r"), ids=ids, row_edges=edges)
    order = np.array([3, 0, 4, 1, 2])
    whole, joined = data.take(order), Dataset.joined([data.take(order[:2]), data.take(order[2:])])
    same_nodes(encoder.encode(whole.rows).nodes, encoder.encode(joined.rows).nodes)
    np.testing.assert_array_equal(whole.indicator(), joined.indicator())
    assert joined.ids == whole.ids == tuple("daebc")
    assert [len(pairs) for pairs in joined.row_edges] == [3, 0, 4, 1, 2]


@ALL
def test_saving_and_restoring_changes_nothing(case):
    encoder, rows = fitted(case)
    state = json.loads(json.dumps(encoder.state()))
    file = io.BytesIO()
    np.savez(file, **encoder.arrays())
    file.seek(0)
    arrays = dict(np.load(file))
    again = restore_encoder(encoder.kind, encoder.config, state, arrays)
    same_nodes(encoder.encode(rows).nodes, again.encode(rows).nodes)
    assert [again.encode(rows).node_names(r) for r in range(5)] == [
        encoder.encode(rows).node_names(r) for r in range(5)
    ]
    left, right = encoder.encode(rows).features, again.encode(rows).features
    dense = (lambda x: x.toarray()) if sparse.issparse(left) else np.asarray
    np.testing.assert_array_equal(dense(left), dense(right))
    assert np.isfinite(dense(left)).all()
    assert left.shape[0] == 5
    mine, theirs = encoder.embedding(16).state_dict(), again.embedding(16).state_dict()
    assert {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in theirs.items()}


@ALL
def test_damaged_state_is_refused_not_a_crash(case):
    encoder, _ = fitted(case)
    kind, config, state, arrays = encoder.kind, encoder.config, encoder.state(), encoder.arrays()
    for key in state:
        for junk in (-1, "text", [1, 2], {"a": 1}, 10**12, None, True):
            if key == "merges" and junk is None:
                continue  # no merges is how word-level vocabularies look
            with pytest.raises(DataError):
                restore_encoder(kind, config, {**state, key: junk}, arrays)
        if key != "merges":
            with pytest.raises(DataError):
                restore_encoder(kind, config, {k: v for k, v in state.items() if k != key}, arrays)
    for key, value in arrays.items():
        longer = np.concatenate([value, value])
        damaged = [longer, value.astype(np.complex64), value[None], np.array("x"), None]
        if value.dtype.kind == "f" and len(value):
            damaged.append(np.full_like(value, np.nan))
        for junk in damaged if len(value) else damaged[1:]:
            with pytest.raises(DataError):
                restore_encoder(kind, config, state, {**arrays, key: junk})
        with pytest.raises(DataError):
            restore_encoder(kind, config, state, {k: v for k, v in arrays.items() if k != key})
    with pytest.raises(DataError):
        restore_encoder(kind, config, [], arrays)


@ALL
def test_a_module_is_made_without_memory_and_starts_with_unit_spread(case):
    encoder, rows = fitted(case)
    with torch.device("meta"):
        assert all(p.is_meta for p in encoder.embedding(16).parameters())
    module = encoder.embedding(16)
    nodes = encoder.encode(rows).nodes
    if encoder.kind == "dna":  # its motifs keep their random start
        before = {k: v.clone() for k, v in module.state_dict().items()}
        module.spectral_start(nodes, 3)
        assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
        assert not module.allows_node_dropout
        return
    module.spectral_start(nodes, 3)
    first = {k: v.clone() for k, v in module.state_dict().items()}
    with torch.inference_mode():
        z, present, _ = module(nodes.batch(np.arange(5)))
    assert 0.5 < z[present].std().item() < 2
    module.spectral_start(nodes, 3)
    # Vectors that are not spectral keep their random start, so compare what a second start sets again.
    for key, value in module.state_dict().items():
        torch.testing.assert_close(value, first[key])
    assert module.allows_node_dropout


@ALL
def test_every_weight_gets_a_gradient(case):
    encoder, rows = fitted(case)
    module = encoder.embedding(16)
    z, present, _ = module(encoder.encode(rows).nodes.batch(np.arange(5)))
    (z * present.unsqueeze(-1)).square().sum().backward()
    for name, weight in module.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


@ALL
def test_no_rows_give_no_nodes(case):
    encoder, rows = fitted(case)
    nothing = [] if isinstance(rows, list) else rows[np.zeros(0, dtype=int)]
    assert len(encoder.encode(nothing).nodes) == 0
    assert encoder.encode(nothing).features.shape == (0, encoder.encode(rows).features.shape[1])
    with pytest.raises(DataError):
        make_encoder(encoder.kind, encoder.config).fit(nothing)


def test_unknown_kinds_are_refused():
    with pytest.raises(DataError, match="did you mean 'image'"):
        make_encoder("imagee", InputConfig())


@pytest.mark.parametrize(("kind", "settings"), [("wordset", {}), ("text", {}), ("text", {"text_nodes": "sequence"})])
def test_long_rows_are_cut_and_counted(kind, settings):
    rows = ["one two three four five", "one two", "one two three four"]
    if kind == "wordset":
        rows = sparse.csr_matrix(np.array([[1, 2, 3, 4, 5], [1, 1, 0, 0, 0], [4, 3, 2, 1, 0.0]]))
    encoder = make_encoder(kind, InputConfig(max_nodes=3, min_count=1, tfidf=False, **settings)).fit(rows)
    with pytest.warns(UserWarning, match="2 of 3 rows had more than 3 nodes") as caught:
        nodes = encoder.encode(rows).nodes
    assert len(caught) == 1
    assert nodes.lengths().tolist() == [3, 2, 3]
    if kind == "wordset":
        assert nodes.values[:3].tolist() == [3, 4, 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(rows[1:2])
