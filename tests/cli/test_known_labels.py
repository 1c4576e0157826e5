"""Known labels on the command line: JSON lines, a column of a table, and scores with labels revealed."""

from __future__ import annotations

import json

import pytest
from lampnet_command import Finished, here, texts, write_jsonl


def predicted(capsys, *arguments):
    capsys.readouterr()
    assert here("predict", *arguments) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def mistake(capsys, *arguments):
    capsys.readouterr()
    return Finished(here(*arguments), *capsys.readouterr()).mistake()


@pytest.fixture(scope="module")
def labels(trained):
    return json.loads((trained / "model" / "model.json").read_text())["label_names"]


def test_a_row_of_json_lines_says_what_is_known_of_it(trained, labels, tmp_path, capsys):
    rows = [{key: value for key, value in row.items() if key != "labels"} for row in texts(3)]
    rows[0]["known"] = {labels[0]: True, labels[1]: False}
    rows[1]["known"] = [labels[1]]
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, rows)
    first, second, third = predicted(capsys, trained / "model", path)
    assert labels[0] in first["labels"]
    assert first["scores"][labels[0]] == 1.0
    assert labels[1] not in first["labels"]
    assert labels[1] in second["labels"]
    for row in rows:
        row.pop("known", None)
    write_jsonl(path, rows)
    assert predicted(capsys, trained / "model", path)[2] == third


def test_a_column_of_a_table_says_what_is_known(trained, labels, tmp_path, capsys):
    path = tmp_path / "rows.csv"
    text = texts(1)[0]["text"]
    path.write_text(f"text,tags\n{text},{labels[0]};{labels[1]}\n{text},\n")
    known, unknown = predicted(capsys, trained / "model", path, "--known-column", "tags")
    assert {labels[0], labels[1]} <= set(known["labels"])
    assert predicted(capsys, trained / "model", path)[1] == unknown


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({"nowhere": True}, "the model has no label 'nowhere'"),
        ({"x": "yes"}, "'known' has 'x': yes; give true, false or a probability"),
        ("grain", "'known' must be an object of label: true or false, or a list of labels"),
        ([["a"]], "is not a name"),
    ],
)
def test_a_mistake_in_known_labels_is_one_line(trained, tmp_path, capsys, known, sentence):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"text": "ships", "known": known}])
    assert sentence in mistake(capsys, "predict", trained / "model", path)


def test_scores_of_labels_that_are_not_revealed(trained, capsys):
    arguments = [
        "evaluate",
        trained / "model",
        trained / "data",
        "--json",
        "--known",
        "positives:1",
        "--known",
        "share:50",
    ]
    capsys.readouterr()
    assert here(*arguments) == 0
    found = json.loads(capsys.readouterr().out)["known"]
    assert [one["regime"] for one in found] == ["positives:1", "share:50"]
    names = {"regime", "rows", "map", "map_without", "example_f1", "example_f1_without"}
    for one in found:
        assert set(one) == names
        assert one["rows"] > 0
        assert all(0 <= one[name] <= 1 for name in names - {"regime", "rows"})
    assert here(*arguments) == 0
    assert json.loads(capsys.readouterr().out)["known"] == found
    assert here(*arguments, "--seed", 3) == 0
    assert json.loads(capsys.readouterr().out)["known"] != found
    assert here("evaluate", trained / "model", trained / "data", "--known", "share:50") == 0
    assert "map without" in capsys.readouterr().out


def test_without_known_regimes_nothing_is_added(trained, capsys):
    capsys.readouterr()
    assert here("evaluate", trained / "model", trained / "data", "--json") == 0
    assert "known" not in json.loads(capsys.readouterr().out)


def test_a_regime_that_does_not_exist(trained, capsys):
    sentence = mistake(capsys, "evaluate", trained / "model", "--known", "positive:1")
    assert "there is no regime 'positive:1'; give positives:1" in sentence
