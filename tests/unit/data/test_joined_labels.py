"""Signs between the labels of a cell: taken, asked about, or part of a name."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.data.joined_labels import DOUBTFUL, SEPARATORS, doubtful_separator, found_separator, taken_apart
from lampnet.data.labels import read_targets

NAMES = ("war", "sea", "drama", "love", "noir", "road")
ASKED = ("-", "_", "•", " • ", " and ")
WORDS = st.text("abcdefg", min_size=1, max_size=4)


@pytest.mark.parametrize("sign", ["\n", "\r\n"])
def test_lines_in_a_cell_are_labels(sign: str) -> None:
    cells = [f"war{sign}sea", "sea", "war"] * 6
    assert found_separator(cells) == "\n"
    with pytest.warns(UserWarning, match="several labels per row"):
        assert read_targets(cells, 18).names == ("sea", "war")
    assert found_separator(["war\n", "sea\n"]) == "none"


@pytest.mark.parametrize("sign", ASKED)
def test_signs_of_names_are_asked_about_where_labels_come_alone(sign: str) -> None:
    cells = [f"war{sign}sea", "sea", "war"] * 4
    assert found_separator(cells) == "none"
    assert doubtful_separator(cells) == (sign if sign in DOUBTFUL else sign.strip())
    with pytest.warns(UserWarning, match="one class per row, such as"):
        assert read_targets(cells, 12).form.single


@pytest.mark.parametrize("sign", ASKED)
def test_and_where_few_labels_make_many_cells(sign: str) -> None:
    cells = [sign.join(pair) for pair in itertools.combinations(NAMES, 2)]
    assert doubtful_separator(cells) == (sign if sign in DOUBTFUL else sign.strip())


@pytest.mark.parametrize(
    "labels",
    [
        ["sci-fi", "war", "drama", "rom-com"],
        ["sci-fi", "fi-lm", "x_y"],
        ["not_spam", "spam"],
        ["O", *(f"{a}-{b}" for a in "BIES" for b in ("PER", "LOC", "ORG", "MISC", "TIME", "DATE", "WORK", "LAW"))],
        [f"{a}-{b}" for a in range(1, 9) for b in range(1, 9)],
        [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)],
        ["rock and roll", "jazz", "drum and bass"],
    ],
    ids=["genres", "few", "spam", "entity tags", "numbers", "dates", "music"],
)
def test_names_with_signs_are_left_alone(labels: list[str]) -> None:
    assert doubtful_separator(labels) == ""
    assert read_targets(labels * 3, 3 * len(labels)).form.single


@settings(deadline=None, max_examples=100)
@given(st.lists(WORDS, min_size=1, max_size=30), st.lists(WORDS, min_size=1, max_size=30), st.sampled_from("-_"))
def test_parts_that_never_come_alone_nor_change_places_are_no_labels(a: list[str], b: list[str], sign: str) -> None:
    cells = [f"x{one}{sign}y{two}" for one in a for two in b]
    assert found_separator(cells) == "none"
    assert doubtful_separator(cells) == ""


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sets(WORDS, min_size=1, max_size=4), min_size=1, max_size=20), st.sampled_from(SEPARATORS))
def test_label_sets_joined_by_a_sign_are_found_again(sets: list[set[str]], sign: str) -> None:
    cells = [sign.join(sorted(labels)) for labels in sets]
    found = found_separator(cells)
    assert found == ("none" if all(len(labels) == 1 for labels in sets) else sign)
    assert [set(taken_apart(cell, found) or ()) for cell in cells] == sets
