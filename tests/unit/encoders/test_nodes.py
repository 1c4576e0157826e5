"""Batches, node dropout and known edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.encoders.nodes import NodeRows, sinusoidal, with_edges
from lampnet.errors import DataError
from lampnet.runtime.random_bytes import RandomBytes


def rows_of(lengths, edges=False):
    """Every node carries its own number in all its parts."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    number = np.arange(offsets[-1])
    nodes = NodeRows(
        offsets=offsets,
        ids=number.astype(np.int32),
        values=number.astype(np.float32),
        vectors=np.column_stack([number, number]).astype(np.float32),
        positions=number.astype(np.int32)[:, None],
    )
    if not edges:
        return nodes
    chains = [np.column_stack([np.arange(n - 1), np.arange(1, n)]) if n > 1 else np.zeros((0, 2)) for n in lengths]
    return with_edges(nodes, [chain.astype(int) for chain in chains])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 0.95]))
@settings(max_examples=60, deadline=None)
def test_thinning_keeps_order_parts_and_a_last_node(lengths, seed, chance):
    nodes = rows_of(lengths, edges=True)
    whole = nodes.batch(np.arange(len(lengths)))
    thin = whole.with_node_dropout(chance, RandomBytes(seed))
    assert thin.present_BS.shape[1] == max(1, int(thin.present_BS.sum(1).max()))
    for row, count in enumerate(lengths):
        kept = thin.ids_BS[row][thin.present_BS[row]].tolist()
        own = whole.ids_BS[row][whole.present_BS[row]].tolist()
        assert thin.present_BS[row, : len(kept)].all()
        assert kept == sorted(kept)
        assert set(kept) <= set(own)
        assert bool(kept) == (count > 0)
        assert thin.values_BS[row, : len(kept)].tolist() == kept
        assert thin.vectors_BSF[row, : len(kept), 1].tolist() == kept
        assert thin.positions_BSP[row, : len(kept), 0].tolist() == kept
        for i, a in enumerate(kept):
            for j, b in enumerate(kept):
                assert int(thin.edge_types_BSS[row, i, j]) == int(abs(a - b) == 1)
        assert not thin.edge_types_BSS[row, len(kept) :].any()
        assert not thin.edge_types_BSS[row, :, len(kept) :].any()


def test_thinning_drops_with_the_given_chance_and_spares_no_node_always():
    batch = rows_of([200] * 100).batch(np.arange(100))
    kept = batch.with_node_dropout(0.25, RandomBytes(1)).present_BS.sum().item() / 20_000
    assert abs(kept - 0.75) < 0.02
    pairs = rows_of([2] * 4_000).batch(np.arange(4_000))
    thin = pairs.with_node_dropout(0.9, RandomBytes(2))
    lonely = thin.ids_BS[thin.present_BS.sum(1) == 1, 0] % 2
    assert abs(float(lonely.float().mean()) - 0.5) < 0.05
    assert pairs.with_node_dropout(0.0, RandomBytes(2)) is pairs


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.data())
@settings(max_examples=40, deadline=None)
def test_edges_of_a_batch_agree_with_a_loop(lengths, data):
    row_edges = []
    for n in lengths:
        pair = st.tuples(st.integers(0, max(0, n - 1)), st.integers(0, max(0, n - 1)))
        row_edges.append(np.array(data.draw(st.lists(pair, max_size=6 if n else 0)), dtype=int).reshape(-1, 2))
    nodes = with_edges(rows_of(lengths), row_edges)
    index = np.array(data.draw(st.permutations(range(len(lengths)))))
    batch = nodes.batch(index)
    expected = torch.zeros_like(batch.edge_types_BSS)
    for b, row in enumerate(index):
        for i, j in row_edges[row]:
            expected[b, i, j] = expected[b, j, i] = 1
    assert torch.equal(batch.edge_types_BSS, expected)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[[0, 3]]], "row 0: an edge names node 3, but the row has 3 nodes"),
        ([[[-1, 0]]], "names node -1"),
        ([[[0.5, 1.0]]], "whole numbers"),
        ([[[0, 1, 2]]], r"shape \(1, 3\)"),
        ([], "1 rows were given with 0 lists"),
    ],
)
def test_impossible_edges_are_refused(edges, message):
    with pytest.raises(DataError, match=message):
        with_edges(rows_of([3]), [np.array(e) for e in edges])


def test_places_differ_and_share_the_width():
    codes = sinusoidal(torch.tensor([[[0, 0], [0, 1], [1, 0]]]), 10)
    assert codes.shape == (1, 3, 10)
    assert not torch.allclose(codes[0, 1], codes[0, 2])
    torch.testing.assert_close(codes[0, 0], torch.tensor([0.0, 1.0] * 4 + [0.0, 0.0]))
    with pytest.raises(DataError, match="too small"):
        sinusoidal(torch.zeros(1, 1, 2), 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6), st.data())
def test_rows_taken_and_joined_are_those_rows(shape: list[tuple[int, int]], data: st.DataObject) -> None:
    """Against slices, row by row; with numbers of nodes and edges that may be none."""
    nodes, edges = zip(*shape, strict=True)
    rows = NodeRows(
        offsets=np.cumsum([0, *nodes]),
        ids=np.arange(sum(nodes), dtype=np.int32),
        positions=np.arange(2 * sum(nodes), dtype=np.int32).reshape(-1, 2),
        edges=np.arange(3 * sum(edges), dtype=np.int32).reshape(-1, 3),
        edge_offsets=np.cumsum([0, *edges]),
    )
    first, second = (np.array(data.draw(st.lists(st.integers(0, len(shape) - 1), max_size=5)), int) for _ in range(2))
    whole = NodeRows.joined([rows.take(first), rows.take(second)])
    assert whole.values is None
    for place, row in enumerate([*first, *second]):
        for name, starts in (("ids", "offsets"), ("positions", "offsets"), ("edges", "edge_offsets")):
            then, now = getattr(rows, starts), getattr(whole, starts)
            expected = getattr(rows, name)[then[row] : then[row + 1]]
            np.testing.assert_array_equal(getattr(whole, name)[now[place] : now[place + 1]], expected)
    assert len(whole) == len(first) + len(second)
