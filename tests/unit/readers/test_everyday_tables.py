"""Tables as people keep them: Excel's exports, words for yes and no, dates in other forms, files without a header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.data.column_content import date_seconds
from lampnet.errors import FormatError
from lampnet.readers.raw_table import TextColumn
from lampnet.readers.tables import read_table

PLOTS = ["a long war story", "two friends on the road", "an old captain at sea", "she loves him no more"]


def read(path: Path, text: str, encoding: str = "utf-8", **options: Any) -> tuple[Any, list[str]]:
    path.write_bytes(text.encode(encoding))
    notices: list[str] = []
    return read_table(path, notice=notices.append, **options), notices


def test_an_excel_export_of_a_german_machine(tmp_path: Path) -> None:
    """A byte order mark, semicolons, decimal commas, dots between thousands, days first, line feeds in cells."""
    tags = ["krieg|meer", "liebe", "meer", "liebe|krieg"]
    rows = [
        f'"{plot}\nEnde";{number};{day}.0{day % 9 + 1}.2024;{genre}'
        for day, (plot, number, genre) in enumerate(
            zip(PLOTS * 6, ["8,44", "1.234,5", "3", ""] * 6, tags * 6, strict=True), 1
        )
    ]
    text = "\r\n".join(["Inhalt;Bewertung;Datum;Genres", *rows]) + "\r\n"
    data, notices = read(tmp_path / "excel.csv", text, "utf-8-sig")
    assert dict(data.rows.roles) == {"Inhalt": "text", "Bewertung": "number", "Datum": "date"}
    assert data.label_names == ("krieg", "liebe", "meer")
    table = data.rows.table()
    np.testing.assert_array_equal(table.values[:4, 0], [8.44, 1234.5, 3, np.nan])
    assert table.values[0, 1] == date_seconds("2024-02-01")
    assert "excel.csv: commas are decimal commas in the column 'Bewertung'" in notices
    assert data.rows.parts[0].rows[0] == "a long war story\nEnde"


def test_commas_are_no_decimal_commas_between_commas_or_labels(tmp_path: Path) -> None:
    """`3,14` may be two labels; only where semicolons divide the cells can a comma be nothing else."""
    text = "plot,tags\n" + "".join(f'{plot} {n},"{n % 3},{n % 2 + 3}"\n' for n, plot in enumerate(PLOTS * 6))
    data, notices = read(tmp_path / "tags.csv", text)
    assert data.label_names == ("0", "1", "2", "3", "4")
    assert len(notices) == 1
    assert TextColumn(["1,5", "2"]).numbers is None


def test_dots_group_digits_where_commas_are_decimal() -> None:
    column = TextColumn(["1.234", "-12.345.678,25", "0,5", "", "7"], decimal_comma=True)
    np.testing.assert_array_equal(column.numbers, [1234, -12345678.25, 0.5, np.nan, 7])
    plain = TextColumn(["1.234", "2.5"], decimal_comma=True)
    np.testing.assert_array_equal(plain.numbers, [1.234, 2.5])
    assert not plain.has_decimal_commas
    for odd in ("1,2,3", "12.34,5", "1,", ",5", "1.234.5", "a,5"):
        assert TextColumn(["0,5", odd], decimal_comma=True).numbers is None, odd


@pytest.mark.parametrize(
    ("yes", "no"),
    [("yes", "no"), ("Ja", "Nein"), ("oui", "non"), ("TRUE", "FALSE"), ("Y", "N"), ("да", "нет"), ("✓", "✗")],
)
def test_label_columns_of_words_for_yes_and_no(yes: str, no: str, tmp_path: Path) -> None:
    cells = [(yes, no), (no, yes), (yes, ""), (no, no)] * 2
    text = "plot,war,sea\n" + "".join(f"{plot},{a},{b}\n" for plot, (a, b) in zip(PLOTS * 2, cells, strict=True))
    for given in ({}, {"columns": {"labels": ["war", "sea"]}}):
        data, notices = read(tmp_path / "a.csv", text, **given)
        assert data.label_names == ("war", "sea")
        np.testing.assert_array_equal(data.indicator()[:4], [[1, 0], [0, 1], [1, np.nan], [0, 0]])
        assert len(notices) == 1


def test_check_marks_leave_the_others_out_and_it_is_said(tmp_path: Path) -> None:
    marks = ["x ", " X", "xx", "  "]
    text = "plot,war,sea\n" + "".join(f"{plot},{a},{b}\n" for plot, (a, b) in zip(PLOTS, marks, strict=True))
    data, notices = read(tmp_path / "a.csv", text)
    np.testing.assert_array_equal(data.indicator(), [[1, 0], [0, 1], [1, 1], [0, 0]])
    assert notices[1:] == ["a.csv: empty cells mean no in the columns 'war', 'sea'"]
    one, _ = read(
        tmp_path / "b.csv", "plot,war\n" + "".join(f"{plot},{'x' if n else ''}\n" for n, plot in enumerate(PLOTS))
    )
    assert one.label_names == ("war",)  # not a label called x
    assert one.indicator().ravel().tolist() == [0, 1, 1, 1]


def test_other_labels_stay_what_they_are_beside_yes_and_no(tmp_path: Path) -> None:
    text = "plot,smoker,genres\n" + "".join(f"{plot},{'ja' if n else 'nein'},a;b\n" for n, plot in enumerate(PLOTS))
    data, _ = read(tmp_path / "a.csv", text)
    assert dict(data.rows.roles)["smoker"] == "category"
    assert data.label_names == ("a", "b")


def test_a_word_that_is_neither_yes_nor_no_is_named_with_its_line(tmp_path: Path) -> None:
    answers = zip(PLOTS, ["ja", "nein", "eh", ""], strict=True)
    text = "plot,war,sea\n" + "".join(f"{plot},{cell},1\n" for plot, cell in answers)
    problem = r"a.csv, line 4: the label column 'war' holds 'eh'; expected 0, 1 or nothing, or yes and no"
    with pytest.raises(FormatError, match=problem):
        read(tmp_path / "a.csv", text, columns={"labels": ["war", "sea"]})


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("31.05.2024", "2024-05-31"),
        ("1.5.2024", "2024-05-01"),
        ("2024/05/31", "2024-05-31"),
        ("31 May 2024", "2024-05-31"),
        ("31-Dec-2024", "2024-12-31"),
        ("September 3, 2024", "2024-09-03"),
        ("31.05.2024 12:30", "2024-05-31 12:30"),
        ("31.05.2024, 1:02:03", "2024-05-31 01:02:03"),
    ],
)
def test_dates_whose_day_is_clear(written: str, iso: str) -> None:
    assert date_seconds(written) == date_seconds(iso) is not None


@pytest.mark.parametrize(
    "odd", ["05/06/2024", "32.05.2024", "31.13.2024", "3 Mai 2024", "1.5.24", "12 Foo 2024", "1.2", ""]
)
def test_what_is_no_date_or_may_be_two(odd: str) -> None:
    assert date_seconds(odd) is None


def test_dates_that_may_be_two_are_asked_about(tmp_path: Path) -> None:
    text = "plot,day,genres\n" + "".join(f"{plot},{n + 1:02}/05/2024,a;b\n" for n, plot in enumerate(PLOTS * 6))
    _, notices = read(tmp_path / "a.csv", text)
    assert any("the column 'day' may hold dates, but which number is the day is not clear" in one for one in notices)


def test_a_file_without_a_header_is_asked_about(tmp_path: Path) -> None:
    body = "".join(f"{plot},a;b\n{plot} again,b\n" for plot in PLOTS)
    _, notices = read(tmp_path / "a.csv", body)
    assert notices[1:] == ["a.csv: the first line should name the columns, but 'a;b' is a cell of its column, too"]
    assert len(read(tmp_path / "b.csv", "plot,genres\n" + body)[1]) == 1


def test_categories_that_may_be_texts_are_told(tmp_path: Path) -> None:
    words = ["storm", "ship", "war", "love", "kiss", "gun", "sea", "sun"]
    body = "".join(f"{PLOTS[i % 4]} {i},{words[i % 8]} {words[i % 5]},{('US', 'NZ')[i % 2]},a;b\n" for i in range(80))
    text = "plot,motto,country,genres\n" + body
    _, notices = read(tmp_path / "a.csv", text)
    assert notices[-1] == (
        "a.csv: read as categories, although they may be texts: the column 'motto'; --columns text=NAME sets it"
    )
    given = {"text": "plot", "category": "motto,country", "labels": "genres"}
    assert "may be texts" not in " ".join(read(tmp_path / "a.csv", text, columns=given)[1])


def test_columns_without_a_value_are_left_out(tmp_path: Path) -> None:
    text = "plot,notes,,genres\n" + "".join(f"{plot},,,a;b\n" for plot in PLOTS)
    data, notices = read(tmp_path / "a.csv", text)
    assert data.kind == "text"
    assert "not used: the columns 'notes', ''" in notices[0]


def test_signs_between_few_labels_are_asked_about(tmp_path: Path) -> None:
    signs = ["🔪", "❤️", "💣", "🌊"]
    cells = [f"{a} {b}" for a in signs for b in signs if a != b]
    text = "plot,emoji\n" + "".join(f"{PLOTS[n % 4]},{cell}\n" for n, cell in enumerate(cells))
    _, notices = read(tmp_path / "a.csv", text, columns={"labels": "emoji"})
    assert "--columns separator=' '" in notices[-1]
