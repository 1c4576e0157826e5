"""Text: vocabularies of training rows only, unknown words, places, weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.config import InputConfig
from lampnet.encoders.text import TextEncoder
from lampnet.encoders.text_tokens import Tokens, checked_texts
from lampnet.encoders.text_weights import OPENING_WEIGHT, OPENING_WORDS
from lampnet.errors import DataError

TRAIN = ["The cat sat, the cat ran", "a dog sat", "the dog"]


def encoder_of(**changes):
    return TextEncoder(InputConfig(min_count=1, **changes)).fit(TRAIN)


def test_the_vocabulary_is_lowercased_counted_and_cut():
    assert TextEncoder(InputConfig(min_count=2)).fit(TRAIN).tokens.words == ("the", "cat", "dog", "sat")
    assert TextEncoder(InputConfig(min_count=1, vocabulary=2)).fit(TRAIN).tokens.words == ("the", "cat")
    with pytest.raises(DataError, match="no word occurs 9 times"):
        TextEncoder(InputConfig(min_count=9)).fit(TRAIN)


def test_encoding_learns_nothing():
    encoder = encoder_of()
    before = (encoder.tokens.words, encoder.weights.idf.copy())
    encoder.encode(["zebra zebra zebra"] * 9)
    assert encoder.tokens.words == before[0]
    np.testing.assert_array_equal(encoder.weights.idf, before[1])
    assert encoder.encode(["zebra", "", "  !?"]).nodes.lengths().tolist() == [0, 0, 0]


def test_set_nodes_weigh_tf_idf():
    nodes = encoder_of().encode(["cat cat cat dog zebra"]).nodes
    by_name = dict(zip(encoder_of().encode(["cat cat cat dog zebra"]).node_names(0), nodes.values, strict=True))
    idf = {"cat": math.log(4 / 2) + 1, "dog": math.log(4 / 3) + 1}
    assert by_name == pytest.approx({"cat": (1 + math.log(3)) * idf["cat"], "dog": idf["dog"]}, rel=1e-6)
    plain = encoder_of(tfidf=False).encode(["cat cat dog"]).nodes
    assert plain.values.tolist() == [1, 1]


def test_sequence_nodes_keep_the_places_of_unknown_words():
    encoder = encoder_of(text_nodes="sequence", tfidf=False)
    nodes = encoder.encode(["cat zebra DOG cat"]).nodes
    assert encoder.encode(["cat zebra DOG cat"]).node_names(0) == ["cat", "dog", "cat"]
    assert nodes.positions[:, 0].tolist() == [0, 2, 3]
    assert nodes.values.tolist() == [1, 1, 1]
    z, _, _ = encoder.embedding(8)(nodes.batch(np.array([0])))
    assert not torch.allclose(z[0, 0], z[0, 2])  # the same word elsewhere


def test_spans_point_at_the_words():
    text = "Don't! Émile’s cat\n  CAT 😀 cat"
    for mode in ("set", "sequence"):
        encoder = TextEncoder(InputConfig(min_count=1, text_nodes=mode)).fit([text, "cat"])
        names, places = encoder.encode([text]).node_names(0), encoder.encode([text]).node_places(0)
        assert len(names) == len(places)
        for name, spans in zip(names, places, strict=True):
            assert spans
            assert all(text[a:b].lower() == name for a, b in spans)
        if mode == "set":
            assert len(places[names.index("cat")]) == 3
        else:
            assert names == ["don't", "!", "émile’s", "cat", "cat", "😀", "cat"]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_any_text_can_be_encoded(texts):
    for settings_ in ({}, {"text_nodes": "sequence"}):
        encoder = encoder_of(**settings_)
        encoded = encoder.encode(texts)
        nodes = encoded.nodes
        assert len(nodes) == len(texts)
        for row in range(len(texts)):
            assert len(encoded.node_places(row)) == len(encoded.node_names(row)) == nodes.lengths()[row]
        assert np.isfinite(encoded.features.toarray()).all()


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_half_characters_are_blanks(tokenizer):
    encoder = TextEncoder(InputConfig(min_count=1, tokenizer=tokenizer)).fit([*TRAIN, "caf\udce9"])
    assert all(word.isascii() for word in encoder.tokens.words)
    text = "\udce9 the\ud83dcat"
    assert [text[start:end] for ((start, end),) in encoder.encode([text]).node_places(0)] == ["the", "cat"]


def test_features_are_unit_rows_with_frequent_pairs():
    rows = ["red fox runs"] * 3 + ["blue sea", "red sea"]
    encoder = TextEncoder(InputConfig(min_count=1)).fit(rows)
    words = encoder.tokens.words
    pairs = [(words[p // len(words)], words[p % len(words)]) for p in encoder.weights.pairs]
    assert sorted(pairs) == [("fox", "runs"), ("red", "fox")]
    features = encoder.encode(["red fox", "fox red", "zebra"]).features
    np.testing.assert_allclose(np.linalg.norm(features.toarray(), axis=1), [1, 1, 0], atol=1e-6)
    assert features[0].nnz == 3  # red, fox, and both in this order
    assert features[1].nnz == 2


def test_the_opening_of_long_texts_counts_once_more():
    rows = [" ".join([first] * 40 + [last] * 40) for first, last in ("ab", "ba", "ab", "ba")]
    encoder = TextEncoder(InputConfig(min_count=1)).fit(rows)
    assert encoder.weights.opening == OPENING_WORDS < 40
    features = encoder.encode([*rows[:2], "a", "", "zebra " * OPENING_WORDS + "a"]).features.toarray()
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), [1, 1, 1, 0, 1], rtol=1e-6)
    whole, opening = np.hsplit(features, 2)
    # The same words in another order differ by their openings only.
    np.testing.assert_allclose(whole[0], whole[1], rtol=1e-6)
    a, b = (encoder.tokens.words.index(word) for word in "ab")
    assert opening[0, a] > 0 == opening[0, b]
    assert opening[1, b] > 0 == opening[1, a]
    np.testing.assert_allclose(opening[2, a] / whole[2, a], OPENING_WEIGHT, rtol=1e-6)
    assert not opening[4].any()  # unknown words keep their place
    short = TextEncoder(InputConfig(min_count=1)).fit(["a b", "b a"])
    assert short.weights.opening == 0


def test_long_texts_have_no_pairs():
    rows = [" ".join(f"w{i}" for i in range(60))] * 4
    assert len(TextEncoder(InputConfig()).fit(rows).weights.pairs) == 0


def test_pieces_read_words_never_seen_whole():
    rows = ["running jumping singing", "sing run jump walking"] * 3
    encoder = TextEncoder(InputConfig(min_count=1, tokenizer="bpe", vocabulary=60, text_nodes="sequence")).fit(rows)
    assert len(encoder.tokens.words) <= 60
    names = encoder.encode(["sinning"]).node_names(0)
    assert len(names) > 1
    assert "".join(name.removeprefix("##") for name in names) == "sinning"


@pytest.mark.parametrize("rows", ["one text", ["fine", 3], ["fine", None]])
def test_rows_that_are_no_texts_are_refused(rows):
    with pytest.raises(DataError, match=r"row 1 is|a single text was given"):
        encoder_of().encode(rows)


def test_forged_merges_are_refused():
    encoder = TextEncoder(InputConfig(min_count=1, tokenizer="bpe")).fit(TRAIN)
    state = encoder.state()
    for forged in ([["zz", "yy"]], [["t"]], "x", [["t", 3]], [[state["words"][0], state["words"][0]]]):
        with pytest.raises(DataError):
            TextEncoder.restore(encoder.config, {**state, "merges": forged}, encoder.arrays())
    with pytest.raises(DataError, match="twice"):
        TextEncoder.restore(encoder.config, {**state, "words": ["a", "a"]}, encoder.arrays())


def test_plain_positions_are_added_as_they_are():
    encoder = encoder_of(text_nodes="sequence", tfidf=False, positions="plain")
    nodes = encoder.encode(["cat zebra DOG cat"]).nodes
    embedding = encoder.embedding(6)
    assert set(embedding.state_dict()) == {"vectors.weight"}  # nothing is learned about positions
    z, _, _ = embedding(nodes.batch(np.array([0])))
    for node, position in enumerate((0, 2, 3)):
        code = [f(position / 10_000 ** (2 * i / 6)) for i in range(3) for f in (math.sin, math.cos)]
        expected = embedding.vectors.weight[nodes.ids[node]] + torch.tensor(code)
        assert torch.allclose(z[0, node], expected, atol=1e-6)
    assert "position_weight" in encoder_of(text_nodes="sequence").embedding(6).state_dict()


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=40), min_size=1, max_size=5), st.text(max_size=9))
def test_words_of_plain_text_are_those_that_the_tokenizer_finds(texts: list[str], other: str) -> None:
    tokens = Tokens(("a", "b", "it's", "_", "0", "!", "?"))
    texts = [*texts, "It's A_b 0'a' b!?_", other]
    numbers, offsets = tokens.numbers(texts)
    encoded = tokens._tokenizer.encode_batch_fast(
        [text if text != other else checked_texts([text])[0] for text in texts]
    )
    assert numbers.tolist() == [number - 1 for encoding in encoded for number in encoding.ids]
    assert np.diff(offsets).tolist() == [len(encoding.ids) for encoding in encoded]
    assert [len(tokens.spans(text)) for text in texts] == np.diff(offsets).tolist()
