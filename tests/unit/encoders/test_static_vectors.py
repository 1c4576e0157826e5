"""Static text models: mean vectors of sub-words, whose table belongs to a model as a transformer's weights do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from lampnet import LaMPClassifier
from lampnet.config import Config, InputConfig
from lampnet.encoders import make_encoder
from lampnet.encoders.pretrained_folder import LAYOUTS, folder_of, static_files
from lampnet.encoders.static_vectors import StaticEncoder
from lampnet.errors import DataError, ModelFolderError

WORDS = ("<unk>", "rain", "storm", "goal", "cup", "the")
TEXTS = ["rain storm", "the storm", "goal cup", "the cup goal", "rain", "cup"] * 8
LABELS = [["weather"], ["weather"], ["sport"], ["sport"], ["weather"], ["sport"]] * 8


def table(seed: int = 0, rows: int = len(WORDS)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float16)


def static_folder(folder: Path, layout: int = 0, seed: int = 0) -> Path:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding()  # which must not count as words
    tokenizer.enable_truncation(2)
    for path in LAYOUTS[layout]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / LAYOUTS[layout][0]))
    save_file({"embeddings": table(seed)}, folder / LAYOUTS[layout][1])
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return static_folder(tmp_path / "static")


def encoder_of(folder: Path, use: str = "pooled") -> StaticEncoder:
    encoder = make_encoder("text", InputConfig(pretrained=str(folder), pretrained_use=use, min_count=1))  # type: ignore[arg-type]
    assert isinstance(encoder, StaticEncoder)
    return encoder.fit(TEXTS)


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@pytest.mark.parametrize("use", ["pooled", "tokens"])
def test_a_text_is_the_mean_of_its_words(layout: int, use: str, tmp_path: Path) -> None:
    encoder = encoder_of(static_folder(tmp_path, layout), use)
    texts = ["rain storm the", "cup", "", "   ", "nobody knows"]
    rows = table().astype(np.float64)
    expected = np.zeros((5, 8))
    for number, ids in enumerate([[1, 2, 5], [4], [], [], [0, 0]]):
        if ids:
            mean = sum(rows[i] for i in ids) / len(ids)
            expected[number] = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(encoder.pooled(texts), expected, atol=1e-3)
    encoded = encoder.encode(texts)
    np.testing.assert_allclose(encoded.features.toarray()[:, -8:], expected, atol=1e-3)
    assert encoder.n_features == encoded.features.shape[1] == encoder.words.n_features + 8
    assert encoded.node_names(0) == encoder.words.encode(texts).node_names(0)  # nodes are words


def classifier(folder: Path) -> LaMPClassifier:
    settings = {"input.min_count": 1}
    return LaMPClassifier(preset="quick", pretrained=str(folder), settings=settings, n_jobs=1).fit(TEXTS, LABELS)


def test_a_model_names_it_in_its_card_and_takes_no_other(folder: Path, tmp_path: Path) -> None:
    model = classifier(folder)
    assert "pretrained_linear" in model.model_.stack.names
    saved = model.save(tmp_path / "model")
    digest = model.model_.encoder.state()["encoder_sha256"]
    assert f"reads the pretrained text encoder `static`, SHA-256 `{digest}`" in (saved / "README.md").read_text()
    again = LaMPClassifier.load(saved, pretrained=str(folder))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    other = static_folder(tmp_path / "other", seed=1)
    with pytest.raises(ModelFolderError, match="other weights, settings or tokens"):
        LaMPClassifier.load(saved, pretrained=str(other))
    with pytest.raises(ModelFolderError, match="name the folder with --pretrained"):
        LaMPClassifier.load(saved)


def two_tables(folder: Path) -> None:
    save_file({"a": table(), "b": table(1)}, folder / "model.safetensors")


def short_table(folder: Path) -> None:
    save_file({"a": table(rows=3)}, folder / "model.safetensors")


def infinite_table(folder: Path) -> None:
    save_file({"a": np.full((6, 8), np.inf, np.float32)}, folder / "model.safetensors")


def no_table(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no tensors")


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (two_tables, "2 tables of vectors"),
        (short_table, "3 vectors cannot be those of 6 sub-words"),
        (infinite_table, "of finite numbers"),
        (no_table, "the static text model cannot be read"),
        (no_tokenizer, "the static text model cannot be read"),
    ],
)
def test_damaged_folders_are_refused_in_one_sentence(damage: Callable[[Path], None], said: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(DataError, match=said) as refusal:
        encoder_of(folder)
    assert "\n" not in str(refusal.value)


def test_a_transformer_is_not_taken_for_static(folder: Path) -> None:
    assert static_files(str(folder)) is not None
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert static_files(str(folder)) is None
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
    assert static_files(str(folder)) is not None


def test_where_no_package_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lampnet.encoders.pretrained_folder.find_spec", lambda name: None)
    assert folder_of("static") == folder_of("auto") == ""
    assert folder_of("a/folder") == "a/folder"
    config = Config.preset("quick").updated({"input.pretrained": "static", "input.pretrained_use": "pooled"}).input
    with pytest.raises(DataError, match="pip install wordllama"):
        make_encoder("text", config).fit(TEXTS)
