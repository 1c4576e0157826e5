"""Rows of several parts: the same nodes and features as each part alone, whoever lacks a part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.config import InputConfig
from lampnet.data.dataset import Table
from lampnet.data.named_columns import part_rows
from lampnet.data.parts import Part, PartRows
from lampnet.encoders import make_encoder
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.parts import PartsEncoder
from lampnet.errors import DataError
from lampnet.runtime.random_bytes import RandomBytes

CONFIG = InputConfig(min_count=1)
WORDS = ("storm", "sea", "war", "love", "")
ROWS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
        st.one_of(st.none(), st.floats(-5, 5)),
        st.one_of(st.none(), st.sampled_from(["US", "NZ"])),
        st.one_of(st.none(), st.sampled_from(["CCO", "C", "c1ccccc1"])),
        st.one_of(st.none(), st.lists(st.floats(-1, 1), min_size=2, max_size=2)),
    ),
    min_size=1,
    max_size=6,
)
ROLES = (("plot", "text"), ("year", "number"), ("country", "category"), ("drug", "smiles"), ("v", "vector"))
KNOWN = ("storm sea war love", 1.0, "US", "CCO", [0.5, -0.5])


def columns(rows):
    return {name: list(values) for (name, _), values in zip(ROLES, zip(*rows, strict=True), strict=True)}


@settings(deadline=None, max_examples=25)
@given(ROWS)
def test_a_row_is_its_parts_side_by_side(rows) -> None:
    """A slow reference: every row's nodes and features, part by part, are those of the part's encoder alone."""
    rows = part_rows(columns([KNOWN, *rows]), ROLES)
    encoder = PartsEncoder(CONFIG).fit(rows)
    encoded = encoder.encode(rows)
    features = encoded.features.toarray()
    for row in range(len(rows)):
        begin, names = 0, []
        for number, (part, own) in enumerate(zip(rows.parts, encoder.part_encoders, strict=True)):
            width = own.encode(part.rows).features.shape[1]
            block = features[row, begin : begin + width]
            begin += width
            place = part.place(row)
            if place < 0:
                assert not block.any()
                continue
            alone = own.encode(part.take(np.array([row])).rows)
            found = alone.features.toarray() if sparse.issparse(alone.features) else alone.features
            np.testing.assert_allclose(block, found[0] * encoder.scale[number], rtol=1e-5, atol=1e-6)
            names += alone.node_names(0)
        assert begin == features.shape[1]
        assert len(encoded.node_names(row)) == len(names) == len(encoded.node_places(row))
        for shown, name in zip(encoded.node_names(row), names, strict=True):
            assert shown.endswith(name.rpartition("=")[2]) or shown.startswith(name)


def test_each_part_of_the_features_has_a_mean_square_length_of_one() -> None:
    random = np.random.default_rng(0)
    table = Part(
        name="", kind="columns", rows=Table(values=random.normal(50, 9, (40, 30)), names=tuple(map(str, range(30))))
    )
    text = Part(name="t", kind="text", rows=[" ".join(random.choice(WORDS[:4], 3)) for _ in range(40)])
    rows = PartRows((table, text))
    features = PartsEncoder(CONFIG).fit(rows).encode(rows).features.toarray()
    for block in (features[:, :30], features[:, 30:]):
        assert np.square(block).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)


def test_bonds_stay_bonds_and_everything_else_is_joined() -> None:
    rows = part_rows({"t": ["red sea", "sea", ""], "m": ["CCO", None, "CO"]}, (("t", "text"), ("m", "smiles")))
    encoder = PartsEncoder(CONFIG).fit(rows)
    plain = encoder.edge_types  # the last type, counted from one in a batch
    _, present, edges = encoder.embedding(8)(encoder.encode(rows).nodes.batch(np.arange(3)))
    assert present.sum(1).tolist() == [5, 1, 2]
    single = 1
    bonds = torch.tensor([[0, single, 0], [single, 0, single], [0, single, 0]], dtype=torch.int8)
    assert torch.equal(edges[0, 2:5, 2:5], bonds)
    assert (edges[0, :2, :5] == plain).all()
    assert (edges[0, :5, :2] == plain).all()
    assert edges[1].count_nonzero() == 1
    assert edges[2].tolist() == [[0, single, 0, 0, 0], [single, 0, 0, 0, 0], *[[0] * 5] * 3]


def test_messages_pass_among_the_nodes_of_all_parts() -> None:
    """A network with feature messages: a word changes the state of an atom's row, and padding changes nothing."""
    from lampnet.config import Config
    from lampnet.model.build import build_member

    rows = part_rows({"t": ["red sea", "sea sea red", ""], "m": ["CCO", None, "CO"]}, (("t", "text"), ("m", "smiles")))
    encoder = PartsEncoder(CONFIG).fit(rows)
    config = Config.preset("fast").updated({"model.width": 8, "model.feature_steps": 2, "model.base_learners": "none"})
    network = build_member(config.resolved("parts", 3, 4), 4, encoder, None).eval()
    nodes = encoder.encode(rows).nodes
    with torch.inference_mode():
        whole = network(nodes.batch(np.arange(3))).stages[-1]
        for row in range(3):
            torch.testing.assert_close(network(nodes.batch(np.array([row]))).stages[-1][0], whole[row])


