"""`lampnet reproduce` runs, resumes and writes its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lampnet.cli.app import run


def test_run_resume_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    where = ["--out", str(out), "--page", str(page)]
    asked = ["reproduce", "--dataset", "digits", "--model", "constant", *where]
    assert run([*asked, "--seeds", "2"]) == 0
    assert "0 of 2 results are there; 2 to run" in capsys.readouterr().err
    files = sorted(path.name for path in out.iterdir())
    assert files == ["digits--constant--seed0.json", "digits--constant--seed1.json"]
    stored = json.loads((out / files[1]).read_text())
    assert stored["seed"] == 1
    assert stored["data"]["rows"] == {"train": 2000, "valid": 400, "test": 400}
    text = page.read_text()
    assert "### Digit scenes" in text
    assert run([*asked, "--seeds", "2"]) == 0
    assert "2 of 2 results are there; 0 to run" in capsys.readouterr().err
    (out / files[1]).unlink()
    assert run(["reproduce", "--page-only", "--quiet", *where]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in out.iterdir()) == files[:1]
    assert page.read_text() != text


def test_outside_a_clone_results_are_written_but_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lampnet.cli.clone.benchmarks_folder", lambda: None)
    out, page = tmp_path / "results", tmp_path / "results.md"
    where = ["--out", str(out), "--page", str(page)]
    assert run(["reproduce", "--dataset", "digits", "--model", "constant", "--seeds", "1", *where]) == 0
    assert "in a clone of the repository only" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*.*")] == ["digits--constant--seed0.json"]
    for command in (["reproduce", "--page-only", *where], ["bench", "--quick"]):
        assert run(command) == 2
        message = capsys.readouterr().err
        assert "a clone of the repository" in message
        assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "bibtx"], "did you mean 'bibtex'"),
        (["--dataset", "digits", "--model", "fpm-fc"], "did you mean 'fmp-fc'"),
        (["--dataset", "digits", "--seeds", "0"], "at least 1"),
        (["--page-only"], "is not a folder of results"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--out", str(tmp_path / "results"), "--page", str(tmp_path / "page.md")]
    assert run(["reproduce", *where, *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_known_labels_are_compared_resumed_and_shown(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (data_root / "emotions").is_dir():
        pytest.skip(f"the data set emotions is not in {data_root}; set LAMPNET_DATA")
    out, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    where = ["--out", str(out), "--page", str(page), "--data-root", str(data_root)]
    asked = ["reproduce", "--known", "emotions", "--seeds", "1", *where]
    assert run([*asked, "--model", "nothing", "--model", "chain"]) == 0
    assert "0 of 2 results are there; 2 to run" in capsys.readouterr().err
    files = sorted(path.name for path in (out / "known").glob("*.json"))
    assert files == ["emotions--chain--seed0.json", "emotions--nothing--seed0.json"]
    chain, nothing = (json.loads((out / "known" / name).read_text())["known"] for name in files)
    assert [s["revealed"] for s in chain] == [s["revealed"] for s in nothing]
    assert chain[0]["rows"] == nothing[0]["rows"] > 50
    assert run([*asked, "--model", "nothing", "--model", "chain"]) == 0
    assert "2 of 2 results are there; 0 to run" in capsys.readouterr().err
    written = (tmp_path / "docs" / "known-labels.md").read_text(encoding="utf-8")
    assert "Not measured in this regime: emotions" in written  # two of the systems are no comparison
    assert run(["reproduce", "--known", "--page-only", "--out", str(tmp_path / "nowhere")]) == 2
    assert "no results on known labels" in capsys.readouterr().err
