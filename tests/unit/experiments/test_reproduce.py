"""Results are files that are run once; the page is made from them alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError, DataError, FormatError
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.material import Material
from lampnet.experiments.paper_tables import systems as published_systems
from lampnet.experiments.protocol import RANKING
from lampnet.experiments.reproduce import DEFAULT_SYSTEMS, SEEDS, Task, other_settings, plan, reproduce
from lampnet.experiments.result_files import Summary, file_name, read_result, read_results, write_result, write_whole
from lampnet.experiments.results_page import results_page, write_page
from lampnet.experiments.speed_table import measure, speed_section
from lampnet.experiments.systems import SYSTEMS
from lampnet.experiments.targets import judge
from lampnet.readers.sources import Source

TINY = {"training.epochs": 1, "model.width": 16, "model.heads": 2, "training.threads": 1}


def toy(source: Source, seed: int) -> Material:
    if source.data == "scene":
        raise DataError("the scene is not here")
    rng = np.random.default_rng(0)
    Y = (rng.random((120, 4)) < 0.4).astype(np.float32)
    words = rng.random((120, 10)) < 0.2
    words[:, :4] = Y
    words[:, 9] = True
    rows = sparse.csr_matrix(words.astype(np.float32))
    data = Dataset(name="toy", kind="wordset", rows=rows, labels=sparse.csr_matrix(Y), label_names=tuple("abcd"))
    return Material(source.data, Splits(train=data), seed)


def toy_with_validation(source: Source, seed: int) -> Material:
    """Given validation rows: lampnet's default is a single network then, as the paper's forms are."""
    whole = toy(source, seed)
    assert whole.splits.valid is not None
    return Material(source.data, replace(whole.splits, valid_is_sampled=False), seed)


def result(dataset: str, system: str, seed: int = 0, value: float = 0.5, **scores: float) -> dict[str, Any]:
    """A result as the protocol makes it, all of whose scores are `value`."""
    metrics = dict.fromkeys(METRICS, value)
    metrics |= {name: score for name, score in scores.items() if name in METRICS}
    ranking = dict.fromkeys(RANKING, value) | {name: score for name, score in scores.items() if name in RANKING}
    return {
        "dataset": dataset,
        "system": system,
        "title": SYSTEMS[system].title,
        "seed": seed,
        "finished": True,
        "status": "finished",
        "version": "9.9",
        "machine": {"cpu": "Abacus 3", "cores": 2, "threads": 1, "python": "3", "torch": "2"},
        "data": {"rows": {"train": 8, "valid": 1, "test": 1}, "labels": 4, "prior_graph": "cooccurrence"},
        "paper": dict(metrics),
        "best": dict(metrics),
        "oracle": {name: score + 0.01 for name, score in metrics.items()},
        "validation": {"paper": dict(metrics), "best": dict(metrics)},
        "decisions": dict.fromkeys(METRICS, "top 3"),
        "ranking": ranking,
        "minutes": {"fit": 1.5, "predict": 0.1},
        "size": {"weights": 1000, "bytes": 4000},
        "config": SYSTEMS[system].config("cooccurrence").to_json() if SYSTEMS[system].is_lamp else {},
    }


def row_of(page: str, start: str, after: str = "") -> str:
    """The first table row that starts so, behind the heading `after`."""
    return next(line for line in page[page.index(after) :].splitlines() if line.startswith(f"| {start} |"))


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    tasks = plan(["emotions"], ["constant", "logistic"], seeds=2)
    said: list[str] = []
    first = reproduce(tasks[:3], tmp_path, open_data=toy)
    assert [path.name for path in first] == [
        "emotions--constant--seed0.json",
        "emotions--logistic--seed0.json",
        "emotions--constant--seed1.json",
    ]
    before = {path: path.read_bytes() for path in first}
    second = reproduce(tasks, tmp_path, open_data=toy, say=said.append)
    assert [path.name for path in second] == ["emotions--logistic--seed1.json"]
    assert said[0] == "3 of 4 results are there; 1 to run"
    assert {path: path.read_bytes() for path in first} == before
    assert len(reproduce(tasks[:1], tmp_path, open_data=toy, again=True)) == 1
    stored = read_results(tmp_path)
    assert len(stored) == 4
    assert stored[0]["command"] == "lampnet reproduce --dataset emotions --model constant --seed 0 --again"


def test_systems_with_the_same_settings_share_a_run(tmp_path: Path) -> None:
    write_result(tmp_path, result("emotions", "lamp", value=0.123))  # such a score that its copy is known again
    full, edgeless, lamp = (Task("emotions", name, 0) for name in ("emb-fc", "emb-el", "lamp"))
    (shared,) = reproduce([full], tmp_path, open_data=toy_with_validation)
    same = read_result(shared)
    assert (same["system"], same["same_run_as"], same["best"]["example_f1"]) == ("emb-fc", "lamp", 0.123)
    assert same["command"] == full.command()
    assert other_settings(same) == []
    assert "On Emotions `emb-fc` has the settings of `lamp`, and shares its runs." in results_page(
        read_results(tmp_path)
    )
    # Another graph is another run, and so are other settings, or the same run once more; so is a committee.
    for task, settings in ((edgeless, TINY), (full, TINY), (lamp, TINY)):
        (anew,) = reproduce(
            [task], tmp_path, open_data=toy_with_validation, settings=settings, again=task is not edgeless
        )
        assert "same_run_as" not in read_result(anew)
    full.path(tmp_path).unlink()
    (apart,) = reproduce([full], tmp_path, open_data=toy, settings=TINY)
    assert "same_run_as" not in read_result(apart)


def test_a_data_set_that_is_not_there_does_not_stop_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    written = reproduce(plan(["scene", "emotions"], ["constant"], seeds=1), tmp_path, open_data=toy, say=said.append)
    assert [path.name for path in written] == ["emotions--constant--seed0.json"]
    assert "scene is left out: the scene is not here" in said


def test_a_result_made_with_other_settings_is_told(tmp_path: Path) -> None:
    task = Task("emotions", "lamp", 0)
    reproduce([task], tmp_path, open_data=toy, settings=TINY)
    stored = read_results(tmp_path)[0]
    assert {"model.width", "model.heads", "training.epochs"} <= set(other_settings(stored))
    assert other_settings(stored, TINY) == []
    said: list[str] = []
    assert reproduce([task], tmp_path, open_data=toy, say=said.append) == []
    assert any("model.width" in sentence and "--again" in sentence for sentence in said)
    assert "Made with other settings" in results_page([stored])
    assert "Made with other settings" not in results_page([result("emotions", "lamp")])


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


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_result(tmp_path, result("bibtex", "lamp", 2))
    assert path.name == file_name("bibtex", "lamp", 2)
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("lampnet.experiments.result_files.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "half")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["{", "[]", '{"dataset": "bibtex"}'])
def test_damaged_results_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bibtex--lamp--seed0.json").write_text(text)
    with pytest.raises(FormatError, match=r"bibtex--lamp--seed0\.json"):
        read_results(tmp_path)


def test_mean_spread_and_difference_to_the_paper() -> None:
    runs = [result("bibtex", "lamp", seed, 0.4, example_f1=0.5 + 0.01 * seed) for seed in range(3)]
    runs += [result("bibtex", "fmp-pr", 0, 0.4), result("bibtex", "constant", 0, 0.1)]
    page = results_page(runs)
    # Published: FMP + LaMP_pr 0.447 is the best example-F1 on Bibtex.
    assert row_of(page, "FMP + LaMP_pr", "### Table 1").endswith("| 0.447 / 0.400 (-0.047) |")
    assert row_of(page, "LaMP (lampnet's default) (`lamp`)", "### Table 1").endswith("| 0.510 ± 0.010 (+0.063) |")
    assert row_of(page, "**best published**", "### Table 1").endswith("| **0.447** |")
    assert row_of(page, "label priors (`constant`)", "### Table 1").endswith("| 0.100 (-0.347) |")


def test_every_published_system_and_the_constant_guess_are_in_every_table() -> None:
    page = results_page([result(d, s) for d in ("bibtex", "sider") for s in ("lamp", "constant")])
    sections = re.split(r"^### ", page, flags=re.MULTILINE)
    for metric, title in zip(METRICS, ("subset", "Hamming", "example-F1", "micro-F1", "macro-F1"), strict=True):
        own = next(part for part in sections if title in part.splitlines()[0])
        for system in published_systems(metric):
            assert f"| {system} |" in own
    tables = [block for block in page.split("\n\n") if block.startswith("| system")]
    assert len(tables) == 5 + 2 * 3
    assert all("constant" in block for block in tables)
    assert all("maAUC" in block and "mAP" in block for block in tables if "fit, minutes" in block)


def test_oracle_scores_stay_apart() -> None:
    page = results_page([result("emotions", "lamp", value=0.25)])
    before, after = page.split("Oracle, thresholds chosen on the TEST rows")
    assert "0.260" not in before
    assert "0.260" in after


def test_targets_are_computed() -> None:
    summary = Summary(
        [
            result("bibtex", "lamp", value=0.5, example_f1=0.5201, macro_f1=0.4289),
            result("bibtex", "logistic", value=0.45, micro_f1=0.6),
            result("yeast_chipexo", "emb-fc", value=0.8),
            result("yeast_chipexo", "emb-el", value=0.7),
            result("yeast_chipexo", "mlp", value=0.75),
        ]
    )
    judged = {(t.dataset, t.score, t.asked): t.reached for t in judge(summary)}
    assert judged["bibtex", "example_f1", "lamp at least 0.52"] is True
    assert judged["bibtex", "macro_f1", "lamp at least 0.43"] is False
    assert judged["bibtex", "micro_f1", "lamp above every baseline"] is False
    assert judged["bibtex", "example_f1", "lamp above every baseline"] is True
    assert judged["yeast_chipexo", "roc_auc_macro", "emb-fc above emb-el above mlp"] is False
    assert judged["sider", "roc_auc_macro", "lamp at least 0.66"] is None


def test_the_page_shows_targets_as_reached_or_missed() -> None:
    page = results_page([result("bibtex", "lamp", value=0.5, example_f1=0.53, macro_f1=0.4)])
    rows = [line for line in page.splitlines() if "lamp at least" in line]
    assert rows[0] == "| Bibtex | ebF1 | lamp at least 0.52 | 0.530 (+0.010) | reached |"
    assert [row.split(" | ")[-1] for row in rows] == ["reached |", "**missed** |", "**missed** |"]
    assert "1 of 3 measured targets are reached" in page
    assert "SIDER" in next(line for line in page.splitlines() if "have no result yet" in line)


def test_what_was_tried_is_told_where_a_target_is_missed_and_only_there(tmp_path: Path) -> None:
    tried = {"dataset": "bibtex", "rows": 4880, "trials": {"a": {"scores": dict.fromkeys(METRICS, 0.25)}}}
    tried["trials"]["b"] = {"scores": dict.fromkeys(METRICS, 0.75)}
    write_whole(tmp_path / "trials" / "bibtex.json", json.dumps(tried))
    write_result(tmp_path, result("bibtex", "lamp", value=0.5))
    write_page(tmp_path, tmp_path / "page.md")
    section = (tmp_path / "page.md").read_text().split("## What was tried where a target is missed")[1]
    assert "### bibtex: 4,880 labelled rows" in section
    names = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    assert names[0] == "| tried"
    assert names.index("| b") < names.index("| a"), "the best comes first"
    assert any("seed 0" in name for name in names), "LaMP's own validation score stands beside"
    write_result(tmp_path, result("bibtex", "lamp", value=0.9))
    write_page(tmp_path, tmp_path / "page.md")
    assert "What was tried" not in (tmp_path / "page.md").read_text()
    write_whole(tmp_path / "trials" / "bibtex.json", "[]")
    with pytest.raises(FormatError, match="no file of trials"):
        write_page(tmp_path, tmp_path / "page.md")


def test_other_tools_stand_under_lamp_where_they_have_run(tmp_path: Path) -> None:
    tool = result("bibtex", "svm", value=0.25) | {"title": "SVM", "system": "theirs", "tool_version": "0.7.2"}
    write_result(tmp_path / "other_tools", tool)
    for dataset in ("bibtex", "emotions"):
        write_result(tmp_path, result(dataset, "lamp", value=0.5))
    write_page(tmp_path, tmp_path / "page.md")
    section = (tmp_path / "page.md").read_text().split("## Beside other tools")[1].split("## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[:5] for row in rows] == [
        ["| Bibtex", "**LaMP**", "0.500", "0.500", "0.500"],
        ["| ", "SVM (theirs 0.7.2)", "0.250", "0.250", "0.250"],
    ]
    write_result(tmp_path / "other_tools", tool | {"finished": False})
    write_page(tmp_path, tmp_path / "page.md")
    assert "other tools" not in (tmp_path / "page.md").read_text()


def test_methods_that_did_not_finish_have_a_row() -> None:
    late = {
        key: result("delicious", "chain")[key] for key in ("dataset", "system", "seed", "version", "machine", "data")
    }
    late |= {"finished": False, "status": "did not finish in 60 minutes"}
    page = results_page([late, result("delicious", "lamp")])
    assert "did not finish in 60 minutes" in row_of(page, "`chain`", "### Delicious")
    assert "did not finish in 60 minutes" in row_of(page, "classifier chain (`chain`)", "### Table 1")


def test_networks_that_ran_out_of_time_are_named() -> None:
    late = result("bibtex", "seq2seq") | {"status": "time budget", "time_budget_minutes": 12.5}
    page = results_page([late, result("bibtex", "mlp"), result("emotions", "mlp")])
    assert "Ended by their time budget: `seq2seq` (12.5 minutes)." in page
    assert page.count("Ended by their time budget") == 1


def test_the_page_includes_the_notes_and_names_the_machine(tmp_path: Path) -> None:
    write_result(tmp_path / "results", result("emotions", "lamp"))
    notes, page = tmp_path / "docs" / "research-notes.md", tmp_path / "docs" / "results.md"
    write_page(tmp_path / "results", page, notes)
    assert "Abacus 3" in page.read_text()
    assert "tried" not in page.read_text()
    notes.write_text("## What was tried\n\nfive things\n")
    write_page(tmp_path / "results", page, notes)
    assert "## What was tried\n\nfive things" in page.read_text()
    write_page(tmp_path / "nothing", page)
    assert "no results yet" in page.read_text()


def test_the_speed_table(tmp_path: Path) -> None:
    own = measure(toy(Source(data="emotions"), 0), sample=40, turns=1, settings=TINY)
    assert own["rows_timed"] == {"train": 40, "test": 12}
    for part in ("training", "testing"):
        ratio = own[f"seq2seq_{part}_minutes_per_epoch"] / own[f"{part}_minutes_per_epoch"]
        assert own[f"{part}_speedup_over_seq2seq"] == pytest.approx(ratio, rel=0.5, abs=0.1)
    known = {
        "training_minutes_per_epoch": 2.0, "testing_minutes_per_epoch": 0.5, "training_speedup_over_seq2seq": 1.5,
        "testing_speedup_over_seq2seq": 4.0, "seq2seq_training_minutes_per_epoch": 3.0,
        "seq2seq_testing_minutes_per_epoch": 2.0,
    }  # fmt: skip
    machine = {"cpu": "Abacus 3", "threads": 1}
    section = speed_section({"machine": machine, "datasets": {"bibtex": known}})
    assert "| Bibtex | 2.000 | 3.000 | 1.5x | 2.1x | 0.500 | 2.000 | 4.0x | 2.1x |" in section
    folder = tmp_path / "results"
    write_whole(folder / "speed.json", json.dumps({"machine": machine, "datasets": {"bibtex": known}}))
    write_page(folder, tmp_path / "page.md")
    assert "## Speed" in (tmp_path / "page.md").read_text()
