"""Explanations are the prediction's own numbers, for every kind of network and input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import DataError
from lampnet.explain.explanation import explain
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.fit import fit

SMALL = {
    "model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "training.batch_size": 16,
    "training.warmup_steps": 2, "model.base_learners": "none",
}  # fmt: skip


def word_sets(n: int = 40, words: int = 12, labels: int = 6, seed: int = 0) -> Dataset:
    random = np.random.default_rng(seed)
    X = (random.random((n, words)) < 0.4).astype(np.float32)
    X[:, 0] = 1.0
    Y = (X[:, :labels] * (random.random((n, labels)) < 0.9)).astype(np.float32)
    return Dataset(
        name="words",
        kind="wordset",
        rows=sparse.csr_matrix(X),
        labels=sparse.csr_matrix(Y),
        label_names=tuple(f"label {i}" for i in range(labels)),
        feature_names=tuple(f"word{i}" for i in range(words)),
    )


def fitted(data: Dataset, **changes: object) -> FittedModel:
    settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return fit(Splits(train=data, valid=data), Config.preset("fast").updated(settings))


@pytest.fixture(scope="module")
def words() -> Dataset:
    return word_sets()


@pytest.fixture(scope="module")
def plain(words: Dataset) -> FittedModel:
    return fitted(words)


@pytest.fixture(scope="module")
def with_opinion(words: Dataset) -> FittedModel:
    return fitted(words, model__base_learners="linear")


def test_predictions_with_and_without_explanation_are_identical(with_opinion: FittedModel, words: Dataset) -> None:
    before = with_opinion.proba(words.rows)
    explained = explain(with_opinion, words)
    for row, e in enumerate(explained):
        np.testing.assert_array_equal(e.proba, before[row, e.numbers])
        np.testing.assert_allclose(e.stage_proba[-1], e.proba, atol=1e-5)
    np.testing.assert_array_equal(with_opinion.proba(words.rows), before)
    chosen = with_opinion.decisions.best["example_f1"].apply(before)
    assert all((e.chosen == chosen[row, e.numbers]).all() for row, e in enumerate(explained))


def test_a_first_opinion_is_stage_0_and_is_said_before_any_message(with_opinion: FittedModel, words: Dataset) -> None:
    (e,) = explain(with_opinion, words, [3])
    assert e.stages == ("0", "1.1", "1.2", "2.1", "2.2")
    output = with_opinion.output(words.take(np.array([3])).rows)
    assert output.initial is not None
    expected = 1 / (1 + np.exp(-output.initial[0].numpy()[e.numbers]))
    np.testing.assert_allclose(e.stage_proba[0], expected, atol=1e-6)


def test_attention_is_a_softmax_over_nodes_and_labels(plain: FittedModel, words: Dataset) -> None:
    assert explain(plain, words, [0])[0].stages == ("1.1", "1.2", "2.1", "2.2")
    for e in explain(plain, words):  # rows of different lengths share batches
        assert e.to_input.shape == (2, 2, 6, e.n_nodes)
        np.testing.assert_allclose(e.to_input.sum(axis=-1), 1.0, atol=1e-5)
        np.testing.assert_allclose(e.to_labels.sum(axis=-1), 1.0, atol=1e-5)
        own = words.rows[e.row].indices
        assert [node.name for node in e.nodes] == [f"word{i}" for i in own]


def test_rows_keep_their_order_and_alone_give_the_same(plain: FittedModel, words: Dataset) -> None:
    together = explain(plain, words, [7, 2, 5])
    assert [e.row for e in together] == [7, 2, 5]
    (alone,) = explain(plain, words, [2])
    assert together[1].labels == alone.labels
    np.testing.assert_allclose(together[1].to_labels, alone.to_labels, atol=1e-6)


def test_an_edgeless_graph_hears_itself_only(words: Dataset) -> None:
    (e,) = explain(fitted(words, label_graph="edgeless"), words, [0])
    np.testing.assert_array_equal(e.to_labels, np.broadcast_to(np.eye(6, dtype=np.float32), e.to_labels.shape))


def test_labels_outside_the_candidates_heard_nothing(words: Dataset) -> None:
    model = fitted(words, model__shortlist=3)
    for e in explain(model, words, range(5)):
        assert e.listening.sum() == 3
        assert not e.to_input[:, :, ~e.listening].any()
        assert not e.to_labels[:, :, ~e.listening].any()
        assert not e.to_labels[..., ~e.listening].any()
        np.testing.assert_allclose(e.to_labels[:, :, e.listening].sum(axis=-1), 1.0, atol=1e-5)
        still = e.stage_proba[:, ~e.listening]
        np.testing.assert_allclose(still, np.broadcast_to(still[0], still.shape), atol=1e-6)


def test_dna_reports_the_decision_of_both_strands() -> None:
    random = np.random.default_rng(0)
    data = Dataset(
        name="windows", kind="dna", rows=random.integers(0, 4, (30, 40)).astype(np.uint8),
        labels=sparse.csr_matrix((random.random((30, 4)) < 0.4).astype(np.float32)),
        label_names=("a", "b", "c", "d"),
    )  # fmt: skip
    model = fitted(data)
    (e,) = explain(model, data, [4])
    mean = model.proba(data.take(np.array([4])).rows)[0, e.numbers]
    np.testing.assert_array_equal(e.proba, mean)
    assert np.abs(e.stage_proba[-1] - e.proba).max() > 1e-6  # one strand is not the mean of two
    assert "both strands" in e.note
    assert e.nodes[1].places == ((4, 8),)
    assert e.input["sequence"] == "".join("ACGTN"[b] for b in data.rows[4])


def test_words_are_found_where_they_stand_in_the_text() -> None:
    texts = ["Ünder the 🙂 red sky", "the red fox", "a blue fox, the Red one"] * 5
    data = Dataset(
        name="texts", kind="text", rows=texts, label_names=("x", "y"),
        labels=sparse.csr_matrix(np.tile([[1.0, 0], [0, 1], [1, 1]], (5, 1)).astype(np.float32)),
    )  # fmt: skip
    for e in explain(fitted(data), data, [0, 2]):
        assert e.nodes
        for node in e.nodes:
            assert node.places
            assert {e.input["text"][a:b].lower() for a, b in node.places} == {node.name}


def test_many_labels_show_those_in_play_and_the_ones_asked_for() -> None:
    data = word_sets(n=30, words=130, labels=120)
    model = fitted(data)
    (e,) = explain(model, data, [0], ["label 119", "label 118"], max_nodes=5)
    assert len(e.labels) <= 40
    assert {"label 118", "label 119"} <= set(e.labels)
    assert e.n_labels == 120
    assert len(e.nodes) == 5
    assert e.n_nodes == data.rows[0].nnz
    everything = explain(model, data, [0], max_nodes=10_000)[0].to_input.mean(axis=1).max(axis=(0, 1))
    assert e.to_input.mean(axis=1).max() == pytest.approx(everything.max(), rel=1e-5)


def test_a_row_without_a_known_word_is_explained_too(plain: FittedModel) -> None:
    empty = Dataset(name="empty", kind="wordset", rows=sparse.csr_matrix((1, 12), dtype=np.float32), labels=None,
                    label_names=())  # fmt: skip
    (e,) = explain(plain, empty)
    assert e.nodes == ()
    assert e.truth is None
    assert json.loads(json.dumps(e.to_json()))["nodes"] == []


def test_json_holds_the_same_numbers(plain: FittedModel, words: Dataset) -> None:
    (e,) = explain(plain, words, [1])
    told = json.loads(json.dumps(e.to_json(), allow_nan=False))
    np.testing.assert_allclose(told["attention"]["to_labels"]["heads"], e.to_labels, atol=1e-5)
    np.testing.assert_allclose(told["attention"]["to_input"]["mean"], e.to_input.mean(axis=1), atol=1e-5)
    assert [np.float32(p) for p in told["proba"]] == e.proba.tolist()
    assert told["truth"] == [bool(t) for t in words.indicator()[1, e.numbers]]


def test_mistakes_are_named(plain: FittedModel, words: Dataset) -> None:
    with pytest.raises(DataError, match="no row 40; rows are counted from 0 to 39"):
        explain(plain, words, [40])
    with pytest.raises(DataError, match="no label 'label 9'; did you mean"):
        explain(plain, words, [0], ["label 9"])
