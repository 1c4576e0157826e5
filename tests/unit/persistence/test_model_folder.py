"""Model folders: what is written is read back; anything else is refused with a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ModelFolderError
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.persistence.tensor_file import read_arrays, read_header, write_arrays
from lampnet.pipeline.fit import fit

WORDS = sparse.random(50, 12, 0.3, format="csr", random_state=0, dtype=np.float32)


def made(**changes: object) -> FittedModel:
    words = (WORDS.toarray() > 0).astype(np.float32)
    data = Dataset(
        name="t<o>y", kind="wordset", rows=sparse.csr_matrix(words), labels=sparse.csr_matrix(words[:, :4]),
        label_names=("a", "b|c", "ü", "d"),
    )  # fmt: skip
    base = {"model.width": 8, "training.epochs": 1, "training.threads": 1}
    return fit(Splits(train=data), Config.preset("fast").updated(base | changes))


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return made(label_graph="cooccurrence")


@pytest.fixture(scope="module")
def folder(model: FittedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(model, tmp_path_factory.mktemp("store") / "model")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize(
    "changes",
    [
        {"label_graph": "cooccurrence"},
        {"model.base_learners": "linear,knn,forest"},
        {"model.base_learners": "none", "model.feature_steps": 1, "label_graph": "edgeless", "model.candidates": 2},
    ],
)
def test_a_loaded_model_predicts_the_same(changes: dict[str, object], tmp_path: Path) -> None:
    saved = made(**changes)
    loaded = load_model(save_model(saved, tmp_path / "model"))
    assert np.array_equal(saved.proba(WORDS), loaded.proba(WORDS))
    assert (loaded.label_names, loaded.config, loaded.decisions) == (saved.label_names, saved.config, saved.decisions)
    assert np.array_equal(saved.proba(WORDS[:0]), loaded.proba(WORDS[:0]))


def test_loading_does_not_wake_torchs_compiler(folder: Path) -> None:
    """It would take seconds: most of what a service waits for before its first prediction."""
    code = (
        "import sys; from lampnet.persistence.model_folder import load_model\n"
        "load_model(sys.argv[1]); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    assert not {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"} & set(done.stdout.split())


def test_a_model_may_replace_a_model_and_nothing_is_left_behind(model: FittedModel, copy: Path) -> None:
    save_model(model, copy)
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy"]
    assert np.array_equal(load_model(copy).proba(WORDS), model.proba(WORDS))


def test_the_card_states_data_scores_thresholds_and_limits_without_untrusted_markup(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("## Data", "## Scores", "## Limits", "threshold", "seed 0", "50 training", "ensemble of 5"):
        assert part in card
    assert "<o>" not in card
    assert "`b c`" in card


def test_a_foreign_folder_is_left_alone(model: FittedModel, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    with pytest.raises(ModelFolderError, match="holds no lampnet model"):
        save_model(model, tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter"]


def test_a_failing_write_leaves_nothing(model: FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lampnet.persistence.model_folder.model_card", full)
    with pytest.raises(ModelFolderError, match="No space left on device"):
        save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def edited(copy: Path, change: object) -> Path:
    data = json.loads((copy / "model.json").read_text(encoding="utf-8"))
    change(data)  # type: ignore[operator]
    (copy / "model.json").write_text(json.dumps(data), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(version=99), "format version 99"),
        (lambda d: d.update(version=1), "format version 1, this lampnet reads 2"),
        (lambda d: d.update(format="other"), "does not describe a lampnet model"),
        (lambda d: d.pop("decisions"), "lacks 'decisions'"),
        (lambda d: d["label_names"].append("more"), "labels of width"),
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
        (lambda d: d.update(weights_sha256="0"), "do not match their digest"),
        (lambda d: d["decisions"].update(paper={}), "decisions"),
    ],
)
def test_a_forged_description_is_refused(copy: Path, change: object, sentence: str) -> None:
    edited(copy, change)
    if sentence:
        with pytest.raises(ModelFolderError, match=sentence):
            load_model(copy)
    else:  # another graph over the same weights is a working model
        assert load_model(copy).proba(WORDS).shape == (50, 4)


def test_missing_files_are_named(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        load_model(tmp_path / "nothing")
    (copy / "model.json").unlink()
    with pytest.raises(ModelFolderError, match=r"it has no model\.json"):
        load_model(copy)
    (copy / "checkpoints").mkdir()
    with pytest.raises(ModelFolderError, match="--resume"):
        load_model(copy)


def test_weights_that_are_no_numbers_are_refused(copy: Path) -> None:
    path = copy / "weights.safetensors"
    arrays = read_arrays(path, read_header(path))
    arrays["network.members.0.W_y"][0, 0] = np.nan
    digest = write_arrays(path, arrays)
    edited(copy, lambda d: d.update(weights_sha256=digest))
    with pytest.raises(ModelFolderError, match="no numbers"):
        load_model(copy)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["model.json", "weights.safetensors"]), st.data())
def test_any_changed_byte_gives_an_error_or_a_working_model(folder: Path, tmp_path: Path, name: str, data) -> None:
    target = tmp_path / "fuzzed"
    target.mkdir(exist_ok=True)
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    content = bytearray((target / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] = data.draw(st.integers(0, 255))
    else:
        del content[place:]
    (target / name).write_bytes(bytes(content))
    try:
        loaded = load_model(target)
    except ModelFolderError:
        return
    assert loaded.proba(WORDS).shape == (50, 4)


@settings(max_examples=80, deadline=None)
@given(
    shape=st.lists(st.integers(0, 2**62), max_size=9),
    begin=st.integers(0, 2**62),
    end=st.integers(0, 2**62),
    dtype=st.sampled_from(["F32", "I64", "U8", "F128", "BOOL"]),
    name=st.text(max_size=8),
)
def test_a_header_cannot_claim_what_the_file_does_not_hold(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], begin: int, end: int, dtype: str, name: str
) -> None:
    path = tmp_path_factory.mktemp("header") / "w.safetensors"
    header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 16)
    try:
        entries = read_header(path)
    except ModelFolderError:
        return
    assert sum(entry.end - entry.begin for entry in entries.values()) == 16
