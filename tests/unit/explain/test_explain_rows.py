"""Explanations are the prediction's own numbers, for every kind of network and input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.encoders.base import Encoder
from lampnet.errors import DataError
from lampnet.explain.explain_rows import explain
from lampnet.explain.report.folder import write_folder
from lampnet.inference.predictor import FittedModel

Train = Callable[..., FittedModel]


@pytest.fixture(scope="module")
def stacked(trained: Train, words: Dataset) -> FittedModel:
    """With a base learner."""
    return trained(words, model__base_learners="linear")


def test_predictions_with_and_without_explanation_are_identical(stacked: FittedModel, words: Dataset) -> None:
    before = stacked.proba(words.rows)
    explained = explain(stacked, words)
    for row, e in enumerate(explained):
        np.testing.assert_array_equal(e.proba, before[row, e.label_index])
        np.testing.assert_allclose(e.stage_proba[-1], e.proba, atol=1e-5)
    np.testing.assert_array_equal(stacked.proba(words.rows), before)
    chosen = stacked.decisions.best["example_f1"].apply(before)
    assert all((e.chosen == chosen[row, e.label_index]).all() for row, e in enumerate(explained))


def test_stage_0_is_the_prediction_before_any_message(stacked: FittedModel, words: Dataset) -> None:
    (e,) = explain(stacked, words, [3])
    assert e.stages == ("0", "1.1", "1.2", "2.1", "2.2")
    examples = stacked.views(stacked.encoder.encode(words.rows))[0]
    output = stacked.output(examples, np.array([3]))
    assert output.initial is not None
    calibrated = stacked.calibrated(output.initial.numpy())[0]  # as every prediction of the model
    expected = 1 / (1 + np.exp(-calibrated[e.label_index]))
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


def test_labels_of_an_edgeless_graph_attend_to_themselves_only(trained: Train, words: Dataset) -> None:
    (e,) = explain(trained(words, label_graph="edgeless"), words, [0])
    np.testing.assert_array_equal(e.to_labels, np.broadcast_to(np.eye(6, dtype=np.float32), e.to_labels.shape))


def test_labels_outside_the_shortlist_exchange_no_messages(trained: Train, words: Dataset) -> None:
    model = trained(words, model__shortlist=3)
    for e in explain(model, words, range(5)):
        assert e.exchanges_messages.sum() == 3
        assert not e.to_input[:, :, ~e.exchanges_messages].any()
        assert not e.to_labels[:, :, ~e.exchanges_messages].any()
        assert not e.to_labels[..., ~e.exchanges_messages].any()
        np.testing.assert_allclose(e.to_labels[:, :, e.exchanges_messages].sum(axis=-1), 1.0, atol=1e-5)
        still = e.stage_proba[:, ~e.exchanges_messages]
        np.testing.assert_allclose(still, np.broadcast_to(still[0], still.shape), atol=1e-6)


def test_dna_reports_the_decision_of_both_strands(trained: Train) -> None:
    random = np.random.default_rng(0)
    data = Dataset(
        name="windows", kind="dna", rows=random.integers(0, 4, (30, 40)).astype(np.uint8),
        labels=sparse.csr_matrix((random.random((30, 4)) < 0.4).astype(np.float32)),
        label_names=("a", "b", "c", "d"),
    )  # fmt: skip
    model = trained(data)
    (e,) = explain(model, data, [4])
    mean = model.proba(data.take(np.array([4])).rows)[0, e.label_index]
    np.testing.assert_array_equal(e.proba, mean)
    assert np.abs(e.stage_proba[-1] - e.proba).max() > 1e-6  # one strand is not the mean of two
    assert "both strands" in e.note
    assert e.nodes[1].places == ((4, 8),)
    assert e.input["sequence"] == "".join("ACGTN"[b] for b in data.rows[4])


@pytest.fixture(scope="module")
def texts() -> Dataset:
    return Dataset(
        name="texts", kind="text", rows=["Ünder the 🙂 red sky", "the red fox", "a blue fox, the Red one"] * 5,
        labels=sparse.csr_matrix(np.tile([[1.0, 0], [0, 1], [1, 1]], (5, 1)).astype(np.float32)),
        label_names=("x", "y"),
    )  # fmt: skip


def test_words_are_found_where_they_stand_in_the_text(trained: Train, texts: Dataset) -> None:
    data = texts
    for e in explain(trained(data), data, [0, 2]):
        assert e.nodes
        for node in e.nodes:
            assert node.places
            assert {e.input["text"][a:b].lower() for a, b in node.places} == {node.name}


@pytest.mark.parametrize("base_learners", ["none", "linear"])
def test_every_text_is_tokenized_once(
    trained: Train, texts: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base_learners: str
) -> None:
    model = trained(texts, model__base_learners=base_learners)
    parsed: list[str] = []
    parse = type(model.encoder).parse

    def spy(encoder: Encoder, rows: Any) -> Any:
        parsed.extend(rows)
        return parse(encoder, rows)

    monkeypatch.setattr(type(model.encoder), "parse", spy)
    explain(model, texts, [0, 2])
    assert parsed == [texts.rows[0], texts.rows[2]]
    parsed.clear()
    write_folder(model, texts, tmp_path / "report", [2, 0])
    assert parsed == texts.rows


def test_of_many_labels_the_strongest_and_those_asked_for_are_shown(
    trained: Train, word_sets: Callable[..., Dataset]
) -> None:
    data = word_sets(n=30, words=130, labels=120)
    model = trained(data)
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
    written = json.loads(json.dumps(e.to_json(), allow_nan=False))
    np.testing.assert_allclose(written["attention"]["to_labels"]["heads"], e.to_labels, atol=1e-5)
    np.testing.assert_allclose(written["attention"]["to_input"]["mean"], e.to_input.mean(axis=1), atol=1e-5)
    assert [np.float32(p) for p in written["proba"]] == e.proba.tolist()
    assert written["truth"] == [bool(t) for t in words.indicator()[1, e.label_index]]


def test_mistakes_are_named(plain: FittedModel, words: Dataset) -> None:
    with pytest.raises(DataError, match="no row 40; rows are counted from 0 to 39"):
        explain(plain, words, [40])
    with pytest.raises(DataError, match="no label 'label 9'; did you mean"):
        explain(plain, words, [0], ["label 9"])
