"""What a column is for: guessed by one rule, settable; text never becomes a category in silence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lampnet.data.column_content import is_text, role_of_strings, role_of_values
from lampnet.data.kinds import kind_of
from lampnet.data.named_columns import part_rows, roles_of_columns
from lampnet.data.schema import align_parts
from lampnet.errors import DataError

PLOTS = [f"a man number {i} goes to the sea" for i in range(10)]


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (PLOTS, "text"),
        (["Jaws", "Up", "Heat", "Alien"], "category"),  # one word each
        (["United States", "New Zealand"] * 50, "category"),  # the same few again and again
        (["Very happy with all of the service"] * 99 + ["Not happy with it at all"] * 101, "category"),
        (PLOTS[:2] * 5, "text"),  # prose that comes several times is prose
        (["嵐の海へ向かう男", "戦争と平和の物語", "二人の友"], "text"),
        (["2024-02-30", "2024-01-01"], "category"),  # no such day
        (["2024-02-28", "2024-01-01T10:00:00Z"], "date"),
        (["ACGTACGT", "ACGTACGTT"], "category"),  # not of one width
        (["a b.png", "c d.png"], "text"),
    ],
)
def test_strings(values: list[str], role: str) -> None:
    assert role_of_strings("x", values[:200]) == role


def test_values_of_every_type() -> None:
    assert role_of_values("x", [True, False]) == "number"
    assert role_of_values("x", [{"a"}, {"b", "c"}]) == "words"
    assert role_of_values("x", [[0.5, 1], [2, 3]]) == "vector"
    assert role_of_values("x", [np.zeros((4, 4), np.uint8)]) == "image"
    assert role_of_values("x", ["a", 1]) == "category"
    assert role_of_values("x", []) == "number"
    assert not is_text([])


def test_text_beside_other_columns_is_text_in_every_container() -> None:
    pd = pytest.importorskip("pandas")
    columns = {"plot": PLOTS, "year": list(range(10)), "country": ["US", "NZ"] * 5}
    wanted = (("plot", "text"), ("year", "number"), ("country", "category"))
    frame = pd.DataFrame(columns)
    for held in (columns, frame, frame.astype({"plot": "string", "country": "category"})):
        assert roles_of_columns(held) == wanted
        assert kind_of(held) == "parts"
    assert kind_of(frame.to_numpy()) == "parts"
    assert kind_of(frame[["year", "country"]]) == "columns"
    assert kind_of(frame[["plot"]]) == kind_of(frame[["country"]]) == "text"
    assert kind_of({"year": [1, 2]}) == "columns"


def test_roles_that_are_given_hold() -> None:
    columns = {"plot": PLOTS, "zip": [1010.0, 1020, np.nan, *range(7)], "year": list(range(10))}
    roles = roles_of_columns(columns, {"category": ["zip", "plot"]})
    assert roles == (("plot", "category"), ("zip", "category"), ("year", "number"))
    (table,) = part_rows(columns, roles).parts
    assert "1010" in table.rows.categories[1]
    assert np.isnan(table.rows.values[2, 1])
    for asked, problem in (
        ({"txt": "plot"}, "did you mean 'text'"),
        ({"text": "plott"}, "no column 'plott'; did you mean 'plot'"),
        ({"text": "plot", "category": "plot"}, "as text and as category"),
    ):
        with pytest.raises(DataError, match=problem):
            roles_of_columns(columns, asked)
    with pytest.raises(DataError, match="'plot' is read as a number, but holds 'a man"):
        part_rows(columns, roles_of_columns(columns, {"number": "plot"}))


def test_columns_that_do_not_fit_together_are_refused() -> None:
    for columns, problem in (
        ({"a": [1, 2], "b": [1]}, "give every column one per row"),
        ({"a": "text"}, "'a' of X is not a list"),
        ({"a": [1], "b": 5}, "'b' of X is not a list"),
        ({}, "no values"),
        ({"a\udce9": [1]}, "half a character"),
    ):
        with pytest.raises(DataError, match=problem):
            roles_of_columns(columns)
    vectors = {"v": [[1, 2], [3]], "t": ["a", "b"]}
    with pytest.raises(DataError, match=r"'v': its value 1 is '\[3\]'; give vectors of 2 numbers"):
        part_rows(vectors, (("v", "vector"), ("t", "text")))
    with pytest.raises(DataError, match="no column 't', which the model was fitted with"):
        part_rows({"v": [[1.0]]}, (("v", "vector"), ("t", "text")))


def test_missing_values_of_every_role() -> None:
    columns = {"t": [None, "a b"], "w": [None, "x;y"], "v": [None, [1, 2]], "m": [float("nan"), "CCO"], "n": [None, 3]}
    roles = (("t", "text"), ("w", "words"), ("v", "vector"), ("m", "smiles"), ("n", "number"))
    text, words, vector, molecule, table = part_rows(columns, roles).parts
    assert text.rows == ["", "a b"]
    for part in (words, vector, molecule):
        assert part.where.tolist() == [-1, 0]
        assert part.present().tolist() == [1]
    assert words.feature_names == ("x", "y")
    assert np.isnan(table.rows.values[0, 0])


@given(
    st.lists(
        st.lists(st.one_of(st.sampled_from(["a", " a", "b ", "", "1", " "]), st.sampled_from([1, 1.0, True, None]))),
        min_size=1,
    )
)
def test_words_of_lists_are_counted_as_one_by_one(cells: list[list[object]]) -> None:
    """As by a slow count of every entry: equal entries of other types (1, 1.0, True) are words of their own."""
    part = part_rows({"w": cells}, (("w", "words"),)).parts[0]
    expected = [[str(entry).strip() for entry in cell if entry is not None and str(entry).strip()] for cell in cells]
    assert part.feature_names == tuple(sorted({word for row in expected for word in row}))
    slow = [[float(row.count(word)) for word in part.feature_names] for row in expected]
    assert part.rows.toarray().tolist() == slow


def test_a_vector_that_all_rows_lack_is_missing_in_all() -> None:
    roles = (("v", "vector"), ("t", "text"))
    train = part_rows({"v": [[1.0, 2.0], [3.0, 4.0]], "t": ["a b", "c d"]}, roles)
    rows = align_parts(train, part_rows({"v": [None], "t": ["a b"]}, roles), "X")
    assert rows.parts[0].rows.shape == (0, 2)
    assert len(rows) == 1
    with pytest.raises(DataError, match="3 numbers, the training rows 2"):
        align_parts(train, part_rows({"v": [[1.0, 2.0, 3.0]], "t": ["a b"]}, roles), "X")
