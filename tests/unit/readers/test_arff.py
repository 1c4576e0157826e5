"""Mulan and MEKA ARFF: dense, sparse, names, labels, and files that are not what they should be."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet.data.dataset import Table
from lampnet.errors import DataError, FormatError
from lampnet.readers.arff import read_arff
from lampnet.readers.arff_header import read_label_names, split_fields

XML = '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n{}</labels>\n'


def xml(path: Path, *names: str) -> Path:
    from xml.sax.saxutils import quoteattr

    path.write_text(XML.format("".join(f"<label name={quoteattr(name)}></label>\n" for name in names)))
    return path


def arff(path: Path, *attributes: str, rows: str, relation: str = "demo") -> Path:
    head = "".join(f"@attribute {attribute}\n" for attribute in attributes)
    path.write_text(f"@relation {relation}\n\n{head}\n@data\n{rows}")
    return path


def test_sparse_mulan(tmp_path: Path) -> None:
    xml(tmp_path / "l.xml", "TAG_a", "TAG_b")
    path = arff(
        tmp_path / "x.arff", "w1 {0,1}", "w2 {0,1}", "w3 numeric", "TAG_a {0,1}", "TAG_b {0,1}",
        rows="{0 1,2 2.5,4 1}\n{}\n{ 1 1 , 3 1 }\n",
    )  # fmt: skip
    data = read_arff(path)
    assert data.kind == "wordset"
    assert data.feature_names == ("w1", "w2", "w3")
    np.testing.assert_array_equal(data.rows.toarray(), [[1, 0, 2.5], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(data.indicator(), [[0, 1], [0, 0], [1, 0]])


def test_dense_mulan_becomes_columns_with_missing_values_and_categories(tmp_path: Path) -> None:
    xml(tmp_path / "l.xml", "happy")
    path = arff(
        tmp_path / "x.arff", "size REAL", "colour {red, 'dark blue'}", "happy {0,1}",
        rows="1.5,red,1\n?,'dark blue',0\n% a comment\n\n-2e1,?,?\n",
    )  # fmt: skip
    data = read_arff(path)
    assert isinstance(data.rows, Table)
    assert data.kind == "columns"
    np.testing.assert_array_equal(data.rows.values, [[1.5, 0], [np.nan, 1], [-20, np.nan]])
    assert data.rows.categories == {1: ("red", "dark blue")}
    np.testing.assert_array_equal(data.indicator(), [[1], [0], [np.nan]])


def test_dense_binary_features_are_a_word_set(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "a {0,1}", "b {0,1}", "y {0,1}", rows="1,0,1\n0,1,0\n")
    data = read_arff(path, ["y"])
    assert data.kind == "wordset"
    assert sparse.issparse(data.rows)


@pytest.mark.parametrize(
    ("declared", "listed"),
    [
        (r"'it\'s'", "it's"),
        ('"two words"', "two words"),
        (r"TAG_m\'usica", r"TAG_m\'usica"),
        ("'100\\% sure, {really}'", "100% sure, {really}"),
        ("a&b", "a&b"),
    ],
)
def test_quoted_names_and_escaped_apostrophes(tmp_path: Path, declared: str, listed: str) -> None:
    xml(tmp_path / "l.xml", listed)
    path = arff(tmp_path / "x.arff", "w {0,1}", f"{declared} {{0,1}}", rows="{1 1}\n")
    data = read_arff(path)
    assert data.label_names == (listed,)
    assert data.indicator().tolist() == [[1]]


def test_label_order_is_that_of_the_xml(tmp_path: Path) -> None:
    xml(tmp_path / "l.xml", "b", "a")
    path = arff(tmp_path / "x.arff", "a {0,1}", "w numeric", "b {0,1}", rows="1,7,0\n")
    data = read_arff(path)
    assert data.label_names == ("b", "a")
    assert data.indicator().tolist() == [[0, 1]]
    assert data.feature_names == ("w",)


@pytest.mark.parametrize(("count", "labels"), [(2, ("p", "q")), (-1, ("s",)), (-3, ("q", "r", "s"))])
def test_meka_counts_labels_from_either_end(tmp_path: Path, count: int, labels: tuple[str, ...]) -> None:
    path = arff(
        tmp_path / "x.arff", "p {0,1}", "q {0,1}", "r {0,1}", "s {0,1}", rows="1,0,1,0\n",
        relation=f"'IMDB: -C {count} -split-percentage 67'",
    )  # fmt: skip
    data = read_arff(path)
    assert data.label_names == labels
    assert data.indicator().tolist() == [[float("pr".find(label) >= 0) for label in labels]]


def counted(path: Path, count: int) -> Path:
    return arff(path, "w1 {0,1}", "w2 {0,1}", "y1 {0,1}", "y2 {0,1}", rows="1,0,0,1\n", relation=f"'m: -C {count}'")


@pytest.mark.parametrize(("count", "listed"), [(2, ("y1", "y2")), (1, ("y2", "y1")), (9, ("y1", "y2")), (-2, ("w1",))])
def test_the_label_xml_wins_over_meka_and_a_difference_is_warned_of(
    tmp_path: Path, count: int, listed: tuple[str, ...]
) -> None:
    xml(tmp_path / "m.xml", *listed)
    with pytest.warns(UserWarning, match=rf"x.arff: the relation says -C {count}, but m.xml names .* those of m.xml"):
        data = read_arff(counted(tmp_path / "x.arff", count))
    assert data.label_names == listed


def test_the_xml_and_meka_agree(tmp_path: Path) -> None:
    xml(tmp_path / "m.xml", "y2", "y1")
    data = read_arff(counted(tmp_path / "x.arff", -2))  # no warning, which would be an error here
    assert data.label_names == ("y2", "y1")  # the order is the XML's
    xml(tmp_path / "m.xml", "y1", "Y-2")  # as IMDB: the same labels, one spelled otherwise
    assert read_arff(counted(tmp_path / "x.arff", -2)).label_names == ("y1", "y2")


def test_an_xml_of_another_file_leaves_meka_its_labels_with_a_warning(tmp_path: Path) -> None:
    xml(tmp_path / "m.xml", "red", "green")
    with pytest.warns(UserWarning, match=r"none of which is an attribute; the first 2 attributes are taken"):
        assert read_arff(counted(tmp_path / "x.arff", 2)).label_names == ("w1", "w2")


def test_an_xml_that_fits_half_and_contradicts_meka_is_refused(tmp_path: Path) -> None:
    xml(tmp_path / "m.xml", "y1", "red")
    with pytest.raises(DataError, match=r"the label 'red' is not an attribute of the file \(1 of 2 are not\)"):
        read_arff(counted(tmp_path / "x.arff", 2))


def test_of_several_xml_files_the_one_of_the_same_name_is_taken(tmp_path: Path) -> None:
    xml(tmp_path / "med.xml", "w1")
    xml(tmp_path / "medical.xml", "y1", "y2")
    assert read_arff(counted(tmp_path / "medical-train.arff", -2)).label_names == ("y1", "y2")
    assert read_arff(counted(tmp_path / "other.arff", 2)).label_names == ("w1", "w2")


def test_a_count_of_thousands_of_digits_is_no_count(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "w {0,1}", "y {0,1}", rows="1,0\n", relation=f"'m: -C {'9' * 5000}'")
    with pytest.raises(DataError, match="which attributes are labels is not known"):
        read_arff(path)


def test_labels_turned_round_and_in_words(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "w numeric", "y {1,0}", "z {no,yes}", rows="{0 2,1 0,2 yes}\n{}\n")
    # A value left out of a sparse row is the first one declared: y is 1 there, z is no.
    np.testing.assert_array_equal(read_arff(path, ["y", "z"]).indicator(), [[0, 1], [1, 0]])


def test_one_string_attribute_is_text(tmp_path: Path) -> None:
    path = arff(
        tmp_path / "x.arff", "y {0,1}", "plot string", rows="1,'A dog\\'s life, again'\n0,\"short\"\n",
        relation="'t: -C 1'",
    )  # fmt: skip
    data = read_arff(path)
    assert (data.kind, list(data.rows)) == ("text", ["A dog's life, again", "short"])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_compressed_crlf_and_byte_order_mark(tmp_path: Path, compress: object) -> None:
    plain = b"\xef\xbb\xbf@RELATION 'x: -C 1'\r\n@ATTRIBUTE y {0,1}\r\n@ATTRIBUTE w NUMERIC\r\n@DATA\r\n{0 1,1 3}\r\n"
    path = tmp_path / "x.arff.packed"
    path.write_bytes(compress(plain))  # type: ignore[operator]
    data = read_arff(path)
    assert (data.indicator().tolist(), data.rows.toarray().tolist()) == ([[1]], [[3]])


def test_kind_vector(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "a numeric", "b numeric", "y {0,1}", rows="0.5,1,1\n")
    data = read_arff(path, ["y"], kind="vector")
    assert (data.kind, data.rows.dtype, data.rows.tolist()) == ("vector", np.float32, [[0.5, 1]])


def test_rows_for_prediction_may_lack_the_label_columns(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "a numeric", "b numeric", rows="0.5,1\n")
    data = read_arff(path, ["y", "z"])
    assert data.labels is None
    assert data.label_names == ("y", "z")


@pytest.mark.parametrize(
    ("rows", "line", "words"),
    [
        ("{0 1,2 1}\n{0 1,9 1}\n", 9, "index 9"),
        ("{0 1\n", 8, "between"),
        ("{0 1,0 1}\n", 8, "twice"),
        ("{0 1 1}\n", 8, "pair"),
        ("{0 x}\n", 8, "declared values"),
        ("{1 1e999}\n", 8, "infinite"),
        ("1,0\n", 8, "3 were expected"),
        ("1,0,0\n1,zwei,1\n", 9, "not a number"),
        ("1,'0,0\n", 8, "quotation mark"),
        ("", 8, "no rows"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, rows: str, line: int, words: str) -> None:
    path = arff(tmp_path / "x.arff", "a {0,1}", "b numeric", "y {0,1}", rows=rows)
    with pytest.raises(FormatError, match=words) as caught:
        read_arff(path, ["y"])
    assert caught.value.line == line
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "before a @data"),
        (b"@relation x\n@attribute a numeric\n", "before a @data"),
        (b"@relation x\n@data\n1\n", "no @attribute"),
        (b"@relation x\nnonsense\n", "not an ARFF header"),
        (b"@relation x\n@attribute a date\n@data\n", "type"),
        (b"@relation x\n@attribute a {0,1\n@data\n", "does not close"),
        (b"@relation 'x: -C 7'\n@attribute a numeric\n@data\n1\n", "-C 7"),
    ],
)
def test_broken_headers(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.arff"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=words):
        read_arff(path)


def test_values_outside_the_declaration_and_wrong_labels(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "a {0,1}", "y {0,1}", rows="{0 2}\n")
    with pytest.raises(FormatError, match="declared values"):
        read_arff(path, ["y"])
    path = arff(tmp_path / "z.arff", "a {0,1}", "y numeric", rows="1,3\n")
    with pytest.raises(FormatError, match="labels are 0 or 1"):
        read_arff(path, ["y"])


def test_unknown_label_and_missing_xml(tmp_path: Path) -> None:
    path = arff(tmp_path / "x.arff", "a {0,1}", "happy {0,1}", rows="{0 1}\n")
    with pytest.raises(DataError, match="--labels FILE"):
        read_arff(path)
    with pytest.raises(DataError, match="did you mean 'happy'"):
        read_arff(path, xml(tmp_path / "l.xml", "hapy"))


def test_label_files(tmp_path: Path) -> None:
    nested = tmp_path / "n.xml"
    nested.write_text('<labels xmlns="http://mulan"><label name="a"><label name="b"/></label></labels>')
    assert read_label_names(nested) == ("a", "b")
    lines = tmp_path / "names.txt"
    lines.write_text("a\nb c\n\n")
    assert read_label_names(lines) == ("a", "b c")
    bomb = tmp_path / "bomb.xml"
    bomb.write_text('<!DOCTYPE x [<!ENTITY a "aaaa">]><labels><label name="&a;"/></labels>')
    with pytest.raises(FormatError, match="not allowed"):
        read_label_names(bomb)
    torn = tmp_path / "torn.xml"
    torn.write_text('<labels>\n<label name="a">')
    with pytest.raises(FormatError, match="well-formed") as caught:
        read_label_names(torn)
    assert caught.value.line == 2


@given(st.lists(st.lists(st.integers(0, 9), unique=True), min_size=1, max_size=8), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_written_matrix_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], s: bool
) -> None:
    folder = tmp_path_factory.mktemp("arff")
    dense = np.zeros((len(rows), 10), dtype=int)
    for number, columns in enumerate(rows):
        dense[number, columns] = 1
    if s:
        body = "\n".join("{" + ",".join(f"{c} 1" for c in columns) + "}" for columns in rows)
    else:
        body = "\n".join(",".join(map(str, row)) for row in dense)
    path = arff(folder / "x.arff", *(f"a{n} {{0,1}}" for n in range(10)), rows=body)
    data = read_arff(path, [f"a{n}" for n in range(7, 10)])
    np.testing.assert_array_equal(data.rows.toarray(), dense[:, :7])
    np.testing.assert_array_equal(data.indicator(), dense[:, 7:])


def test_split_fields_edges() -> None:
    assert split_fields("a,,b,") == ["a", "", "b", ""]
    assert split_fields("'a\\'b' , c") == ["a'b", "c"]
    assert split_fields("'open, c") is None
