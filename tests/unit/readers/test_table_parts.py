"""Tables whose rows have several parts: roles guessed, stated, given, and kept for later files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError, FormatError
from lampnet.readers.any_format import read, read_and_columns
from lampnet.readers.options import ReadOptions
from lampnet.readers.trained_columns import KnownColumns

HEADER = "title,plot,year,country,released,genres\n"
FILM = "{0}th film,A man goes to sea in a storm {0},{1},{2},2024-0{3}-01,{4}\n"
FILMS = HEADER + "".join(
    FILM.format(i, 1950 + i % 7 if i % 5 else "", ("US", "NZ", "")[i % 3], 1 + i % 9, ("war|sea", "sea", "")[i % 3])
    for i in range(30)
)


def films(folder: Path, text: str = FILMS, name: str = "films.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def opened(path: Path, **options: Any) -> tuple[Dataset, str, dict[str, Any]]:
    said: list[str] = []
    data, columns = read_and_columns(path, ReadOptions(notice=said.append, **options))
    assert isinstance(data, Dataset)
    return data, " ".join(said), dict(columns or {})


def test_every_column_is_read_by_its_role_and_said(tmp_path: Path) -> None:
    data, said, columns = opened(films(tmp_path))
    assert said == (
        "films.csv: text from the columns 'title', 'plot'; number from the column 'year'; category from the column "
        "'country'; date from the column 'released'; labels from the column 'genres', separated by '|'"
    )
    title, plot, table = data.rows.parts
    assert (title.name, plot.name, plot.rows[3]) == ("title", "plot", "A man goes to sea in a storm 3")
    assert table.rows.names == ("year", "country", "released")
    assert table.rows.categories == {1: ("NZ", "US")}
    assert table.rows.values[0, 2] == 1704067200
    assert np.isnan(table.rows.values[0, 0])
    assert columns["text"] == ("title", "plot")
    assert columns["categories"] == ("country",)
    assert columns["dates"] == ("released",)
    again, said, _ = opened(films(tmp_path), columns=columns)
    assert again.rows.roles == data.rows.roles
    assert said == ""


def test_named_columns_are_the_only_inputs(tmp_path: Path) -> None:
    path = films(tmp_path)
    data, said, _ = opened(path, columns={"text": "plot", "category": "country", "number": "year"})
    assert data.rows.roles == (("plot", "text"), ("year", "number"), ("country", "category"))
    assert "not used: the columns 'title', 'released'" in said
    data, _, _ = opened(path, columns={"text": "plot"})
    assert data.kind == "text"
    data, _, _ = opened(path, columns={"categories": "year"})
    assert dict(data.rows.roles)["year"] == "category"
    assert dict(data.rows.roles)["plot"] == "text"
    for columns, problem in (
        ({"text": "plot", "features": "plot"}, "'plot' is given as text and as features"),
        ({"txt": "plot"}, "did you mean 'text'"),
        ({"text": "plott"}, "did you mean 'plot'"),
    ):
        with pytest.raises(DataError, match=problem):
            read(path, columns=columns)


def test_parquet_and_csv_are_the_same_rows(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [f"story {i} of the sea" for i in range(25)]
    words, vectors = (
        [["a", "b"], [], None, ["b"], ["c"]] * 5,
        [[1.0, 2.0], [0.0, 1.0], None, [2.0, 2.0], [3.0, 1.0]] * 5,
    )
    table = pa.table({"story": texts, "keys": words, "v": vectors, "labels": [["x"], ["y"], [], ["x", "y"], ["y"]] * 5})
    parquet.write_table(table, tmp_path / "t.parquet")
    data, said, _ = opened(tmp_path / "t.parquet")
    assert "words from the column 'keys'" in said
    assert "vector from the column 'v'" in said
    story, keys, vector = data.rows.parts
    assert story.rows == texts
    assert keys.feature_names == ("a", "b", "c")
    assert vector.rows.shape == (20, 2)
    assert vector.where[2] == -1


def test_columns_that_only_name_rows_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"{i},user{i},a b c d {i},{'x' if i % 2 else 'y'}\n" for i in range(40))
    data, said, _ = opened(films(tmp_path, "number,who,story,tags\n" + rows))
    assert data.kind == "text"
    assert "not used: the columns 'number', 'who'" in said


@pytest.mark.parametrize("header", ["Titel,Handlung,Schlagworte", "題名,粗筋,分類", "a,b,c"])
def test_labels_are_found_by_content_whatever_the_header_says(header: str, tmp_path: Path) -> None:
    rows = "".join(
        f"Der {i}. Film,Ein Mann fährt zur See {i},{('Krieg;Meer', 'Meer', 'Liebe;Krieg')[i % 3]}\n" for i in range(30)
    )
    data, _, _ = opened(films(tmp_path, header + "\n" + rows))
    assert data.label_names == ("Krieg", "Liebe", "Meer")
    assert data.kind == "parts"


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["drama / war", "war", "drama"], " / "),
        (["drama; war", "war", "drama"], ";"),
        (["drama\twar", "war", "drama"], "\t"),
        (["drama\nwar", "war", "drama"], "\n"),
        (["['drama', 'war']", "['war']", "['drama']"], "list"),
        (['["drama", "war"]', "[]", '["drama"]'], "list"),
    ],
)
def test_separators_are_found(cells: list[str], separator: str, tmp_path: Path) -> None:
    import csv

    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["story", "tags"])
        writer.writerows([f"a story of {i} words", cell] for i, cell in enumerate(cells))
    data, _, columns = opened(path)
    assert data.label_names == ("drama", "war")
    assert columns["separator"] == separator
    assert data.indicator()[0].tolist() == [1, 1]


def test_later_files_are_read_as_the_training_file(tmp_path: Path) -> None:
    _, _, columns = opened(films(tmp_path))
    known = KnownColumns(
        roles={role: list(v) if not isinstance(v, str) else v for role, v in columns.items()}, unlabelled=True
    )
    few = "country,plot,title\nUS,short,x\n"
    data, _, _ = opened(films(tmp_path, few, "new.csv"), known=known)
    assert data.rows.roles == (("country", "category"), ("plot", "text"), ("title", "text"))
    with pytest.raises(DataError, match="no column 'plot', which the model was trained on"):
        opened(films(tmp_path, "country,title\nUS,x\n", "new.csv"), known=known)
    with pytest.raises(FormatError, match=r"line 2: 'soon' in the column 'released' is not a date"):
        opened(films(tmp_path, "plot,title,released\na,b,soon\n", "new.csv"), known=known)


def test_bad_molecules_are_left_out_and_missing_ones_kept(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = "".join(f"note number {i} on it,{s},{i % 2}\n" for i, s in enumerate(["CCO", "", "nope", "C"]))
    path = films(tmp_path, "note,smiles,toxic\n" + rows)
    data, said, _ = opened(path, on_bad_row="skip")
    assert "1 of 4 molecules have invalid SMILES" in said
    assert data.rows.parts[1].where.tolist() == [0, -1, 1]


def test_labels_that_look_joined_are_asked_about(tmp_path: Path) -> None:
    rows = "".join(f"a story of {i} words,{('war;sea', 'sea', 'war')[i % 3]}\n" for i in range(30))
    path = films(tmp_path, "story,tags\n" + rows)
    for separator in ("none", "|"):
        data, said, _ = opened(path, columns={"separator": separator})
        assert "every row has one label, but 'tags' looks like several" in said
        assert "--columns separator=';'" in said
        assert "war;sea" in data.label_names
    _, said, _ = opened(path)
    assert "looks like several" not in said
    strange = "".join(f"a story of {i} words,tag{i % 5} - tag{i // 5}\n" for i in range(30))
    _, said, _ = opened(films(tmp_path, "story,tags\n" + strange))
    assert "--columns separator=' - '" in said
    _, said, _ = opened(films(tmp_path, "story,tags\n" + strange), columns={"separator": " - "})
    assert "looks like several" not in said
    strange = "".join(f"a story of {i} words,tag{i % 5}~tag{i // 5}\n" for i in range(30))
    _, said, _ = opened(films(tmp_path, "story,tags\n" + strange))
    assert "--columns separator=SIGN" in said


@pytest.mark.parametrize("sign", ["+", " & ", "/", " ", "、", "-", "_", " • "])
def test_rarer_signs_between_labels_are_asked_about(sign: str, tmp_path: Path) -> None:
    rows = "".join(f"a story of {i} words,{(f'war{sign}sea', 'sea', 'war')[i % 3]}\n" for i in range(30))
    data, said, _ = opened(films(tmp_path, "story,tags\n" + rows), columns={"labels": "tags"})
    assert f"--columns separator={sign.strip() or ' '!r}" in said
    assert len(data.label_names) == 3
    names = "".join(
        f"a story of {i} words,{('New York', 'New Delhi', 'AC/DC', 'sci-fi', 'not_ok')[i % 5]}\n" for i in range(30)
    )
    _, said, _ = opened(films(tmp_path, "story,tags\n" + names), columns={"labels": "tags"})
    assert "looks like several" not in said


def test_other_encodings_are_suggested_read_and_kept(tmp_path: Path) -> None:
    rows = "".join(f"Der {i}. Film über Männer,{('Krieg;Märchen', 'Märchen')[i % 2]}\n" for i in range(30))
    path = tmp_path / "filme.csv"
    path.write_bytes(("inhalt,stichworte\n" + rows).encode("latin-1"))
    with pytest.raises(FormatError, match=r"line 2: .*--encoding latin-1"):
        opened(path)
    data, _, columns = opened(path, columns={"encoding": "latin-1"})
    assert data.label_names == ("Krieg", "Märchen")
    assert data.rows[0] == "Der 0. Film über Männer"
    known = KnownColumns(roles=columns, label_names=data.label_names)
    assert opened(path, known=known)[0].rows == data.rows
    path.write_text("inhalt,stichworte\n" + rows, encoding="utf-8")
    assert opened(path, known=known)[0].rows == data.rows  # UTF-8 is read as UTF-8, whatever the training file was
    for wrong in ("latin-17", "hex", "base64"):
        with pytest.raises(DataError, match="no text encoding"):
            opened(path, columns={"encoding": wrong})
