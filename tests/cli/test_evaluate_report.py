"""`lampnet evaluate`: intervals, labels, pairs, promises and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lampnet_command import explain_asked, here

Capture = pytest.CaptureFixture[str]


def test_json_has_intervals_labels_pairs_and_calibration(trained: Path, capsys: Capture) -> None:
    rows = trained / "data" / "test.jsonl"
    assert here("evaluate", trained / "model", rows, "--json", "--decision", "recall>=0.5") == 0
    found = json.loads(capsys.readouterr().out)
    for part in ("metrics", "best"):
        for metric, score in found[part].items():
            low, high = found["intervals"][part][metric]
            assert low <= score <= high
    assert len(found["by_label"]) == found["labels"]
    assert sum(one["support"] for one in found["by_label"]) > 0
    assert all(one["few"] for one in found["by_label"] if one["support"] < 10)
    assert {"ece", "ece_above_.01", "ece_by_chance", "brier", "bins"} == set(found["calibration"])
    assert found["promise"]["decision"] == found["label_sets"] == "recall>=0.5"
    assert 0 <= found["promise"]["recall"] <= 1
    assert here("evaluate", trained / "model", rows) == 0
    shown = capsys.readouterr().out
    for expected in ("95% interval", "label by label", "calibration: expected error", "too few rows"):
        assert expected in shown


def test_the_page_is_not_written_into_a_folder_that_another_holds(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from lampnet.runtime.folder_lock import claimed

    asked = ("evaluate", trained / "model", trained / "data" / "test.jsonl", "--out", tmp_path / "out")
    with ThreadPoolExecutor(1) as pool, claimed(tmp_path / "out"):
        assert pool.submit(here, *asked).result() == 2
    assert "is writing to" in capsys.readouterr().err


def test_the_page_is_written_once_and_whole(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = ("evaluate", trained / "model", trained / "data" / "test.jsonl", "--out", tmp_path / "out")
    assert here(*asked) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Label by label" in page
    assert "<svg" in page
    assert "<script" not in page
    capsys.readouterr()
    assert here(*asked) == 2
    assert "report.html is there already; add --overwrite" in capsys.readouterr().err
    assert here(*asked, "--overwrite") == 0
    (tmp_path / "file").write_text("mine")
    assert here(*asked[:-1], tmp_path / "file") == 2
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_rows_of_the_training_are_called_so_in_explanations(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    for part, said in (("train", True), ("test", False)):
        assert explain_asked(trained / "model", trained / "data" / f"{part}.jsonl", tmp_path / part, "--rows", "0") == 0
        assert ("the model was trained on the train rows" in capsys.readouterr().err) == said
        page = (tmp_path / part / "test_set.html").read_text()
        assert f"the whole {part} set" in page
        assert f'"trainedOn":{str(said).lower()}' in page
