"""Files made to be slow: ten times the input takes at most twelve times the time.

The time is of the processor, and taken again where it says too much, as a busy machine may; what takes the square
of the input would need a hundred times, and never passes. `tests/faults/fuzz_files.py growth` looks for more.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.data.dataset import Dataset
from lampnet.errors import LampnetError
from lampnet.readers.any_format import read
from lampnet.readers.arff_header import split_fields
from lampnet.readers.column_roles import roles_of
from lampnet.readers.dna import read_fasta_rows
from lampnet.readers.label_edges import read_string_edges, read_taxonomy
from lampnet.readers.named.content_check import check_content
from lampnet.readers.named.reuters import read_documents
from lampnet.readers.raw_table import RawTable
from lampnet.runtime.limited_json import parse_json

TRIES = 8
FACTOR = 12


def seconds(act: Callable[[], Any]) -> float:
    """Of CPU, without Python's garbage collector, whose passes come in leaps."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        with suppress(LampnetError):
            act()
        return time.process_time() - begun
    finally:
        gc.enable()


def check_growth(make: Callable[[int], Callable[[], Any]], size: int, least: float = 1e-4) -> None:
    """`make` gives what is to be timed, for a size. The best measurements count: the machine may be busy.

    least  seconds that a small input counts as at least
    """
    small, large = make(size), make(10 * size)
    seconds(small)  # what is loaded on first use
    of_small, of_large = least, float("inf")
    for _ in range(TRIES):
        of_small, of_large = max(of_small, seconds(small)), min(of_large, seconds(large))
        if of_large <= FACTOR * of_small:
            return
    raise AssertionError(f"ten times the input took {of_large / of_small:.0f} times the time")


@pytest.mark.parametrize(
    "text",
    [lambda n: " " * n + "'", lambda n: "a" + " " * n + '"'],
    ids=["blanks and a quote", "blanks within"],
)
def test_fields_of_arff(text: Callable[[int], str]) -> None:
    check_growth(lambda n: lambda: split_fields(text(n)), 200)


HEAD = "@relation 'r: -C 1'\n@attribute y {0,1}\n"
SGML = '<REUTERS NEWID="1">{}<TEXT><BODY>x</BODY></TEXT></REUTERS>'
FILES: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "categories": (
        "x.arff",
        2000,
        lambda n: (
            HEAD
            + "@attribute c {" + ",".join(f"v{i}" for i in range(n)) + "}\n@data\n"
            + "".join(f"1,v{n - 1 - i}\n" for i in range(n))
        ),
    ),
    "a name twice": ("x.csv", 1500, lambda n: ",".join([*map(str, range(n)), str(n - 1)]) + "\n1,2\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_whole_files(name: str, tmp_path: Path) -> None:
    file, size, content = FILES[name]

    def make(n: int) -> Callable[[], Any]:
        path = tmp_path / f"{n}-{file}"
        path.write_text(content(n))
        return lambda: read(path)

    check_growth(make, size)


@pytest.mark.parametrize("fragment", ["<TOPICS>", "<TOPICS><D>", "<REUTERS ", "A"])
def test_documents_of_reuters(fragment: str, tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], Any]:
        path = tmp_path / f"{n}.sgm"
        inside = SGML.format(fragment * n)
        within_tag = SGML.replace(' NEWID="1"', " " + "A" * n)
        path.write_text({"A": within_tag, "<REUTERS ": fragment * n}.get(fragment, inside))
        return lambda: list(read_documents(path))

    check_growth(make, 3000)


@pytest.mark.parametrize("comment", [b"<!---->", b"<!-- -->\n", b"<!--"])
def test_comments_before_what_may_be_a_web_page(comment: bytes, tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], Any]:
        path = tmp_path / str(n)
        path.write_bytes(comment * n + b"<x")
        return lambda: check_content(path, "x.txt")

    check_growth(make, 2)  # of twenty comments there were a million divisions


def test_a_deep_tree_of_labels(tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], Any]:
        path = tmp_path / str(n)
        path.write_text("".join(f"n{i}\tn{i + 1}\n" for i in range(n)))
        return lambda: read_taxonomy(path)

    check_growth(make, 1000)


def test_many_labels_of_interactions(tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], Any]:
        names = [f"p{i}" for i in range(n)]
        links, info = tmp_path / f"{n}.links", tmp_path / f"{n}.info"
        links.write_text("a b score\n1.p0 1.p1 900\n")
        info.write_text("id\tname\n" + "".join(f"1.{name}\t{name}\n" for name in names))
        return lambda: read_string_edges(links, info, names)

    check_growth(make, 2000)


def test_a_label_name_that_occurs_twice() -> None:
    def make(n: int) -> Callable[[], Any]:
        names: Sequence[str] = (*map(str, range(n)), str(n - 1))
        return lambda: Dataset(name="x", kind="text", rows=["a"], labels=None, label_names=tuple(names))

    # A set of ten times as many names no longer fits the processor's cache; to compare all pairs would take seconds.
    check_growth(make, 2000, least=1e-3)


def test_a_misspelled_name_among_long_ones(tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], Any]:
        name = "".join(chr(0x4E00 + i % 150) for i in range(n))
        path = tmp_path / f"{n}.arff"
        path.write_text(f"@relation r\n@attribute {name} numeric\n@data\n1\n")
        return lambda: read(path, labels=[name[::-1], name])

    check_growth(make, 2000)


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_columns_are_looked_up_not_searched() -> None:
    names = tuple(Name(f"c{i}") for i in range(500))
    columns = tuple(np.array([0.0, 1.0] if i % 2 else [0.5, i]) for i in range(500))
    table = RawTable(Path("x.csv"), names, columns, range(2, 4))
    Name.compared = 0
    roles = roles_of(table)
    assert (roles.inputs, roles.labels) == (names[::2], names[1::2])
    assert Name.compared < 20 * len(names)


def test_a_table_of_a_million_columns_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n" + ",".join(["0"] * 1_000_000) + "\n")
    with pytest.raises(
        LampnetError, match="names 1,000,000 columns; a table may have 100,000: give so many features as"
    ):
        read(path)


def test_no_base_of_a_long_sequence_is_looked_at_by_python(tmp_path: Path) -> None:
    path = tmp_path / "long.fa"
    path.write_bytes(b">one\n" + (b"ACGTN" * 12 + b"\n") * 10_000)
    read_fasta_rows(path)  # what is loaded on first use
    calls = 0

    def count(*event: Any) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        rows = read_fasta_rows(path).rows
    finally:
        sys.setprofile(before)
    assert calls < 1000
    assert rows.shape == (1, 600_000)
    np.testing.assert_array_equal(rows[0, :7], [0, 1, 2, 3, 4, 0, 1])


def test_a_key_that_occurs_twice_among_many() -> None:
    def parse(n: int) -> Callable[[], None]:
        keys = [*range(n), n - 1]
        content = ("{" + ",".join(f'"{key}":0' for key in keys) + "}").encode()

        def refused() -> None:
            with pytest.raises(ValueError, match="occurs twice"):
                parse_json(content)

        return refused

    check_growth(parse, 2_000, least=1e-3)


def test_tensors_of_many_nested_lists() -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from lampnet.service.open_inference import _flat

    assert _flat([1, [2, [], [3]], 4]) == [1, 2, 3, 4]
    check_growth(lambda n: lambda: _flat([[]] * n), 2_000, least=1e-3)
