"""Files of new rows are read as the training's file was, whatever their few rows look like."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from lampnet_command import SMALL, explain_asked, here, lampnet, texts, write_jsonl

from lampnet.persistence.model_folder import load_model

QUICK = ("--epochs", 1, "--set", "training.folds=1", *SMALL, "--quiet")
COUNTRIES = ("New Zealand", "Peru", "Chad")
GRADES = ("1", "2", "A")


def row(i: int) -> dict[str, str]:
    """`member` decides l1, `grade` l2."""
    member, grade = i % 2, GRADES[i % 3]
    cells = {"age": 20 + i % 7, "member": member, "country": COUNTRIES[i // 2 % 3], "grade": grade}
    return {name: str(value) for name, value in (cells | {"l1": member, "l2": int(grade == "1")}).items()}


def write(path: Path, rows: list[dict[str, str]], names: str) -> Path:
    lines = [names, *(",".join(cells[name] for name in names.split(",")) for cells in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


ROWS = [row(i) for i in range(240)]
FEATURES = "age,member,country,grade"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns")
    data = write(folder / "tab.csv", ROWS, f"{FEATURES},l1,l2")
    assert here("train", data, "--out", folder / "model", "--label-columns", "l1,l2", *QUICK) == 0
    return folder


@pytest.fixture
def predicted(folder: Path, capsys: pytest.CaptureFixture[str]):
    """Predictions of the table's model, and its messages."""

    def run(data: Path, *options: object) -> tuple[list[dict[str, Any]], str]:
        capsys.readouterr()
        code = here("predict", folder / "model", data, *options)
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return [json.loads(line) for line in shown.out.splitlines()], shown.err

    return run


def test_a_feature_of_zeros_and_ones_stays_a_feature(folder: Path, tmp_path: Path, predicted) -> None:
    assert load_model(folder / "model").metadata["source"]["columns"] == {
        "features": FEATURES.split(","),
        "categories": ["country", "grade"],
        "labels": ["l1", "l2"],
    }
    new, printed = predicted(write(tmp_path / "new.csv", ROWS[:40], FEATURES))
    assert "warning" not in printed
    assert new == predicted(tmp_path / "new.csv", "--columns", f"features={FEATURES}")[0]
    assert new == predicted(folder / "tab.csv")[0][:40]
    for line, cells in zip(new, ROWS, strict=False):
        assert ("l1" in line["labels"]) == (cells["member"] == "1")


@pytest.mark.parametrize("number", range(6))
def test_a_row_alone_is_predicted_as_among_others(folder: Path, tmp_path: Path, predicted, number: int) -> None:
    # Alone, "New Zealand" looks like text, and the grade "1" like a number or a label.
    alone, printed = predicted(write(tmp_path / "one.csv", ROWS[number : number + 1], FEATURES))
    assert "warning" not in printed
    among = predicted(folder / "tab.csv")[0][number]
    assert alone[0]["labels"] == among["labels"]
    assert alone[0]["scores"] == pytest.approx(among["scores"], abs=1e-5)


def test_missing_columns_are_named_in_a_warning(folder: Path, tmp_path: Path) -> None:
    done = lampnet("predict", folder / "model", write(tmp_path / "few.csv", ROWS[:3], "age,country,grade"))
    assert done.code == 0
    assert len(done.out.splitlines()) == 3
    printed = [line for line in done.err.splitlines() if line.startswith("lampnet: warning: ")]
    assert len(printed) == 1, done.err
    assert "1 column(s) of the training are not there and count as missing values: member" in printed[0]


def test_a_table_of_other_columns_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.csv").write_text("height,weight\n1.5,2\n")
    assert here("predict", folder / "model", tmp_path / "other.csv") == 2
    assert "none of its columns (height, weight) is one that the model was trained on (age," in capsys.readouterr().err


