"""DNA windows: convolution, pooling, both strands, k-mers."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.config import Config, InputConfig
from lampnet.data.dna_bases import BASES, encode_bases
from lampnet.encoders.dna import GAPPED_WEIGHT, KMER, DnaEncoder, reverse_complement
from lampnet.encoders.nodes import NodeRows, with_edges
from lampnet.errors import ConfigError, DataError

random = np.random.default_rng(0)
PAIR = dict(zip("ACGTN", "TGCAN", strict=True))


def as_text(window):
    return "".join(BASES[b] for b in window)


def other_strand(text):
    return "".join(PAIR[b] for b in reversed(text))


@given(st.lists(st.text(alphabet="ACGTN", min_size=9, max_size=9), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_reverse_complement_by_letters(texts):
    windows = encode_bases(texts, Path("X"), range(len(texts)))
    assert [as_text(w) for w in windows] == texts
    assert [as_text(w) for w in reverse_complement(windows)] == [other_strand(t) for t in texts]
    np.testing.assert_array_equal(reverse_complement(reverse_complement(windows)), windows)


def test_both_strands_have_the_same_features():
    windows = random.integers(0, 5, (6, 60), dtype=np.uint8)
    encoder = DnaEncoder(InputConfig()).fit(windows)
    there, back = encoder.encode(windows), encoder.encode(reverse_complement(windows))
    np.testing.assert_array_equal(there.features.toarray(), back.features.toarray())
    np.testing.assert_array_equal(there.other_view.vectors, back.nodes.vectors)
    assert DnaEncoder(InputConfig(both_strands=False)).fit(windows).encode(windows).other_view is None


def test_kmers_agree_with_counting_by_hand():
    windows = random.integers(0, 4, (3, 40), dtype=np.uint8)
    windows[1, 10] = 4
    words = sorted({min(w, other_strand(w)) for w in map("".join, product("ACGT", repeat=KMER))})
    expected = np.zeros((3, len(words)))
    for row, text in enumerate(map(as_text, windows)):
        for start in range(len(text) - KMER + 1):
            word = text[start : start + KMER]
            if "N" not in word:
                expected[row, words.index(min(word, other_strand(word)))] += 1
    expected = np.log1p(expected)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = DnaEncoder(InputConfig()).fit(windows).encode(windows).features
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)
    assert DnaEncoder(InputConfig()).fit(windows[:, :3]).encode(windows[:, :3]).features.nnz == 0


def test_words_around_gaps_agree_with_counting_by_hand():
    windows = random.integers(0, 4, (3, 40), dtype=np.uint8)
    windows[1, 10] = 4
    encoder = DnaEncoder(InputConfig(gaps=("4", "1"))).fit(windows)
    words = sorted({min(w, other_strand(w)) for w in map("".join, product("ACGT", repeat=KMER))})
    blocks = []
    for gaps in ((0,), (1, 4)):
        counts = np.zeros((3, len(words)))
        for row, text in enumerate(map(as_text, windows)):
            for gap in gaps:
                for start in range(len(text) - KMER - gap + 1):
                    word = text[start : start + 3] + text[start + 3 + gap : start + 6 + gap]
                    if "N" not in word:
                        counts[row, words.index(min(word, other_strand(word)))] += 1
        logs = np.log1p(counts)
        blocks.append(logs / np.linalg.norm(logs, axis=1, keepdims=True))
    expected = np.hstack([blocks[0], GAPPED_WEIGHT * blocks[1]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = encoder.encode(windows).features
    assert found.shape[1] == encoder.n_features == 2 * len(words)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)
    there = encoder.encode(reverse_complement(windows)).features
    np.testing.assert_array_equal(found.toarray(), there.toarray())


def test_a_window_too_short_for_gaps_has_words_without_one():
    windows = random.integers(0, 4, (3, KMER), dtype=np.uint8)
    features = DnaEncoder(InputConfig(gaps=("1",))).fit(windows).encode(windows).features
    np.testing.assert_allclose(features.data, np.ones(3))


def test_words_around_gaps_are_found_in_the_row():
    text = "ACGTTTTAACGACNTTA"
    windows = encode_bases([text], Path("X"), range(1))
    encoded = DnaEncoder(InputConfig(gaps=("1", "2"))).fit(windows).encode(windows)
    columns = encoded.features.indices
    found = {named.name: named.places for named in encoded.named_features(0, columns)}
    expected: dict[str, list[tuple[int, int]]] = {}
    for gap in (0, 1, 2):
        for start in range(len(text) - 5 - gap):
            first, second = text[start : start + 3], text[start + 3 + gap : start + 6 + gap]
            if "N" not in first + second:
                one = min(first + second, other_strand(first + second))
                both = [f"{word[:3]}{'..' if gap else ''}{word[3:]}" for word in (one, other_strand(one))]
                expected.setdefault(" / ".join(dict.fromkeys(both)), []).append((start, start + 6 + gap))
    assert found == {name: tuple(sorted(places)) for name, places in expected.items()}
    assert (10, 17) in found["GAC..TTA / TAA..GTC"]


@pytest.mark.parametrize("gaps", ["0", "3,-1", "three", "101"])
def test_gaps_that_are_none_are_refused(gaps):
    with pytest.raises(ConfigError, match="must be whole numbers from 1 to 100"):
        Config().updated({"input.gaps": gaps})


def test_nodes_agree_with_a_slow_convolution():
    windows = random.integers(0, 5, (2, 10), dtype=np.uint8)
    encoder = DnaEncoder(InputConfig(filter_bases=4, pool=3)).fit(windows)
    module = encoder.embedding(6)
    nodes = encoder.encode(windows).nodes
    assert nodes.vectors.dtype == np.uint8
    assert np.shares_memory(nodes.vectors, windows)
    with torch.inference_mode():
        z, present, _ = module(nodes.batch(np.arange(2)))
    assert z.shape == (2, 4, 6)
    assert present.all()
    assert encoder.encode(windows).node_names(0) == ["1-3", "4-6", "7-9", "10-10"]
    weight, bias = module.convolution.weight.detach().numpy(), module.convolution.bias.detach().numpy()
    hot = np.vstack([np.eye(4), np.full(4, 0.25)])
    rates = 10_000 ** (-np.arange(3) / 3)
    for row in range(2):
        found = np.zeros((10, 6))
        for place in range(10):
            for i in range(4):
                if 0 <= place + i - 1 < 10:
                    found[place] += weight[:, :, i] @ hot[windows[row, place + i - 1]]
        found = np.maximum(found + bias, 0)
        for node in range(4):
            code = np.stack([np.sin(node * rates), np.cos(node * rates)], axis=-1).ravel()
            expected = found[3 * node : 3 * node + 3].max(axis=0) + code
            np.testing.assert_allclose(z[row, node].numpy(), expected, atol=1e-5)


def test_edges_between_bases_join_their_nodes():
    windows = random.integers(0, 4, (1, 8), dtype=np.uint8)
    encoder = DnaEncoder(InputConfig(filter_bases=3, pool=4)).fit(windows)
    nodes = with_edges(encoder.encode(windows).nodes, [np.array([[1, 6]])])
    _, present, edges = encoder.embedding(4)(nodes.batch(np.array([0])))
    assert edges[0].tolist() == [[0, 1], [1, 0]]
    assert present.shape == (1, 2)


def test_long_windows_are_cut():
    windows = random.integers(0, 4, (2, 30), dtype=np.uint8)
    encoder = DnaEncoder(InputConfig(max_nodes=5, pool=4)).fit(windows)
    with pytest.warns(UserWarning, match="2 of 2 rows had more than 5 nodes"):
        nodes = encoder.encode(windows).nodes
    assert encoder.embedding(4)(nodes.batch(np.arange(2)))[0].shape == (2, 5, 4)
    assert encoder.encode(windows).node_names(0)[-1] == "17-20"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((2, 4), 5), "row 0 holds a base number outside"),
        (np.zeros((2, 4)), "DNA windows are uint8"),
        (np.zeros(4, dtype=np.uint8), "DNA windows are uint8"),
        (["ACGT"], "DNA windows are uint8"),
        (np.zeros((1, 3), dtype=np.uint8), "the windows have 3 bases, but the model was trained on windows of 4"),
    ],
)
def test_windows_that_do_not_fit_are_refused(rows, message):
    encoder = DnaEncoder(InputConfig()).fit(np.zeros((1, 4), dtype=np.uint8))
    with pytest.raises(DataError, match=message):
        encoder.encode(rows)


def test_a_longer_neighbour_in_the_batch_changes_nothing():
    bases = random.integers(0, 4, (17, 1), dtype=np.uint8)
    ragged = NodeRows(offsets=np.array([0, 5, 17]), vectors=bases)
    module = DnaEncoder(InputConfig(filter_bases=5, pool=3)).embedding(8)
    torch.nn.init.constant_(module.convolution.bias, 0.5)  # so that silence is not zero by chance
    with torch.inference_mode():
        together, present, _ = module(ragged.batch(np.array([0, 1])))
        alone, own, _ = module(ragged.batch(np.array([0])))
    assert present[0].tolist() == [True, True, False, False]
    assert own.tolist() == [[True, True]]
    torch.testing.assert_close(together[0, :2], alone[0])
