"""CSV, TSV, Parquet and JSONL: what columns are taken for, labels in every form, wrong lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.data.dataset import Table
from lampnet.errors import DataError, FormatError
from lampnet.readers.any_format import read
from lampnet.readers.jsonl_table import read_jsonl_table
from lampnet.readers.tables import read_table


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read_with_notice(path: Path, **settings: Any) -> tuple[Any, str]:
    notices: list[str] = []
    data = read_table(path, notice=notices.append, **settings)
    assert len(notices) == 1
    return data, notices[0]


def test_text_with_one_label_column(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", 'id,plot,genres\n7,"War, and\npeace again",drama|war\n8,A funny road trip,comedy\n9,x,\n'
    )
    data, notice = read_with_notice(path)
    assert notice == (
        "a.csv: text from the column 'plot'; labels from the column 'genres', separated by '|'; ids from 'id'"
    )
    assert list(data.rows) == ["War, and\npeace again", "A funny road trip", "x"]
    assert data.label_names == ("comedy", "drama", "war")
    assert data.indicator().tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert data.ids == ("7", "8", "9")


def test_molecules_with_unknown_labels(tmp_path: Path) -> None:
    data, notice = read_with_notice(
        write(tmp_path / "t.csv", "NR-AR,SR-p53,mol_id,smiles\n0,,T1,CCO\n1,1,T2,c1ccccc1\n")
    )
    assert data.kind == "molecule"
    assert "one label per column" in notice
    assert data.label_names == ("NR-AR", "SR-p53")
    np.testing.assert_array_equal(data.indicator(), [[0, np.nan], [1, 1]])
    assert data.labels.nnz == 3  # the zero is not stored, the unknown is


def test_numbers_and_categories_become_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", "age,city,height,label_sick,label_old\n30,Rome,1.7,0,0\n,Bonn,1.6,1,0\n80,Rome,,1,1\n"
    )
    data, notice = read_with_notice(path)
    assert isinstance(data.rows, Table)
    assert data.rows.names == ("age", "city", "height")
    assert data.rows.categories == {1: ("Bonn", "Rome")}
    np.testing.assert_array_equal(data.rows.values, [[30, 1, 1.7], [np.nan, 0, 1.6], [80, 1, np.nan]])
    assert data.label_names == ("label_sick", "label_old")
    assert "columns from the columns 'age', 'city', 'height'" in notice


def test_a_table_of_numbers_only_takes_the_fast_path_to_the_same_result(tmp_path: Path) -> None:
    fast = read_table(write(tmp_path / "f.csv", "a,b,y_one,y_two\n0.5,2,0,1\n1.5,3,1,0\n"))
    slow = read_table(write(tmp_path / "s.csv", '"a",b,y_one,y_two\n0.5,2,0,1\n1.5,3,1,0\n'))
    np.testing.assert_array_equal(fast.rows.values, slow.rows.values)
    np.testing.assert_array_equal(fast.indicator(), slow.indicator())
    assert fast.rows.names == slow.rows.names == ("a", "b")


def test_dna_and_pictures(tmp_path: Path) -> None:
    dna, _ = read_with_notice(write(tmp_path / "d.tsv", "sequence\tlabels\nACGTACGTNN\tx\nTTTTACGTAA\ty,x\n"))
    assert (dna.kind, dna.rows[0].tolist()) == ("dna", [0, 1, 2, 3, 0, 1, 2, 3, 4, 4])
    (tmp_path / "images").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / "images" / name).write_bytes(b"\xff\xd8")
    table = write(tmp_path / "p.csv", 'Filenames,labels\n1.jpg,sea\n2.jpg,"sea,trees"\n')
    pictures, _ = read_with_notice(table)
    assert pictures.kind == "image"
    assert pictures.rows == [tmp_path / "images" / "1.jpg", tmp_path / "images" / "2.jpg"]
    write(table, "Filenames,labels\n3.jpg,sea\n")
    with pytest.raises(FormatError, match=r"line 2: the picture '3\.jpg'"):
        read_table(table)


def test_settings_win_over_guesses(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "title,body,a,b\nOne two three four,Long text of words here,1,0\nx,y,0,1\n")
    data, _ = read_with_notice(path, columns={"text": ["title", "body"], "labels": "b"})
    assert [part.rows[0] for part in data.rows.parts] == ["One two three four", "Long text of words here"]
    assert data.label_names == ("b",)
    features, _ = read_with_notice(path, columns={"features": ["a"], "labels": ["b"]})
    assert features.kind == "columns"
    with pytest.raises(DataError, match="did you mean 'title'"):
        read_table(path, columns={"text": "titel"})
    with pytest.raises(DataError, match="did you mean 'labels'"):
        read_table(path, columns={"lable": "a"})
    mixed = read_table(path, columns={"text": "title", "features": "a", "label": "b"})
    assert mixed.rows.roles == (("title", "text"), ("a", "number"))


def test_separators(tmp_path: Path) -> None:
    for cells, expected in [
        (("a;b", "c"), ("a", "b", "c")),
        (("['a', 'b']", "[]"), ("a", "b")),
        (("alpha", "beta"), ("alpha", "beta")),
    ]:
        rows = "".join(f'some words in here,"{cell}"\n' for cell in cells)
        assert read_table(write(tmp_path / "t.csv", f"text,tags\n{rows}")).label_names == expected
    given = read_table(
        write(tmp_path / "t.csv", "text,tags\nw w w,a b\n"), columns={"labels": "tags", "separator": " "}
    )
    assert given.label_names == ("a", "b")


def test_lone_quotation_marks_in_tab_separated_text(tmp_path: Path) -> None:
    data = read_table(write(tmp_path / "t.tsv", 'text\tlabels\nHe said "no to it\tanger\nwell well well\tjoy\n'))
    assert data.rows[0] == 'He said "no to it'


def test_parquet_reads_as_the_csv_does(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["one two three", "four five six"], "labels": [["a", "b"], []], "id": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    data = read_table(tmp_path / "t.parquet")
    assert (data.kind, list(data.rows), data.label_names) == ("text", ["one two three", "four five six"], ("a", "b"))
    assert data.ids == ("1", "2")
    assert data.indicator().tolist() == [[1, 1], [0, 0]]
    numbers = pandas.DataFrame({"x": [1.5, None], "z": ["u", "v"], "y_a": [1, 0], "y_b": [None, True]})
    numbers.to_parquet(tmp_path / "n.parquet")
    table = read_table(tmp_path / "n.parquet")
    np.testing.assert_array_equal(table.rows.values, [[1.5, 0], [np.nan, 1]])
    np.testing.assert_array_equal(table.indicator(), [[1, np.nan], [0, 1]])
    (tmp_path / "bad.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-30])
    with pytest.raises(FormatError, match="not a readable Parquet"):
        read_table(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("text,labels\na b c,x\na b c\n", 3, "2"),
        ("a,a,y\n1.5,2,1\n", 1, "occurs twice"),
        ("", 1, "empty"),
        ("text,labels\n", 1, "no rows"),
        ('text,labels\n"open,x\n', 2, "cannot be split"),
        ("text,y_a,y_b\none two three,1,0\none two three,2,0\n", 3, "0, 1 or nothing"),
    ],
)
def test_wrong_tables_name_the_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write(tmp_path / "t.csv", text)
    columns = {"labels": ["y_a", "y_b"]} if "y_b" in text else None
    with pytest.raises(FormatError, match=words) as caught:
        read_table(path, columns=columns)
    assert caught.value.line == line


def test_bad_rows_can_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "text,labels\na b c,x\nd e f\ng h i,y\n")
    assert list(read_table(path, on_bad_row="skip").rows) == ["a b c", "g h i"]


def test_all_binary_columns_need_a_word_from_the_user(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b,c\n1,0,1\n0,1,0\n")
    with pytest.raises(DataError, match="--columns labels="):
        read_table(path)
    assert read_table(path, columns={"labels": "c"}).label_names == ("c",)


def test_latin1_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("text,labels\na b c,x\ncafé au lait,y\n".encode("latin-1"))
    with pytest.raises(FormatError, match="UTF-8") as caught:
        read_table(path)
    assert caught.value.line == 3


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.sets(st.sampled_from("abc"))),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=40, deadline=None)
def test_jsonl_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, set[str]]]) -> None:
    path = tmp_path_factory.mktemp("j") / "x.jsonl"
    lines = [json.dumps({"text": text, "labels": sorted(labels)}) for text, labels in [*rows, ("last", {"a"})]]
    path.write_text("\n".join(lines))
    data = read(path, labels=["c", "b", "a"])
    assert list(data.rows) == [*(text for text, _ in rows), "last"]
    for row, (_, labels) in enumerate(rows):
        assert {name for name, has in zip("cba", data.indicator()[row], strict=True) if has} == labels


def test_jsonl_kinds(tmp_path: Path) -> None:
    words = read(write(tmp_path / "w.jsonl", '{"features": {"b": 2, "a": 1}, "labels": [1]}\n{"features": {}}\n'))
    assert (words.kind, words.feature_names, words.label_names) == ("wordset", ("a", "b"), ("1",))
    assert words.rows.toarray().tolist() == [[1, 2], [0, 0]]
    np.testing.assert_array_equal(words.indicator(), [[1], [np.nan]])  # no "labels": unknown
    vector = read(write(tmp_path / "v.jsonl", '{"features": [1, 2.5], "id": "q"}\n'))
    assert (vector.kind, vector.labels, vector.ids) == ("vector", None, ("q",))
    for field, value, kind in [("smiles", "CCO", "molecule"), ("dna", "ACGT", "dna"), ("sequence", "ACGT", "dna")]:
        assert read(write(tmp_path / "k.jsonl", json.dumps({field: value}))).kind == kind


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "JSON object"),
        ('{"texts": "x", "labels": []}', "did you mean 'text'"),
        ('{"text": "x", "smiles": "C"}', "exactly one"),
        ('{"text": 5}', "must be a string"),
        ('{"text": "x", "labels": "a"}', "list of names"),
        ('{"text": "x", "labels": [[]]}', "not a name"),
        ('{"features": [1]}', "rows before it"),
        ("[" * 100_000, "not JSON"),
        ('{"text": "x", "labels": ["a"], "text": "y"}', "the key 'text' occurs twice; give each key once"),
        ('{"labels": []}', "dna, sequence, image; give exactly one input field"),
    ],
)
def test_wrong_json_lines(tmp_path: Path, line: str, words: str) -> None:
    path = write(tmp_path / "x.jsonl", '{"text": "fine", "labels": ["a"]}\n\n' + line + "\n")
    with pytest.raises(FormatError, match=words) as caught:
        read(path)
    assert caught.value.line == 3
    assert list(read(path, on_bad_row="skip").rows) == ["fine"]


def test_a_feature_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{"features": {"a": 1}}\n{"features": {"a": 1, "b": 2, "a": 3}}\n')
    with pytest.raises(FormatError, match=r"line 2: the key 'a' occurs twice"):
        read(path)


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    lines = [
        '{"title": "x y", "plot": "a b", "labels": ["u"]}',
        '{"title": "x", "plot": "a", "plot": "b", "labels": []}',
    ]
    path = write(tmp_path / "x.jsonl", "\n".join(lines))
    with pytest.raises(FormatError, match=r"line 2: the key 'plot' occurs twice"):
        read_jsonl_table(path, enumerate(lines, start=1))


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"x"', "[1]", "true"])
def test_features_must_be_finite_numbers(tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "x.jsonl", f'{{"features": [{value}]}}')
    if value == "true":  # JSON's true is 1, as in Python
        assert read(path).rows.tolist() == [[1.0]]
        return
    with pytest.raises(FormatError, match="finite numbers"):
        read(path)


def test_jsonl_gzip_and_empty(tmp_path: Path) -> None:
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"text": "a", "labels": ["x"]}\r\n'))
    assert read(packed).label_names == ("x",)
    with pytest.raises(FormatError, match="no rows"):
        read(write(tmp_path / "e.jsonl", "\n\n"))
    with pytest.raises(DataError, match="empty"):
        read(write(tmp_path / "n.jsonl", '{"text": "a", "labels": []}'))
    with pytest.raises(DataError, match="'z'"):
        read(write(tmp_path / "u.jsonl", '{"text": "a", "labels": ["z"]}'), labels=["a"])
