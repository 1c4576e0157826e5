"""A table with two texts, a number and a category: from the README's commands to the pages."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from lampnet_command import SMALL, explain_asked, here

from lampnet import LaMPClassifier
from lampnet.errors import DataError
from lampnet.pipeline.mapped_rows import open_prepared

ROOT = Path(__file__).parents[2]
FILMS = ROOT / "examples" / "films.csv"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films") / "model"
    options = ("--epochs", 1, "--set", "training.folds=1", "--set", "training.keep_network=always")
    assert here("train", FILMS, "--out", folder, *options, *SMALL, "--quiet") == 0
    return folder


def films() -> list[dict[str, str]]:
    with FILMS.open(newline="") as file:
        return list(csv.DictReader(file))


def answers(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_the_commands_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = re.findall(
        r"^lampnet (?:train|predict) .*examples/films\.csv.*$", (ROOT / "README.md").read_text(), re.M
    )
    assert len(commands) == 2
    (tmp_path / "examples").symlink_to(FILMS.parent)
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert here(*shlex.split(command)[1:]) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert "text from the columns 'title', 'plot'; number from the column 'year'; category from the column" in said.err
    right = [set(row["genres"].split(";")) for row in films()]
    found = [set(map(str, row["labels"])) for row in answers(said.out)]
    assert len(found) == len(right)
    assert sum(map(set.__eq__, found, right)) > 0.8 * len(right)


def test_python_has_the_columns_of_a_file(model: Path, tmp_path: Path) -> None:
    wanted = {"text": ["title", "plot"], "number": ["year"], "category": ["country"]}
    assert LaMPClassifier.load(model).columns_ == wanted
    rows = "".join(
        f"{1950 + i % 7},{'US' if i % 2 else 'NZ'},2024-0{1 + i % 9}-01,{'war' * (i % 2)}|sea\n" for i in range(40)
    )
    (tmp_path / "t.csv").write_text("year,country,when,tags\n" + rows)
    assert here("train", tmp_path / "t.csv", "--out", tmp_path / "m", *SMALL, "--preset", "quick", "--quiet") == 0
    wanted = {"number": ["year"], "category": ["country"], "date": ["when"]}
    assert LaMPClassifier.load(tmp_path / "m").columns_ == wanted


def test_files_of_every_form_give_the_same_answers(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrow, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    table = arrow.read_csv(FILMS)
    parquet.write_table(table.select(["genres", "country", "year", "plot", "title"]), tmp_path / "films.parquet")
    capsys.readouterr()
    assert here("predict", model, FILMS) == 0
    wanted = answers(capsys.readouterr().out)
    assert here("predict", model, tmp_path / "films.parquet") == 0
    assert answers(capsys.readouterr().out) == wanted
    (tmp_path / "bare.csv").write_text(
        "".join(",".join(row[:4]) + "\n" for row in [["title", "plot", "year", "country"]])
    )
    with (tmp_path / "bare.csv").open("a", newline="") as file:
        csv.writer(file).writerows([row["title"], row["plot"], row["year"], row["country"]] for row in films())
    assert here("predict", model, tmp_path / "bare.csv") == 0
    assert answers(capsys.readouterr().out) == wanted
    lines = [json.dumps({k: v for k, v in row.items() if k != "genres"}) for row in table.to_pylist()]
    (tmp_path / "films.jsonl").write_text("\n".join(lines) + "\n")
    assert here("predict", model, tmp_path / "films.jsonl") == 0
    assert answers(capsys.readouterr().out) == wanted


def test_evaluate_explain_and_resume(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("evaluate", model, FILMS, "--json") == 0
    assert json.loads(capsys.readouterr().out)["best"]["example_f1"] > 0.5
    assert explain_asked(model, FILMS, tmp_path / "report", "--rows", "0,1") == 0
    written = json.loads((tmp_path / "report" / "explanations.json").read_text())
    first = written["explanations"][0]
    names = [node["name"] for node in first["nodes"]]
    row = films()[0]
    assert f"year = {row['year']}" in names
    assert f"country = {row['country']}" in names
    assert any(name.startswith("plot: ") for name in names)
    assert [part["name"] for part in first["input"]["parts"]] == ["title", "plot", ""]
    assert here("train", "--out", model, "--resume", "--quiet") == 0


def test_a_missing_text_column_is_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.csv").write_text("title,story,year\nA film,About the sea,1950\n")
    assert here("predict", model, tmp_path / "few.csv") == 2
    assert "there is no column 'plot', which the model was trained on" in capsys.readouterr().err


def test_prepared_rows_keep_their_parts_and_forged_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    assert here("prepare", FILMS, "--out", folder) == 0
    rows = open_prepared(folder)
    assert [encoder.kind for encoder in rows.encoder.part_encoders] == ["text", "text", "columns"]
    assert len(rows.parts["train"].nodes.parts) == 3
    stated = (folder / "prepared.json").read_text()
    for true, forged in (
        ("part1.ids", "part7.ids"),
        ("part0.ids", "part0.label_ids"),
        ("part2.values", "part2.offsets"),
    ):
        (folder / "prepared.json").write_text(stated.replace(f'"{true}"', f'"{forged}"'))
        with pytest.raises(DataError):
            open_prepared(folder)
    manifest = json.loads(stated)
    for part in ("train", "valid"):
        manifest["parts"][part]["arrays"] = {
            name: facts for name, facts in manifest["parts"][part]["arrays"].items() if not name.startswith("part2.")
        }
    (folder / "prepared.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="the encoder has other parts"):
        open_prepared(folder)
