"""The page is made from result files alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lampnet.config import Config
from lampnet.errors import FormatError
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.result_files import write_json, write_result
from pages.results import results_page, write_page
from pages.summary import Summary
from pages.targets import check_targets

MakeResult = Callable[..., dict[str, Any]]


def row_of(page: str, start: str, after: str = "") -> str:
    """The first table row that starts so, behind the heading `after`."""
    return next(line for line in page[page.index(after) :].splitlines() if line.startswith(f"| {start} |"))


def test_every_table_has_the_constant_guess(result: MakeResult) -> None:
    page = results_page([result(d, s) for d in ("bibtex", "sider") for s in ("lamp", "constant")])
    tables = [block for block in page.split("\n\n") if block.startswith("| system")]
    assert len(tables) == 2 * 3
    assert all("constant" in block for block in tables)
    assert all("maAUC" in block and "mAP" in block for block in tables if "fit, minutes" in block)


def test_oracle_scores_stay_apart(result: MakeResult) -> None:
    page = results_page([result("emotions", "lamp", value=0.25)])
    before, after = page.split("Oracle: thresholds chosen on the TEST rows")
    assert "0.260" not in before
    assert "0.260" in after


def test_targets_are_computed(result: MakeResult) -> None:
    summary = Summary(
        [
            result("bibtex", "lamp", value=0.5, example_f1=0.5551, macro_f1=0.4789),
            result("bibtex", "logistic", value=0.45, micro_f1=0.6),
            result("yeast_chipexo", "emb-fc", value=0.8),
            result("yeast_chipexo", "emb-el", value=0.7),
            result("yeast_chipexo", "mlp", value=0.75),
        ]
    )
    checked = {(t.dataset, t.score, t.asked): t.reached for t in check_targets(summary)}
    assert checked["bibtex", "example_f1", "lamp at least 0.555"] is True
    assert checked["bibtex", "macro_f1", "lamp at least 0.48"] is False
    assert checked["bibtex", "micro_f1", "lamp above every baseline"] is False
    assert checked["bibtex", "example_f1", "lamp above every baseline"] is True
    assert checked["yeast_chipexo", "roc_auc_macro", "emb-fc above emb-el above mlp"] is False
    assert checked["sider", "roc_auc_macro", "lamp at least 0.72"] is None


def test_the_page_shows_targets_as_reached_or_missed(result: MakeResult) -> None:
    page = results_page([result("bibtex", "lamp", value=0.5, example_f1=0.565, macro_f1=0.4)])
    rows = [line for line in page.splitlines() if "lamp at least" in line]
    assert rows[0] == "| Bibtex | ebF1 | lamp at least 0.555 | 0.565 (+0.0100) | reached |"
    assert [row.split(" | ")[-1] for row in rows] == ["reached |", "**missed** |", "**missed** |"]
    assert "1 of 3 measured targets are reached" in page
    assert "SIDER" in next(line for line in page.splitlines() if "have no result yet" in line)


def test_what_was_tried_is_shown_where_a_target_is_missed_and_only_there(result: MakeResult, tmp_path: Path) -> None:
    tried = {"dataset": "bibtex", "rows": 4880, "trials": {"a": {"scores": dict.fromkeys(METRICS, 0.25)}}}
    tried["trials"]["b"] = {"scores": dict.fromkeys(METRICS, 0.75)}
    write_json(tmp_path / "trials" / "bibtex.json", tried)
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
    write_json(tmp_path / "trials" / "bibtex.json", [])
    with pytest.raises(FormatError, match="not a file of trials"):
        write_page(tmp_path, tmp_path / "page.md")


def test_other_tools_stand_under_lamp_where_they_have_run(result: MakeResult, tmp_path: Path) -> None:
    tool = result("bibtex", "svm", value=0.25) | {"title": "SVM", "system": "theirs", "tool_version": "0.7.2"}
    write_result(tmp_path / "other_tools", tool)
    for dataset in ("bibtex", "emotions"):
        write_result(tmp_path, result(dataset, "lamp", value=0.5))
    write_page(tmp_path, tmp_path / "page.md")
    section = (tmp_path / "page.md").read_text().split("## Compared with other tools")[1].split("## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[:5] for row in rows] == [
        ["| Bibtex", "**LaMP**", "0.500", "0.500", "0.500"],
        ["| ", "SVM (theirs 0.7.2)", "0.250", "0.250", "0.250"],
    ]
    write_result(tmp_path / "other_tools", tool | {"finished": False})
    write_page(tmp_path, tmp_path / "page.md")
    assert "other tools" not in (tmp_path / "page.md").read_text()


def test_methods_that_did_not_finish_have_a_row(result: MakeResult) -> None:
    late = {
        key: result("delicious", "chain")[key] for key in ("dataset", "system", "seed", "version", "machine", "data")
    }
    late |= {"finished": False, "status": "did not finish in 60 minutes"}
    page = results_page([late, result("delicious", "lamp")])
    assert "did not finish in 60 minutes" in row_of(page, "`chain`", "### Delicious")


def test_networks_that_ran_out_of_time_are_named(result: MakeResult) -> None:
    late = result("bibtex", "seq2seq") | {"status": "time budget", "time_budget_minutes": 12.5}
    page = results_page([late, result("bibtex", "mlp"), result("emotions", "mlp")])
    assert "Stopped by the time budget: `seq2seq` (12.5 minutes)." in page
    assert page.count("Stopped by the time budget") == 1


def test_the_page_includes_the_notes_and_names_the_machine(result: MakeResult, tmp_path: Path) -> None:
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


def test_runs_that_are_older_than_a_setting_are_named(result: MakeResult) -> None:
    now = json.loads(json.dumps(Config().to_json()))
    before = json.loads(json.dumps(now))
    del before["training"]["keep_network"]
    old, new = result("emotions", "lamp") | {"config": before}, result("scene", "lamp") | {"config": now}
    assert "Not run again" not in results_page([new])
    page = results_page([old, new, result("emotions", "svm") | {"config": {}}])
    assert "the scores and minutes of `lamp` on Emotions. They were" in page
    assert "`training.keep_network`" in page
