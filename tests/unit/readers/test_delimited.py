"""pyarrow's pass over a delimited file gives what the csv module gives, cell for cell and number for number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lampnet.errors import FormatError
from lampnet.readers.delimited import Records, _delimiter, _plain, _record_by_record, read_delimited
from lampnet.readers.files import utf8_lines
from lampnet.readers.number_text import NUMBER, floats
from lampnet.readers.raw_table import RawTable, TextColumn
from lampnet.readers.tables import read_table

ODD_NUMBERS = [
    "", "?", "0", "1", "-0", "+5", "1.", ".5", "-.5", "+.5", ".", "-", "+", "e", "1e", "e5", "1e5", "1E-05", "1e+5",
    "1e5.", "1e400", "-1e-400", "1.2.3", "1-2", "--1", "+-1", "1e5e5", "?1", "1?", " 1", "1 ", "nan", "NaN", "inf",
    "-inf", "infinity", "1_000", "0x10", "1,5", "12345678901234567890123", "0.1234567890123456789",
    "2.2250738585072011e-308", "9007199254740993", "3.4e38", "1e39", "١", "½", "true", "False", "NA", "None",
]  # fmt: skip
number = st.one_of(
    st.sampled_from(ODD_NUMBERS),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.text("0123456789.+-eE?", max_size=7),
)
word = st.one_of(
    st.sampled_from(
        ["", " ", '"', '""', 'say "no"', "a,b", "a\tb", "two\nlines", "x\r\ny", "\r", "’", "日本", "😀", "\ufeff", "\0"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


def quoted(cell: str, always: bool, delimiter: str) -> str:
    if always or any(sign in cell for sign in '"\n\r' + delimiter):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@st.composite
def files(draw: st.DrawFn, cells: Any = word) -> tuple[bytes, str]:
    """A delimited file, most often well-formed, sometimes ragged, oddly quoted or damaged."""
    delimiter = draw(st.sampled_from([",", "\t", ";"]))
    width = draw(st.integers(1, 4))
    kinds = draw(
        st.lists(st.sampled_from([cells, number, st.sampled_from(["0", "1", ""])]), min_size=width, max_size=width)
    )
    rows = [[f"c{i}" for i in range(width)]]
    rows += draw(st.lists(st.tuples(*kinds).map(list), max_size=5))
    how = draw(st.sampled_from(["as needed", "always", "never"]))
    lines = [
        delimiter.join(c if how == "never" else quoted(c, how == "always", delimiter) for c in row) for row in rows
    ]
    if draw(st.booleans()) and draw(st.booleans()):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", "a", '"', delimiter, delimiter * 5]))
        )
    text = draw(st.sampled_from(["\n", "\r\n", "\r"])).join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "\r\n"]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.encode(), delimiter


def outcome(read: Any) -> tuple[Any, ...]:
    """What a reader made of a file: everything of its table, or its error."""
    try:
        table: RawTable = read()
    except FormatError as error:
        return ("error", error.line, str(error))
    numbers = [None if found is None else repr(found.tolist()) for found in map(table.numbers, table.names)]
    return ("table", table.names, [list(column) for column in table.columns], numbers, list(table.lines))


def by_csv_module(path: Path, raw: bytes, on_bad_row: str = "error") -> RawTable:
    lines = utf8_lines(path, raw)
    if not lines.strip():
        raise FormatError(path, "the file is empty; give a table with a header line", 1)
    return _record_by_record(Records(path, lines, _delimiter(path, lines.partition(b"\n")[0])), on_bad_row)


@given(files())
@example((b'a,b\n"x ""y""",\xe2\x80\x99\n"two\nlines",z\n', ","))
@example((b'a\tb\n5" pipe\t"x"\n', "\t"))
@example((b'"', ","))
@example((b"a,b,c\n?, ,0\n1,\t,2", ","))
@example((b'a,b\n"1","2"\n', ","))
@example((b"a,b\n\xef\xbb\xbf,", ","))
@settings(max_examples=400, deadline=None)
def test_pyarrow_gives_what_the_csv_module_gives(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[bytes, str]
) -> None:
    raw, delimiter = file
    path = tmp_path_factory.getbasetemp() / ("cells.tsv" if delimiter == "\t" else "cells.csv")
    path.write_bytes(raw)
    assert outcome(lambda: read_delimited(path)) == outcome(lambda: by_csv_module(path, raw))


