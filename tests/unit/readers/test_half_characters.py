"""A lone surrogate is half a character: no file can hold it, so it is refused when read, with its row."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from lampnet import LaMPClassifier
from lampnet.data.dataset import Dataset, Table
from lampnet.errors import DataError, FormatError
from lampnet.readers.any_format import read
from lampnet.readers.row_chunks import chunks
from lampnet.readers.sources import Source

HALF = "\ud800"
BYTES = b"\xed\xa0\x80"  # the same in what would be UTF-8


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GOOD = {"text": "red fox", "labels": ["a"], "id": "first"}


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": "sea", "labels": ["a", HALF]}, "the label"),
        ({"text": "sea", "labels": [], "id": f"x{HALF}"}, "the id"),
    ],
)
def test_json_lines(row: dict[str, Any], what: str, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "x.jsonl", GOOD, row)
    with pytest.raises(FormatError, match=rf"x\.jsonl, line 2: {what} .* holds half a character \(a lone surrogate\)"):
        read(path)
    assert read(path, on_bad_row="skip").ids == ("first",)
    with pytest.raises(FormatError, match="line 2"):
        list(chunks(Source(data=str(path)), "test", 0))


@pytest.mark.parametrize(
    "row", [{"features": {f"f{HALF}": 1}, "labels": ["a"]}, {"smiles": f"C{HALF}", "labels": ["a"]}]
)
def test_json_lines_of_features_and_molecules(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"line 1: the (feature name|SMILES) .* holds half a character"):
        read(jsonl(tmp_path / "x.jsonl", row))


def test_whole_characters_by_two_escapes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "\\ud800 sea", "labels": ["\\ud83d\\ude00"]}\n')
    data = read(path)
    assert data.label_names == ("\U0001f600",)
    assert data.rows == [f"{HALF} sea"]  # in a text it is read as a blank


def test_lists_in_the_cells_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text,labels\nred fox at sea,"[""a""]"\nblue sea and sky,"[""\\ud800""]"\n')
    with pytest.raises(FormatError, match=r"line 3: the label '\\ud800' holds half a character"):
        read(path)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.svm", "x.txt"])
def test_bytes_that_are_no_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"text,labels\nred fox,a\n" + BYTES + b",b\n")
    with pytest.raises(FormatError, match=r"line \d"):
        read(path)


def bad_texts() -> dict[str, pa.Array]:
    raw = pa.array([b"good", b"fine", BYTES, b"good"])
    text = pa.StringArray.from_buffers(4, raw.buffers()[1], raw.buffers()[2])
    inner = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), text)
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, 2]), text, safe=False)
    return {"plain": text, "list": inner, "coded": coded}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", ["plain", "list", "coded"])
def test_parquet_and_arrow_name_column_and_row(kind: str, form: str, tmp_path: Path) -> None:
    bad = bad_texts()[kind]
    table = pa.table({"text": ["words of a row"] * len(bad), "labels": bad})
    path = tmp_path / f"x.{form}"
    if form == "parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(FormatError, match="line 3: the column 'labels' holds bytes that are not UTF-8"):
        read(path)


def test_npz_names(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, X=np.eye(2), Y=np.eye(2), label_names=["a", HALF])
    with pytest.raises(DataError, match=r"x, row 1: the label '\\ud800' holds half a character"):
        read(path)
    np.savez(path, X=np.eye(2), feature_names=[HALF, "b"])
    with pytest.raises(DataError, match="the feature name"):
        read(path)
    good = io.BytesIO()
    np.savez(good, X=np.eye(2), Y=np.eye(2), label_names=["a", "b"])
    with zipfile.ZipFile(path, "w") as archive, zipfile.ZipFile(good) as whole:
        for entry in whole.namelist():
            archive.writestr(entry, whole.read(entry).replace("b".encode("utf-32-le"), b"\xff" * 4))
    with pytest.raises(FormatError, match="label_names holds numbers that are not characters"):
        read(path)


def test_rows_from_anywhere() -> None:
    plain: dict[str, Any] = {"name": "x", "kind": "text", "rows": ["a", "b"], "labels": None, "label_names": ()}
    with pytest.raises(DataError, match=re.escape(r"x, row 1: the id '\ud800' holds")):
        Dataset(**{**plain, "ids": ("a", HALF)})
    with pytest.raises(DataError, match="x, row 0: the group"):
        Dataset(**{**plain, "groups": (HALF, "a")})
    with pytest.raises(DataError, match="x: the label"):
        Dataset(**{**plain, "label_names": (HALF,)})
    values = np.array([[0.0], [1.0]])
    with pytest.raises(DataError, match=re.escape(r"row 1: 'colour': '\ud800' holds")):
        Table(values=values, names=("colour",), categories={0: ("red", HALF)})
    with pytest.raises(DataError, match="the column name"):
        Table(values=values, names=(HALF,))


TEXTS = ["red fox at sea", "blue sky", "red sky", "fox and sea"]


@pytest.mark.parametrize(
    ("y", "row"),
    [
        ([{"a"}, {"b"}, {HALF, "a"}, set()], 2),
        (["a", "b", "a", HALF], 3),
        (np.array(["a", HALF, "a", "b"]), 1),
        (pd.Series([["a"], ["b"], ["a"], [HALF]]), 3),
        (pd.DataFrame(np.eye(4, 2)[[0, 3, 1, 2]], columns=pd.Index(["a", HALF], dtype=object)), 2),
    ],
)
def test_lists_given_to_the_estimator(y: Any, row: int) -> None:
    with pytest.raises(DataError, match=rf"row {row} of y: the label '\\ud800' holds half a character"):
        LaMPClassifier(input_kind="text").fit(TEXTS, y)


def test_tables_given_to_the_estimator() -> None:
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": pd.Series(["red", "blue", HALF], dtype=object)})
    with pytest.raises(DataError, match=re.escape(r"row 2: 'colour': '\ud800' holds half a character")):
        LaMPClassifier(input_kind="columns").fit(X, [["a"], ["b"], ["a", "b"]])


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9.txt"
    try:
        path.write_text("red fox\nblue sea\n")
    except OSError:
        pytest.skip("this file system keeps only names that are UTF-8")
    read(path).name.encode()
