"""`lampnet explain` from a model folder to pages, pictures and JSON; the docs' numbers are the measured ones."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.cli.app import run
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.explain.explain_rows import explain
from lampnet.explain.report.page import page_data
from lampnet.persistence.model_folder import save_model
from lampnet.pipeline.fit import fit
from lampnet.readers.named.digit_scenes import load_digit_scenes

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "model.width": 16, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "training.warmup_steps": 2,
    "model.base_learners": "none",
}  # fmt: skip


@pytest.fixture(scope="module")
def digits_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = load_digit_scenes()
    assert splits.valid is not None
    small = Splits(train=splits.train.take(np.arange(150)), valid=splits.valid.take(np.arange(50)))
    model = fit(small, Config.preset("fast").updated(SMALL))
    return save_model(model, tmp_path_factory.mktemp("models") / "digits")


def test_a_model_folder_and_a_name_become_a_report(
    digits_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    code = run(["explain", str(digits_model), "digits", "--rows", "2,0", "--labels", "digit_7", "--out", str(out)])
    assert code == 0
    printed = capsys.readouterr().out
    for name in ("report.html", "test_set.html", "explanations.json", "pictures"):
        assert (out / name).exists()
        assert str(out / name) in printed
    written = json.loads((out / "explanations.json").read_text(encoding="utf-8"))
    assert [e["row"] for e in written["explanations"]] == [2, 0]
    assert all("digit_7" in e["labels"] for e in written["explanations"])
    assert {"attended", "random", "verdict"} <= set(written["faithfulness"]["nodes"])
    assert sorted(f.name for f in (out / "pictures").glob("*.png")) == [
        "row2_stages.png", "row2_to_input.png", "row2_to_labels.png",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--rows", "9999"], "there is no row 9999"),
        (["--rows", "1;2"], "must be whole numbers"),
        (["--rows", "0-60"], "at most 50"),
        (["--labels", "digit_x"], "the model has no label 'digit_x'"),
    ],
)
def test_mistakes_get_one_line(
    digits_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], words: str
) -> None:
    assert run(["explain", str(digits_model), "digits", "--out", str(tmp_path / "r"), *given]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("lampnet: ")
    assert words in error


def test_a_molecule_is_drawn_with_its_atoms() -> None:
    pytest.importorskip("rdkit", reason="molecules need rdkit")
    from scipy import sparse

    smiles = ["CCO", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "C[N+](C)(C)C"] * 6
    labels = sparse.csr_matrix(np.tile(np.eye(4, dtype=np.float32), (6, 1)))
    data = Dataset(name="drugs", kind="molecule", rows=smiles, labels=labels, label_names=("a", "b", "c", "d"))
    model = fit(Splits(train=data, valid=data), Config.preset("fast").updated(SMALL))
    (e,) = explain(model, data, [2])
    assert len(e.nodes) == 13
    (row,) = page_data([e], None, "t", None)["rows"]
    drawing = row["input"]["drawing"]
    assert len(drawing["atoms"]) == 13
    assert len(drawing["bonds"]) == 13
    for node in row["nodes"]:
        assert drawing["atoms"][node["places"][0][0]]["symbol"] == node["name"].rstrip("0123456789")


def _benchmark(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.pop(0)


def test_the_docs_hold_the_measured_numbers_and_no_others() -> None:
    explanations = _benchmark("explanations")
    found = json.loads(explanations.MEASURED.read_text(encoding="utf-8"))
    assert explanations.PAGE.read_text(encoding="utf-8") == explanations.page(found)
    assert found["bibtex_100_rows"]["rows"] == 100
    assert found["bibtex_100_rows"]["processor_seconds"] < 10


def test_planted_pairs_are_told_apart_by_a_score_that_knows_them() -> None:
    explanations = _benchmark("explanations")
    names = list(explanations.LABEL_NAMES)
    perfect = np.zeros((1, len(names), len(names)))
    for d in explanations.planted_dependencies():
        perfect[0, names.index(d.effect), names.index(d.cause)] = 1.0
    labels = np.random.default_rng(0).random((50, len(names))) < 0.5
    assert explanations.planted(perfect, labels)["auc"]["attention"] == 1.0
    assert explanations.planted(1 - perfect, labels)["auc"]["attention"] == 0.0


def test_the_gallery_holds_three_small_pictures_of_each_data_set() -> None:
    gallery = _benchmark("gallery")
    folder = ROOT / "docs" / "gallery"
    for name in ("bibtex", "reuters21578", "sider", "yeast_chipexo", "digits"):
        assert name in gallery.SETS
        for part in ("stages", "to_input", "to_labels"):
            picture = folder / f"{name}_{part}.png"
            assert picture.read_bytes().startswith(b"\x89PNG")
            assert picture.stat().st_size < 150_000
            assert f"({picture.name})" in (folder / "README.md").read_text(encoding="utf-8")