@given(st.lists(number, min_size=1, max_size=9))
@settings(max_examples=400, deadline=None)
def test_numbers_are_pythons_numbers(fields: list[str]) -> None:
    plain = all(field in ("", "?") or re.fullmatch(NUMBER, field.encode()) for field in fields)
    expected = [float("nan") if field in ("", "?") else float(field) for field in fields] if plain else None
    column, block = TextColumn(fields).numbers, floats("\n".join(fields).encode(), len(fields))
    if expected is None:
        return
    np.testing.assert_array_equal(np.asarray(column), expected)
    if "" not in fields and np.isfinite(expected).all():
        np.testing.assert_array_equal(np.asarray(block), expected)


@pytest.mark.parametrize("field", ODD_NUMBERS)
def test_odd_numbers_one_by_one(field: str) -> None:
    words = {"": "nan", "?": "nan", "NA": "nan", "None": "nan", "true": "1", "False": "0"}
    try:
        expected = float(words.get(field, field))
    except ValueError:
        assert TextColumn(["0.5", field] * 9000).numbers is None
        assert floats(f"0.5\n{field}\n".encode() * 9000, 18_000) is None
    else:
        np.testing.assert_array_equal(np.asarray(TextColumn(["0.5", field] * 9000).numbers), [0.5, expected] * 9000)


def test_long_files_are_read_across_blocks(tmp_path: Path) -> None:
    row = 'x{0},"say ""{0}"", ’{0}’\nand more",{1},{2}\n'
    text = "name,words,number,flag\n" + "".join(row.format(i, i / 7, i % 2) for i in range(40_000))
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    table = _plain(Records(path, text.encode(), b","))
    assert table is not None
    careful = by_csv_module(path, text.encode())
    assert list(table.lines) == careful.lines
    for ours, theirs in zip(table.columns, careful.columns, strict=True):
        assert list(ours) == list(theirs)
    np.testing.assert_array_equal(table.numbers("number"), [i / 7 for i in range(40_000)])
    np.testing.assert_array_equal(table.numbers("flag"), np.arange(40_000) % 2)
    assert table.columns[1][5] == 'say "5", ’5’\nand more'
    assert table.columns[1][-2:] == careful.columns[1][-2:]


def test_long_tables_of_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(9000, 12)) * 10.0 ** np.arange(-5, 7)
    values[::7, 3] = np.nan
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in values]
    path, head = tmp_path / "t.csv", ",".join(f"c{i}" for i in range(12))
    path.write_text(head + "\r\n" + "\r\n".join(lines))
    np.testing.assert_array_equal(read_table(path).rows.values, values)
    lines[8500] += ",1"
    path.write_text(head + "\n" + "\n".join(lines))
    with pytest.raises(FormatError, match="13 fields") as caught:
        read_table(path)
    assert caught.value.line == 8502
    lines[8500] = "1e39" + lines[8500].removesuffix(",1").lstrip("-.0123456789e")
    path.write_text(head + "\n\n" + "\n".join(lines))
    with pytest.raises(FormatError, match=r"'c0' is infinite or beyond 3\.4e38") as caught:
        read_table(path)
    assert caught.value.line == 8503


def test_labels_that_repeat_and_labels_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,tags\none two three,b|a\nfour five six,\nseven eight nine,b|a\nten or so,c\n")
    data = read_table(path)
    assert data.indicator().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1]]
    with pytest.raises(Exception, match="row 3: the label 'c'"):
        read_table(path, labels=["a", "b"])
    path.write_text('text,tags\na b c,"[1]"\na b d,"[1]"\na b e,"[x]"\n')
    with pytest.raises(FormatError, match="not a list") as caught:
        read_table(path)
    assert caught.value.line == 4


def test_wrong_bytes_are_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"x,\xe2\x80\x99\n" * 30_000 + b"y,\xff\n" + b"x,y\n" * 30_000)
    with pytest.raises(FormatError, match="UTF-8") as caught:
        read_delimited(path)
    assert caught.value.line == 30_002


def test_what_pyarrow_must_not_read_is_left_to_the_csv_module() -> None:
    for raw in (b"a\n1\n", b'a,"b\n', b"a,b\n1,2,3\n4\n", b'a,b\n"x"y,2\n', b'a,b\n5" pipe,2" pipe\n', b"\n\na,b\n"):
        assert _plain(Records(Path("t.csv"), raw, b",")) is None
    assert _plain(Records(Path("t.csv"), b"a,b\n\n1,2\n", b",")) is not None


def test_rows_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,labels\n" + "word " * 500_000 + ",a\nshort text,b\n")
    assert [len(row) for row in read_table(path).rows] == [2_500_000, 10]