def test_evaluate_and_explain_read_a_copy_as_the_file_itself(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.csv"
    shutil.copy(folder / "tab.csv", copy)
    found = []
    for data in (folder / "tab.csv", copy):
        assert here("evaluate", folder / "model", data, "--json") == 0, capsys.readouterr().err
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["metrics"] == found[1]["metrics"]
    assert [f["split"] for f in found] == ["train", "test"]
    assert explain_asked(folder / "model", copy, tmp_path / "report", "--rows", "0") == 0, capsys.readouterr().err
    written = json.loads((tmp_path / "report" / "explanations.json").read_text())
    assert "member" in json.dumps(written["explanations"][0])


def test_the_model_s_own_parquet_of_numbers(folder: Path, tmp_path: Path, predicted) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    chosen = [cells for cells in ROWS[:12] if cells["grade"] != "A"]
    columns: dict[str, list[object]] = {name: [int(cells[name]) for cells in chosen] for name in ("age", "member")}
    columns |= {"country": [cells["country"] for cells in chosen], "grade": [int(cells["grade"]) for cells in chosen]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "new.parquet")
    same = predicted(write(tmp_path / "new.csv", chosen, FEATURES))[0]
    assert predicted(tmp_path / "new.parquet")[0] == same


def test_training_rows_are_recognised(
    folder: Path, trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = folder / "link.csv"
    if not link.exists():
        link.symlink_to(folder / "tab.csv")
    for given in (folder / "tab.csv", link):
        assert here("evaluate", folder / "model", given, "--json") == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["split"] == "train"
        assert "may have been trained on the train rows" in shown.err
    assert here("evaluate", folder / "model", link) == 0
    assert "link, train: 240 rows" in capsys.readouterr().out
    # A folder's files are known one by one.
    for part, warned in (("train", True), ("test", False)):
        assert here("evaluate", trained / "model", trained / "data" / f"{part}.jsonl", "--json") == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["split"] == part
        assert ("may have been trained" in shown.err) == warned


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of texts, whose columns were guessed."""
    folder = tmp_path_factory.mktemp("films")
    lines = [f"{cells['text']},{' '.join(cells['labels'])}" for cells in texts(80)]
    (folder / "films.csv").write_text("\n".join(["plot,genres", *lines]) + "\n")
    asked = ("train", folder / "films.csv", "--out", folder / "model", "--columns", "separator= ", *QUICK)
    assert here(*asked) == 0
    return folder


def test_labels_may_be_separated_by_blanks(films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load_model(films / "model")
    assert model.label_names == ("cup", "rain", "rome")
    assert model.metadata["source"]["columns"] == {"text": "plot", "labels": "genres", "separator": " "}
    assert here("evaluate", films / "model", films / "films.csv", "--json") == 0
    capsys.readouterr()
    assert here("train", films / "films.csv", "--out", tmp_path / "m", "--columns", "separator=", *QUICK) == 2
    assert "give the sign between them" in capsys.readouterr().err


def test_rows_with_blank_labels_are_unlabelled(
    films: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("plot,genres\na report about rome,\nanother about rain,\n")
    write_jsonl(tmp_path / "new.jsonl", [{"text": "a report about rome", "labels": []}])
    for model, rows in ((films / "model", "new.csv"), (trained / "model", "new.jsonl")):
        assert here("predict", model, tmp_path / rows) == 0, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out.splitlines()[0])["scores"]
        assert explain_asked(model, tmp_path / rows, tmp_path / f"{rows} report", "--rows", "0") == 0, (
            capsys.readouterr().err
        )
        capsys.readouterr()
        assert here("evaluate", model, tmp_path / rows) == 2
        assert "give rows" in capsys.readouterr().err


def test_labels_that_are_asked_for_must_be_the_model_s(
    films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("plot,weather\na report about rome,snow\n")
    asked = (films / "model", tmp_path / "new.csv", tmp_path / "report")
    assert explain_asked(*asked) == 0
    assert explain_asked(*asked, "--label-columns", "weather") == 2
    assert "the label 'snow' never occurs in the training part" in capsys.readouterr().err


def test_a_text_under_another_name_must_be_named(
    films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("story\na report about rome\n")
    assert here("predict", films / "model", tmp_path / "new.csv") == 2
    assert "there is no column 'plot', which the model was trained on; name the one" in capsys.readouterr().err
    assert here("predict", films / "model", tmp_path / "new.csv", "--text-column", "story") == 0


def test_a_prepared_table_keeps_its_columns(films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (films / "films.csv", "--columns", "separator= ", "--set", "model.base_learners=none")
    assert here("prepare", *data, "--out", tmp_path / "my rows") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"next: lampnet train '{tmp_path}/my rows' --out MODEL"
    assert here("train", tmp_path / "my rows", "--out", tmp_path / "model", *QUICK) == 0
    columns = load_model(tmp_path / "model").metadata["source"]["columns"]
    assert columns == {"text": "plot", "labels": "genres", "separator": " "}


@pytest.mark.parametrize("through", ["itself", "a link", "its folder"])
def test_predictions_do_not_overwrite_the_rows(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], through: str
) -> None:
    (tmp_path / "data").mkdir()
    for part in ("train", "test"):
        write_jsonl(tmp_path / "data" / f"{part}.jsonl", texts(9))
    rows = out = tmp_path / "data" / "test.jsonl"
    if through == "a link":
        out = tmp_path / "link"
        out.symlink_to(rows)
    before = rows.read_bytes()
    given = rows.parent if through == "its folder" else rows
    for more in ((), ("--resume",)):
        assert here("predict", trained / "model", given, "--out", out, *more) == 2
        assert "is the file with the rows; give another file" in capsys.readouterr().err
        assert rows.read_bytes() == before


def test_rows_of_unknown_words_get_the_label_priors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("rome", "cup", "rain")
    rows: list[dict[str, object]] = [
        {"features": {names[i % 3]: 1, names[i % 2]: 1}, "labels": [names[i % 3]]} for i in range(60)
    ]
    data = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert here("train", data, "--out", tmp_path / "model", *QUICK) == 0
    new = write_jsonl(tmp_path / "new.jsonl", [{"features": {"snow": 1}}, {"features": {"ice": 2}}])
    capsys.readouterr()
    assert here("predict", tmp_path / "model", new) == 0
    shown = capsys.readouterr()
    first, second = (json.loads(line)["scores"] for line in shown.out.splitlines())
    assert first == second
    assert "2 row(s) had nothing that the model knows" in shown.err


def test_rows_that_are_left_out_are_counted(films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("plot,genres\nall about rome,rome\ncut off\nall about rain,rain\nalso,cut,off\n")
    for asked in (("predict",), ("evaluate",)):
        assert here(*asked, films / "model", bad, "--on-bad-row", "skip") == 0
        assert "bad.csv: 2 of 4 rows could not be read and are left out" in capsys.readouterr().err


def test_a_model_without_its_description(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained / "model", tmp_path / "model")
    (tmp_path / "model" / "model.json").unlink()
    assert here("predict", tmp_path / "model", trained / "data" / "test.jsonl") == 2
    (weights,) = (tmp_path / "model").glob("weights-*")
    assert f"it has no model.json, though {weights.name} is there" in capsys.readouterr().err
    weights.unlink()
    assert here("predict", tmp_path / "model", trained / "data" / "test.jsonl") == 2
    assert "unfinished training" in capsys.readouterr().err
