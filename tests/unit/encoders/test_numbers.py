"""Word sets, vectors and columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import InputConfig
from lampnet.data.dataset import Table
from lampnet.encoders.columns import ColumnsEncoder
from lampnet.encoders.vector import FARTHEST, VectorEncoder, mean_and_spread
from lampnet.encoders.wordset import WordSetEncoder
from lampnet.errors import DataError


def colours(values, names=("size", "colour"), known=("red", "blue", "green")):
    return Table(values=np.array(values, dtype=float), names=names, categories={names.index("colour"): known})


def test_word_sets_leave_the_callers_matrix_alone():
    rows = sparse.csr_matrix(np.array([[1, 0, 2], [0, 3, 0]], dtype=np.float32))
    rows.data[0] = 0.0  # a stored zero is no node
    encoder = WordSetEncoder(InputConfig(tfidf=False)).fit(rows)
    assert encoder.encode(rows).node_names(0) == ["f2"]
    assert rows.nnz == 3
    encoder.embedding(4).spectral_start(encoder.encode(rows).nodes, 0)
    assert rows.data.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("rows", "message"),
    [(np.ones((2, 4)), "4 features, but the model was trained on 3"), (np.full((1, 3), np.nan), "row 0 holds a value")],
)
def test_word_sets_refuse_other_features(rows, message):
    encoder = WordSetEncoder(InputConfig()).fit(np.eye(3))
    with pytest.raises(DataError, match=message):
        encoder.encode(rows)


def test_word_vectors_start_as_singular_vectors():
    random = np.random.default_rng(1)
    topics = random.random((40, 3)) @ random.random((3, 12)) * (random.random((40, 12)) < 0.7)
    encoder = WordSetEncoder(InputConfig(tfidf=False)).fit(topics)
    module = encoder.embedding(4)
    module.spectral_start(encoder.encode(topics).nodes, 0)
    _, _, right = np.linalg.svd(topics, full_matrices=False)
    vectors = module.vectors.weight.detach().numpy()
    found = vectors / np.linalg.norm(vectors, axis=0)
    np.testing.assert_allclose(np.abs((right[:4] * found.T).sum(axis=1)), 1, atol=1e-3)


def test_vectors_are_standardised_on_training_rows():
    train = np.random.default_rng(0).normal(7, 3, (50, 4))
    train[:, 2] = 5.0
    encoder = VectorEncoder(InputConfig()).fit(train)
    standard = encoder.encode(train).features
    np.testing.assert_allclose(standard.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(standard.std(0), [1, 1, 0, 1], atol=1e-4)
    np.testing.assert_array_equal(encoder.encode(train).nodes.vectors, standard)
    with pytest.raises(DataError, match="row 1 holds a missing or infinite number"):
        encoder.encode(np.array([[1, 2, 3, 4], [1, np.nan, 3, 4]]))
    with pytest.raises(DataError, match="the rows have 3 numbers, but the model was trained on 4"):
        encoder.encode(np.ones((1, 3)))
    with pytest.raises(DataError, match="must be numbers"):
        encoder.encode([["a", "b", "c", "d"]])


def test_standardised_values_do_not_depend_on_unit_and_offset():
    plain = np.random.default_rng(0).normal(size=(200, 1))
    expected = VectorEncoder(InputConfig()).fit(plain).encode(plain).features
    for scale, offset in ((1e-12, 0), (1e-30, 0), (1e60, 0), (288.0, 1.7e9), (1.0, 1.7e9)):
        rows = plain * scale + offset
        for encoder in (VectorEncoder(InputConfig()), ColumnsEncoder(InputConfig())):
            np.testing.assert_allclose(encoder.fit(rows).encode(rows).features, expected, atol=1e-5)


@pytest.mark.parametrize("value", [1234567891.0, 0.1, -1e-20, 1e15 + 0.5, 0.0])
def test_constant_columns_become_zero(value):
    rows = np.full((200, 1), value)
    mean, spread = mean_and_spread(rows)
    assert mean.dtype == spread.dtype == np.float64
    assert spread.tolist() == [1.0]
    assert np.abs(VectorEncoder(InputConfig()).fit(rows).encode(rows).features).max() <= 1e-15 * abs(value)


def test_values_far_out_are_cut():
    encoder = VectorEncoder(InputConfig()).fit(np.array([[0.0], [2.0]]))
    assert encoder.encode(np.array([[1e40], [-1e40], [1.5]])).features.tolist() == [[FARTHEST], [-FARTHEST], [0.5]]


@pytest.mark.parametrize("kind", [VectorEncoder, ColumnsEncoder])
def test_moments_are_saved_in_double_precision(kind):
    rows = np.random.default_rng(0).normal(size=(20, 2)) + 1.7e9
    encoder = kind(InputConfig()).fit(rows)
    arrays = encoder.arrays()
    again = kind.restore(InputConfig(), encoder.state(), arrays)
    np.testing.assert_array_equal(again.encode(rows).features, encoder.encode(rows).features)
    with pytest.raises(DataError, match="expected float64"):
        kind.restore(InputConfig(), encoder.state(), arrays | {"mean": arrays["mean"].astype(np.float32)})


def test_a_column_without_any_value_suits_numbers_and_categories():
    encoder = ColumnsEncoder(InputConfig()).fit(colours([[1, 0], [2, 1]]))
    assert encoder.encode(np.array([[1.0, np.nan]])).node_names(0) == ["size", "colour (missing)"]
    empty = Table(values=np.array([[np.nan, 0]]), names=("size", "colour"), categories={0: ("x",), 1: ("red",)})
    assert encoder.encode(empty).node_names(0) == ["size (missing)", "colour=red"]


def test_columns_follow_value_times_scale_plus_vector():
    train = colours([[1, 0], [3, 1], [5, np.nan]])
    encoder = ColumnsEncoder(InputConfig()).fit(train)
    module = encoder.embedding(8)
    z, present, _ = module(encoder.encode(train).nodes.batch(np.arange(3)))
    scale, vector = module.scale.weight, module.vector.weight
    spread = np.sqrt(8 / 3)
    torch.testing.assert_close(z[0, 0], scale[0] * (1 - 3) / spread + vector[0])
    torch.testing.assert_close(z[2, 1], vector[3])  # the missing vector of the second column
    torch.testing.assert_close(z[1, 1], vector[5])  # colour=blue
    assert present.all()


def test_categories_that_training_did_not_see_count_as_missing():
    encoder = ColumnsEncoder(InputConfig()).fit(colours([[1, 0], [2, 1]]))
    assert encoder.categories == {1: ("red", "blue")}
    later = colours([[1, 2], [1, 0], [1, 1]], known=("blue", "red", "black"))  # other codes for the same names
    assert [encoder.encode(later).node_names(row)[1] for row in range(3)] == [
        "colour (missing)",
        "colour=blue",
        "colour=red",
    ]
    features = encoder.encode(later).features
    assert features.shape == (3, 3)  # size, red, blue
    assert features[:, 1:].tolist() == [[0, 0], [0, 1], [1, 0]]


def test_missing_numbers_are_zero_with_an_indicator():
    encoder = ColumnsEncoder(InputConfig()).fit(np.array([[1.0, 2], [3, np.nan], [5, 4]]), ["a", "b"])
    features = encoder.encode(np.array([[np.nan, np.nan]])).features
    assert features.tolist() == [[0, 0, 1]]  # only b had gaps in training
    assert encoder.encode(np.array([[1, np.nan]])).node_names(0) == ["a", "b (missing)"]


def test_columns_are_found_by_name():
    encoder = ColumnsEncoder(InputConfig()).fit(colours([[1, 0], [2, 1]]))
    turned = colours([[0, 1], [1, 2]], names=("colour", "size"))
    straight = encoder.encode(colours([[1, 0], [2, 1]])).nodes
    np.testing.assert_array_equal(encoder.encode(turned).nodes.values, straight.values)
    np.testing.assert_array_equal(encoder.encode(turned).nodes.ids, straight.ids)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 3)), "the rows have 3 columns; 2 were expected"),
        (np.ones((2, 2)), "'colour' held categories in training and holds numbers now"),
        (colours([[1, 0]], names=("weight", "colour")), "lacks the column 'size'.*it has 'weight'"),
        (colours([[1, 7]]), "row 0, column 'colour': the code 7 stands for none of its 3"),
        (colours([[1, 0.5]]), "the code 0.5"),
        (colours([[np.inf, 0]]), "row 0, column 'size' is infinite"),
        (colours([[-1e200, 0]]), r"row 0, column 'size' is -1e\+200, beyond 1e\+150"),
    ],
)
def test_columns_refuse_what_does_not_fit(rows, message):
    encoder = ColumnsEncoder(InputConfig()).fit(colours([[1, 0], [2, 1]]))
    with pytest.raises(DataError, match=message):
        encoder.encode(rows)
