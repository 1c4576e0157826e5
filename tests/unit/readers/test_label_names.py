"""Label names that are numbers, and lists of labels with gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from lampnet.errors import DataError
from lampnet.readers.options import ReadOptions
from lampnet.readers.tables import read_table, read_table_and_roles
from lampnet.readers.trained_columns import KnownColumns

NUMBERS = [1000001, 1000002, 9007199254740993, 9007199254740992]
NAMES = tuple(sorted(map(str, NUMBERS)))


@pytest.mark.parametrize("others", ["1.5", "a word"], ids=["all numbers", "words too"])
def test_long_numbers_keep_their_digits_in_a_csv_file(tmp_path: Path, others: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["x,label", *(f"{others},{number}" for number in NUMBERS)]) + "\n")
    assert read_table(path, columns={"features": "x"}).label_names == NAMES


@pytest.mark.parametrize("kept", [NUMBERS, NUMBERS[:2], [*NUMBERS, None]])
def test_long_numbers_keep_their_digits_in_a_parquet_file(tmp_path: Path, kept: list[int | None]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": [float(i) for i in range(len(kept))], "label": kept}), path)
    data = read_table(path, columns={"features": "x"})
    assert data.label_names == tuple(sorted(str(number) for number in kept if number is not None))
    assert data.labels is not None
    assert data.labels.sum(axis=1).ravel().tolist() == [[float(number is not None) for number in kept]]


def test_lists_of_labels_may_have_gaps(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "rows.parquet"
    lists = [None, ["a", None], ["b", "a"], []]
    parquet.write_table(pyarrow.table({"text": ["one story", "two", "three", "four"], "labels": lists}), path)
    data = read_table(path)
    assert data.label_names == ("a", "b")
    assert data.indicator().tolist() == [[0, 0], [1, 0], [1, 1], [0, 0]]


def test_numbers_that_stand_for_words(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,zip,member,label\n1,007,0,a\n2,12,1,b\n3,7,1,a\n")
    data, roles = read_table_and_roles(path, ReadOptions(columns={"categories": "zip,member"}))
    assert data.feature_names == ("x", "zip", "member")
    assert data.rows.categories == {1: ("007", "12", "7"), 2: ("0", "1")}
    # Read again as it was, also where all cells are numbers.
    (tmp_path / "one.csv").write_text("x,zip,member\n1,007,1\n")
    known = KnownColumns(roles=roles.as_given(), unlabelled=True)
    again, _ = read_table_and_roles(tmp_path / "one.csv", ReadOptions(known=known))
    assert again.labels is None
    assert again.rows.categories == {1: ("007",), 2: ("1",)}


def test_labels_that_happen_to_be_zeros_and_ones_are_names_where_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\none long story,0\ntwo,1\nthree,2\n")
    train, roles = read_table_and_roles(tmp_path / "train.csv", ReadOptions())
    (tmp_path / "test.csv").write_text("text,label\none long story,0\ntwo,1\n")
    test, _ = read_table_and_roles(tmp_path / "test.csv", ReadOptions(known=KnownColumns(roles=roles.as_given())))
    assert (train.label_names, test.label_names) == (("0", "1", "2"), ("0", "1"))


def test_an_empty_separator_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,labels\none story,a b\n")
    with pytest.raises(DataError, match="the separator of the labels is empty; give the sign between them"):
        read_table(path, columns={"separator": ""})
    assert read_table(path, columns={"separator": " "}).label_names == ("a", "b")
