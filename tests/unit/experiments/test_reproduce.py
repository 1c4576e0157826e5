"""Results are files; only missing ones are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from bench.speed_table import measure
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import CheckpointError, ConfigError, DataError, FormatError
from lampnet.experiments.material import Material
from lampnet.experiments.reproduce import DEFAULT_SYSTEMS, SEEDS, Task, other_settings, plan, reproduce
from lampnet.experiments.result_files import file_name, read_result, read_results, write_json, write_result
from lampnet.runtime.folder_lock import claimed
from pages.results import results_page

TINY = {"training.epochs": 1, "model.width": 16, "model.heads": 2, "training.threads": 1}


MakeResult = Callable[..., dict[str, Any]]


def toy(dataset: str, seed: int) -> Material:
    if dataset == "scene":
        raise DataError("the scene is not here")
    rng = np.random.default_rng(0)
    Y = (rng.random((120, 4)) < 0.4).astype(np.float32)
    words = rng.random((120, 10)) < 0.2
    words[:, :4] = Y
    words[:, 9] = True
    rows = sparse.csr_matrix(words.astype(np.float32))
    data = Dataset(name="toy", kind="wordset", rows=rows, labels=sparse.csr_matrix(Y), label_names=tuple("abcd"))
    return Material(dataset, Splits(train=data), seed)


def toy_with_validation(dataset: str, seed: int) -> Material:
    """Given validation rows: lampnet's default is a single network then, as the paper's forms are."""
    whole = toy(dataset, seed)
    assert whole.splits.valid is not None
    return Material(dataset, replace(whole.splits, valid_is_sampled=False), seed)


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    tasks = plan(["emotions"], ["constant", "logistic"], seeds=2)
    logged: list[str] = []
    first = reproduce(tasks[:3], tmp_path, open_data=toy)
    assert [path.name for path in first] == [
        "emotions--constant--seed0.json",
        "emotions--logistic--seed0.json",
        "emotions--constant--seed1.json",
    ]
    before = {path: path.read_bytes() for path in first}
    second = reproduce(tasks, tmp_path, open_data=toy, log=logged.append)
    assert [path.name for path in second] == ["emotions--logistic--seed1.json"]
    assert logged[0] == "3 of 4 results are there; 1 to run"
    assert {path: path.read_bytes() for path in first} == before
    assert len(reproduce(tasks[:1], tmp_path, open_data=toy, again=True)) == 1
    stored = read_results(tmp_path)
    assert len(stored) == 4
    assert stored[0]["command"] == "lampnet reproduce --dataset emotions --model constant --seed 0 --again"


def test_a_result_that_another_process_is_at_is_left_to_it(tmp_path: Path) -> None:
    tasks = plan(["emotions"], ["constant", "logistic"], seeds=1)
    left_over, others = tmp_path / ".emotions--logistic--seed0.json.1.tmp", tmp_path / ".other.json.1.tmp"
    for path in (left_over, others):
        path.write_text("half")
    logged: list[str] = []
    written: list[Path] = []
    with claimed(tmp_path, tasks[0].path(tmp_path).name):
        worker = Thread(target=lambda: written.extend(reproduce(tasks, tmp_path, open_data=toy, log=logged.append)))
        worker.start()
        worker.join()
    assert [path.name for path in written] == ["emotions--logistic--seed0.json"]
    assert any("constant on emotions is left out: another run" in line for line in logged), logged
    # What a killed process left of this result is gone; the rest may belong to a process that runs.
    assert sorted(path.name for path in tmp_path.iterdir()) == [others.name, written[0].name]


def test_a_data_set_that_is_not_there_does_not_stop_the_others(tmp_path: Path) -> None:
    logged: list[str] = []
    written = reproduce(plan(["scene", "emotions"], ["constant"], seeds=1), tmp_path, open_data=toy, log=logged.append)
    assert [path.name for path in written] == ["emotions--constant--seed0.json"]
    assert "scene is left out: the scene is not here" in logged


def test_the_whole_plan() -> None:
    tasks = plan()
    assert len(tasks) == len(DEFAULT_SYSTEMS) * sum(SEEDS.values())
    assert {task.seed for task in tasks if task.dataset == "sider"} == {0, 1, 2, 3, 4}
    assert {task.system for task in plan(["bibtex"], ["variants"], seeds=1)} == {
        "emb-el", "emb-fc", "emb-pr", "fmp-el", "fmp-fc", "fmp-pr",
    }  # fmt: skip
    assert [task.seed for task in plan(["bibtex"], ["lamp"], only_seeds=[7])] == [7]
    with pytest.raises(DataError, match="did you mean 'bibtex'"):
        plan(["bibtx"])
    with pytest.raises(ConfigError, match="at least 1"):
        plan(seeds=0)


def test_files_are_written_whole_or_not_at_all(
    result: MakeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_result(tmp_path, result("bibtex", "lamp", 2))
    assert path.name == file_name("bibtex", "lamp", 2)
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("lampnet.runtime.atomic_files.os.fsync", fail)
    with pytest.raises(CheckpointError, match="disk full"):
        write_json(path, "half")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["{", "[]", '{"dataset": "bibtex"}'])
def test_damaged_results_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bibtex--lamp--seed0.json").write_text(text)
    with pytest.raises(FormatError, match=r"bibtex--lamp--seed0\.json"):
        read_results(tmp_path)


def test_systems_with_the_same_settings_share_a_run(result: MakeResult, tmp_path: Path) -> None:
    write_result(tmp_path, result("emotions", "lamp", value=0.123))  # a score that identifies its copy
    full, edgeless, lamp = (Task("emotions", name, 0) for name in ("emb-fc", "emb-el", "lamp"))
    (shared,) = reproduce([full], tmp_path, open_data=toy_with_validation)
    same = read_result(shared)
    assert (same["system"], same["same_run_as"], same["best"]["example_f1"]) == ("emb-fc", "lamp", 0.123)
    assert same["command"] == full.command()
    assert other_settings(same) == []
    assert "On Emotions `emb-fc` has the same settings as `lamp` and shares its runs." in results_page(
        read_results(tmp_path)
    )
    # Once the other one was run again, the two are no longer the same.
    write_result(tmp_path, result("emotions", "lamp", value=0.456))
    assert "shares its runs" not in results_page(read_results(tmp_path))
    # Another graph is another run, and so are other settings, or the same run once more; so is an ensemble.
    for task, settings in ((edgeless, TINY), (full, TINY), (lamp, TINY)):
        (anew,) = reproduce(
            [task], tmp_path, open_data=toy_with_validation, settings=settings, again=task is not edgeless
        )
        assert "same_run_as" not in read_result(anew)
    full.path(tmp_path).unlink()
    (apart,) = reproduce([full], tmp_path, open_data=toy, settings=TINY)
    assert "same_run_as" not in read_result(apart)


def test_a_result_made_with_other_settings_is_named(result: MakeResult, tmp_path: Path) -> None:
    task = Task("emotions", "lamp", 0)
    reproduce([task], tmp_path, open_data=toy, settings=TINY)
    stored = read_results(tmp_path)[0]
    assert {"model.width", "model.heads", "training.epochs"} <= set(other_settings(stored))
    assert other_settings(stored, TINY) == []
    logged: list[str] = []
    assert reproduce([task], tmp_path, open_data=toy, log=logged.append) == []
    assert any("model.width" in sentence and "--again" in sentence for sentence in logged)
    assert "Run with settings that differ" in results_page([stored])
    assert "Run with settings that differ" not in results_page([result("emotions", "lamp")])


def test_settings_of_a_network_do_not_tell_two_stacks_apart(tmp_path: Path) -> None:
    quick = {"preset_name": "quick", "model.width": 8, "training.patience": 9}
    (path,) = reproduce([Task("emotions", "stack", 0)], tmp_path, open_data=toy)
    stored = read_result(path)
    assert other_settings(stored) == []
    for name, value in quick.items():
        section, _, key = name.rpartition(".")
        (stored["config"][section] if section else stored["config"])[key] = value
    assert other_settings(stored) == []
    stored["config"]["model"]["base_learners"] = ["linear"]
    assert other_settings(stored) == ["model.base_learners"]


def test_speed_is_measured_on_a_sample() -> None:
    own = measure(toy("emotions", 0), sample=40, turns=1, decoder_rows=96, settings=TINY)
    assert own["rows_timed"] == {"train": 40, "test": 12}
    assert set(own["training_minutes"]) == {"seq2seq", "paper", "single"}
    assert set(own["testing_minutes"]) == {"seq2seq", "paper", "single", "ensemble", "base_learners", "default"}
    assert own["members"] == 5
    assert all(minutes >= 0 for part in ("training", "testing") for minutes in own[f"{part}_minutes"].values())
    assert own["labels_named"] == pytest.approx(own["labels_true"], rel=0.15)
    assert own["operations"]["seq2seq"] > 0