def test_node_dropout_leaves_every_part_a_node() -> None:
    words = NodeRows(offsets=np.array([0, 5, 10]), ids=np.arange(10, dtype=np.int32))
    batch = NodeRows.of_parts([words, words]).batch(np.arange(2)).with_node_dropout(0.9, RandomBytes(0))
    for part in batch.parts:
        assert (part.present_BS.sum(1) >= 1).all()
    assert sum(int(part.present_BS.sum()) for part in batch.parts) < 20


def test_a_part_that_teaches_nothing_is_left_out_and_said() -> None:
    columns = {"name": ["anna", "bert", "carl"], "t": ["a b", "a c", "b c"], "m": [None, None, None]}
    rows = part_rows(columns, (("name", "text"), ("t", "text"), ("m", "smiles")))
    with pytest.warns(UserWarning, match="not used") as caught:
        encoder = make_encoder("parts", InputConfig(min_count=2)).fit(rows)
    assert sorted(str(one.message).split(";")[0].split(":")[0] for one in caught) == [
        "no training row has the part 'm'",
        "the part 'name' is not used",
    ]
    assert encoder.names == ("t",)
    assert encoder.encode(rows).node_names(0) == ["t: a", "t: b"]


def test_faults_name_their_part() -> None:
    rows = part_rows({"t": ["a", "a"], "drug": ["CCO", "no molecule"]}, (("t", "text"), ("drug", "smiles")))
    with pytest.raises(DataError, match=r"^the part 'drug': row 1: 'no molecule' is not valid SMILES"):
        PartsEncoder(CONFIG).fit(rows)
    good = part_rows({"t": ["a", "a"], "n": [1, 2]}, (("t", "text"), ("n", "number")))
    encoder = PartsEncoder(CONFIG).fit(good)
    with pytest.raises(DataError, match="the part 't' of the rows is not there"):
        encoder.encode(PartRows(good.parts[1:]))
    with pytest.raises(DataError, match="rows of several parts are `PartRows`, not list"):
        encoder.encode(["a"])
    with pytest.raises(DataError, match="feature graph"):
        encoder.encode(good, [np.zeros((0, 2), int)] * 2)
    with pytest.raises(DataError, match="the same rows"):
        PartRows((good.parts[0], good.parts[1].take(np.array([0]))))


def test_dates_are_shown_as_days() -> None:
    columns = {"t": ["a", "a", "a"], "day": ["2024-02-29", "1999-12-31", None], "year": [1999, 2001, None]}
    rows = part_rows(columns, (("t", "text"), ("day", "date"), ("year", "number")))
    encoded = PartsEncoder(CONFIG).fit(rows).encode(rows)
    assert encoded.node_names(0) == ["t: a", "day = 2024-02-29", "year = 1999"]
    assert encoded.node_names(1) == ["t: a", "day = 1999-12-31", "year = 2001"]
    assert encoded.node_names(2) == ["t: a", "day (missing)", "year (missing)"]
