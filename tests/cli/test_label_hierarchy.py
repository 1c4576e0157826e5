"""`lampnet train --label-hierarchy`, and what the other commands and the service make of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lampnet_command import here, write_jsonl

from lampnet.errors import DataError
from lampnet.inference.match_schema import known_states
from lampnet.persistence.model_folder import load_model
from lampnet.service import answers
from lampnet.service.request_rows import read_rows, read_states, states_or_nothing

PARENTS = {"beagle": "dog", "dog": "animal", "oak": "plant"}
FILE = "child,parent\n" + "".join(f"{child},{parent}\n" for child, parent in PARENTS.items())
QUICK = ("--preset", "quick", "--set", "training.threads=1", "--set", "model.base_learners=linear", "--quiet")


def rows(n: int, seed: int, whole: bool = True) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for _ in range(n):
        labels = [name for name in ("beagle", "oak", "rock") if random.random() < 0.35]
        words = [*labels, *random.choice(["the", "a", "of", "beagle", "oak"], 3)]
        while whole and (more := {PARENTS[name] for name in labels if name in PARENTS} - set(labels)):
            labels += sorted(more)
        made.append({"text": " ".join(words), "labels": labels})
    return made


def keeps(labels: list[str]) -> bool:
    return all(PARENTS.get(name, name) in labels for name in labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hierarchy")
    (made / "h.csv").write_text(FILE)
    (made / "data").mkdir()
    write_jsonl(made / "data" / "train.jsonl", rows(80, 0))
    write_jsonl(made / "data" / "test.jsonl", rows(30, 1, whole=False))
    assert here("train", made / "data", "--label-hierarchy", made / "h.csv", *QUICK, "--out", made / "m") == 0
    return made


def predicted(folder: Path, out: Path, *options: object) -> list[dict[str, Any]]:
    new = out.parent / "new.jsonl"
    write_jsonl(new, [{"text": row["text"]} for row in rows(40, 2)])
    assert here("predict", folder / "m", new, "--out", out, *options) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--top-k", 1),
        ("--top-k", 2),
        ("--threshold", 0.3),
        ("--at-least-one",),
        ("--decision", "recall>=0.5"),
        ("--decision", "whole set"),
    ],
)
def test_predictions_have_no_child_alone(folder: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    found = predicted(folder, tmp_path / "p.jsonl", *options)
    assert all(keeps(row["labels"]) for row in found)
    assert any(row["labels"] for row in found)
    if options[:1] == ("--top-k",):
        assert {len(row["labels"]) for row in found} == {options[1]}


def test_the_truth_is_completed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("evaluate", folder / "m", folder / "data", "--json") == 0
    shown = capsys.readouterr()
    scores = json.loads(shown.out)
    lacking = sum(not keeps(row["labels"]) for row in rows(30, 1, whole=False))
    assert f"label hierarchy: {lacking} rows have a label without its parents, which are added" in shown.err
    support = {one["label"]: one["support"] for one in scores["by_label"]}
    assert support["animal"] == support["dog"] == support["beagle"] > 0


def test_the_service_answers_by_it(folder: Path) -> None:
    model = load_model(folder / "m")
    data = read_rows(model, [{"text": "the beagle of a rock"}, {"text": "oak oak"}])
    logits = model.logits(data.rows)
    known = [{"dog": False}, {"oak": True}]
    states = read_states(model, data, known)
    assert states is not None
    made = answers.predictions(model, data, logits, states, "example_f1", answers.AskedSets())
    assert "beagle" not in made[0]["labels"]
    assert "animal" not in {"beagle", "dog"} & set(made[0]["labels"])
    assert {"oak", "plant"} <= set(made[1]["labels"])
    suggested = answers.suggestions(model, data, logits, states, 10)
    assert not {"beagle", "dog"} & {one["label"] for one in suggested[0]}
    assert not {"oak", "plant"} & {one["label"] for one in suggested[1]}
    clash = read_states(model, data, [{"beagle": True, "animal": False}, None])
    with pytest.raises(DataError, match="'beagle' is true and 'animal'"):
        states_or_nothing(model, clash, 2)
    with pytest.raises(DataError, match="'beagle' is true and 'animal'"):
        answers.predictions(model, data, logits, clash, "example_f1", answers.AskedSets())
    assert known_states(model, data) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("beagle,wolf\n", "'wolf' is not one of the"),
        ("beagle,dog\ndog,beagle\n", "goes round in a circle"),
        ("", "the file holds no edge"),
    ],
)
def test_files_that_are_no_hierarchy(
    folder: Path, text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.csv"
    file.write_text(text)
    assert here("train", folder / "data", "--label-hierarchy", file, *QUICK, "--out", tmp_path / "x") == 2
    shown = capsys.readouterr().err
    assert problem in shown
    assert len(shown.splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_more_rows_and_the_same_run(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, file = folder / "data" / "train.jsonl", folder / "h.csv"
    start = ("train", data, "--start", folder / "m", "--quiet", "--out", tmp_path / "on")
    assert here(*start, "--label-hierarchy", file) == 2
    assert "--label-hierarchy is as the model" in capsys.readouterr().err
    assert here(*start) == 0
    before, on = load_model(folder / "m").hierarchy, load_model(tmp_path / "on").hierarchy
    assert before is not None
    assert on is not None
    assert on.edges == before.edges
    again = ("train", folder / "data", *QUICK, "--out", folder / "m", "--resume")
    assert here(*again) == 2
    assert "was trained with label_graph=hierarchy, now full was given" in capsys.readouterr().err
    assert here(*again, "--label-hierarchy", file) == 0
    assert here(*again[:-3], "--out", tmp_path / "x", "--label-graph", "hierarchy") == 2
    assert "give one (--label-hierarchy FILE)" in capsys.readouterr().err


def test_mapped_rows_keep_it_or_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for whole in (True, False):
        (source := tmp_path / f"{whole}").mkdir()
        write_jsonl(source / "train.jsonl", rows(60, 3, whole) + rows(20, 4))
        write_jsonl(source / "valid.jsonl", rows(20, 5))
        prepared = tmp_path / f"prepared {whole}"
        assert here("prepare", source, "--out", prepared, "--preset", "quick") == 0
        trained = ("train", prepared, "--label-hierarchy", folder / "h.csv", "--out", tmp_path / f"m {whole}")
        capsys.readouterr()
        assert here(*trained, "--preset", "quick", "--set", "training.threads=1", "--quiet") == (0 if whole else 2)
        if not whole:
            assert "without its parent" in capsys.readouterr().err
    model = load_model(tmp_path / "m True")
    proba = model.proba(["the beagle", "oak and beagle", "rock"])
    at = model.label_names.index
    for child, parent in PARENTS.items():
        assert (proba[:, at(child)] <= proba[:, at(parent)]).all()
