"""Arrow and Feather files read as the same rows in CSV; in chunks, what a chunk lacks the others may have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lampnet.errors import DataError, FormatError
from lampnet.readers.any_format import read
from lampnet.readers.arrow_files import list_cells
from lampnet.readers.table_chunks import TableChunks
from lampnet.readers.tables import read_table
from lampnet.runtime.memory_limit import limited_to

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["war and peace", "a funny road trip", "two cooks in love", "the long night"]
TAGS = ["drama|war", "comedy", "comedy|love", ""]
COLUMNS = {"text": TEXTS, "tags": TAGS, "id": [7, 8, 9, 10]}


def write_arrow(path: Path, columns: dict[str, Any], rows: int = 1000, compression: str | None = None) -> Path:
    table = arrow.table(columns)
    make = arrow.ipc.new_stream if path.name.startswith("stream") else arrow.ipc.new_file
    options = arrow.ipc.IpcWriteOptions(compression=compression)
    with arrow.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


@pytest.mark.parametrize("name", ["films.arrow", "films.feather", "stream.arrow", "films"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_reads_as_the_csv_does(name: str, compression: str | None, tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(
        "text,tags,id\n" + "".join(f"{a},{b},{c}\n" for a, b, c in zip(*COLUMNS.values(), strict=True))
    )
    data = read(write_arrow(tmp_path / name, COLUMNS, 3, compression))
    same = read(tmp_path / "films.csv")
    assert (data.kind, list(data.rows), data.label_names) == (same.kind, list(same.rows), same.label_names)
    assert (data.indicator() == same.indicator()).all()
    assert data.ids == same.ids


BYTES = (
    lambda values: arrow.array(values, arrow.binary()),
    lambda values: arrow.array(values, arrow.large_binary()),
    lambda values: arrow.array(values, arrow.binary_view()),
    lambda values: arrow.array(values, arrow.binary()).dictionary_encode(),
)


@pytest.mark.parametrize("bytes_of", BYTES, ids=["binary", "large", "views", "coded"])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_texts_that_were_written_as_bytes(bytes_of: Any, ending: str, tmp_path: Path) -> None:
    """As Spark and Impala write texts by default, in lists too."""

    def written(texts: list[bytes | None]) -> Path:
        lists = arrow.ListArray.from_arrays([0, 2, 3, 3, 4], bytes_of([b"a", b"b", b"a", "ü".encode()]))
        path = tmp_path / f"rows.{ending}"
        columns = {"text": bytes_of(texts), "labels": lists}
        if ending == "parquet":
            parquet.write_table(arrow.table(columns), path)
            return path
        return write_arrow(path, columns)

    data = read(written([text.encode() for text in TEXTS]))
    assert (data.kind, list(data.rows), data.label_names) == ("text", TEXTS, ("a", "b", "ü"))
    with pytest.raises(FormatError, match=r"line 3: the column 'text' holds bytes that are not UTF-8"):
        read(written([b"red fox", None, b"\xff\xfe", b"blue sea"]))


def test_a_column_name_that_occurs_twice(tmp_path: Path) -> None:
    table = arrow.Table.from_arrays(
        [arrow.array(TEXTS), arrow.array(TAGS), arrow.array(TEXTS)], ["text", "tags", "text"]
    )
    with arrow.ipc.new_file(tmp_path / "twice.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(FormatError, match="the column name 'text' occurs twice"):
        read(tmp_path / "twice.arrow")


def test_numbers_and_dictionaries(tmp_path: Path) -> None:
    kinds = arrow.array(["u", "v", "u"]).dictionary_encode()
    columns = {"x": [1.5, None, 2.0], "z": kinds, "y_a": [1, 0, 1], "y_b": [True, None, False]}
    data = read_table(write_arrow(tmp_path / "n.arrow", columns))
    np.testing.assert_array_equal(data.rows.values, [[1.5, 0], [np.nan, 1], [2, 0]])
    np.testing.assert_array_equal(data.indicator(), [[1, 1], [0, np.nan], [1, 0]])


def test_numbers_as_names_of_labels(tmp_path: Path) -> None:
    data = read_table(write_arrow(tmp_path / "n.arrow", {"text": TEXTS, "label": [3, 1, None, 3]}))
    assert data.label_names == ("1", "3")
    assert data.indicator().tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]


def test_a_cell_that_is_no_list_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,tags\na b c,"[1, 2]"\nd e f,3\n')
    with pytest.raises(FormatError, match=r"line 3: '3' is not a list of labels"):
        read_table(tmp_path / "t.csv", columns={"separator": "list"})


def test_damage_is_reported(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "films.arrow", COLUMNS, 3)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 40):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=r"not a readable Arrow file|ends too early"):
            read_table(path)
    # An offset into the texts that leads outside them would be followed into foreign memory.
    place = whole.index(np.array([0, 13, 30], dtype=np.int32).tobytes())
    path.write_bytes(whole[: place + 4] + b"\xff\xff\xff\x7f" + whole[place + 8 :])
    with pytest.raises(FormatError, match="not a readable Arrow file"):
        read_table(path)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_changed_bytes_are_read_or_refused(compression: str | None, tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "films.arrow", COLUMNS, 3, compression)
    whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    refused = 0
    for seed in range(100):
        draw = np.random.default_rng(seed)
        changed = whole.copy()
        changed[draw.integers(len(whole), size=3)] = draw.integers(256, size=3)
        path.write_bytes(changed.tobytes())
        try:
            read_table(path)
            list(TableChunks(path, size=2))
        except DataError:
            refused += 1
    assert 0 < refused < 100


CHANGED_PARQUET = """
import sys
from pathlib import Path
from lampnet.errors import FormatError
from lampnet.readers.any_format import read

path = Path(sys.argv[1])
whole = path.read_bytes()
summary = range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8)
# -3 where Thrift has a small number, such as that of a codec; and a page's header with a list of 2**60 bytes
changes = [(place, b"\\x05") for place in summary] + [(4, b"\\x19\\xf3" + b"\\x80" * 8 + b"\\x10")]
for place, change in changes:
    path.write_bytes(whole[:place] + change + whole[place + len(change) :])
    try:
        read(path)
        print("read")
    except FormatError as fault:
        print(fault)
"""


def test_a_changed_summary_or_page_of_a_parquet_file_is_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own: pyarrow ends the whole process when it is asked for a codec that does not exist."""
    path = tmp_path / "films.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow.table({"text": ["a b c", "d e f"], "labels": [["x", "y"], ["x"]]}), path
    )
    command = [sys.executable, "-c", CHANGED_PARQUET, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    outcomes = done.stdout.splitlines()
    assert outcomes[-1].endswith("this is not a readable Parquet file (the header of a page is damaged)")
    assert 0 < outcomes.count("read") < len(outcomes) / 2


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_bomb_is_refused_before_it_is_decompressed(compression: str, tmp_path: Path) -> None:
    columns = {"text": ["0" * 1_000_000] * 20, "tags": ["a"] * 20}
    path = write_arrow(tmp_path / "bomb.arrow", columns, compression=compression)
    assert path.stat().st_size < 200_000
    before = arrow.total_allocated_bytes()
    with limited_to(1_000_000), pytest.raises(FormatError, match="above the limit of 1 MB"):
        read_table(path)
    assert arrow.total_allocated_bytes() - before < 1_000_000
    with limited_to(100_000_000):
        assert len(read_table(path)) == 20


@pytest.mark.parametrize("first_empty", [True, False])
def test_a_chunk_without_labels(first_empty: bool, tmp_path: Path) -> None:
    tags = ["", "", "", "", "a|b", "c"] if first_empty else ["a", "c", "", "", "a|b", ""]
    path = write_arrow(tmp_path / "t.arrow", {"text": [f"words of row {i}" for i in range(6)], "tags": tags})
    chunks, whole = TableChunks(path, size=2), read_table(path)
    assert chunks.label_names == whole.label_names == ("a", "b", "c")
    assert (np.vstack([chunk.indicator() for chunk in chunks]) == whole.indicator()).all()
    labels = chunks.labels()
    assert labels is not None
    assert (labels.toarray() == whole.indicator()).all()


def test_pieces_of_which_none_has_labels(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "t.arrow", {"text": TEXTS, "tags": [""] * 4})
    with pytest.raises(DataError, match="'tags' names no label at all"):
        TableChunks(path, size=2)


def test_unknown_labels_are_not_had(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "t.arrow", {"text": TEXTS, "y_a": [1, None, 0, 1], "y_b": [0, 0, None, 1]})
    labels = TableChunks(path, size=3).labels()
    assert labels is not None
    assert labels.toarray().tolist() == [[1, 0], [0, 0], [0, 0], [1, 1]]


def test_unreadable_molecules_are_left_out_of_the_pieces(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    smiles = ["CCO", "c1ccccc1", "C(C", "not a molecule", "CCN", "CC(=O)O"]
    columns = {"smiles": smiles, "y_a": [1, 0, 1, 1, 0, 1], "y_b": [0, 1, 0, 0, 1, 1]}
    path = write_arrow(tmp_path / "m.arrow", columns)
    assert TableChunks(path, size=2).rows == 6
    chunks = TableChunks(path, size=2, on_bad_row="skip")
    assert (chunks.rows, chunks.skipped) == (4, 2)
    assert [list(chunk.rows) for chunk in chunks] == [["CCO", "c1ccccc1"], ["CCN", "CC(=O)O"]]
    labels = chunks.labels()
    assert labels is not None
    assert labels.toarray().tolist() == [[1, 0], [0, 1], [0, 1], [1, 1]]
    bad = write_arrow(tmp_path / "bad.arrow", {"smiles": ["C(C", "N("], "y_a": [1, 0]})
    with pytest.raises(DataError, match="none of the SMILES"):
        TableChunks(bad, {"smiles": "smiles", "labels": "y_a"}, on_bad_row="skip")


_VALUES = {
    "string": st.text("abcé", max_size=3),
    "int64": st.integers(-5, 5),
    "double": st.floats(-2, 2),
    "bool": st.booleans(),
}


@given(
    data=st.data(), kind=st.sampled_from(sorted(_VALUES)), form=st.sampled_from(("list_", "large_list", "list_view"))
)
def test_list_cells_are_those_of_arrow_itself(data: st.DataObject, kind: str, form: str) -> None:
    values = st.none() | _VALUES[kind]
    nested = data.draw(st.booleans())
    inner = arrow.list_(arrow.type_for_alias(kind)) if nested else arrow.type_for_alias(kind)
    cells = st.lists(st.none() | st.lists(values, max_size=3) if nested else values, max_size=3)
    rows = data.draw(st.lists(st.none() | cells, max_size=8))
    array = arrow.array(rows, getattr(arrow, form)(inner))
    cut = data.draw(st.integers(0, len(rows)))
    column = arrow.chunked_array([array[:cut], array[cut:], array[1:]])
    assert list_cells(column) == [[] if cell is None else cell for cell in column.to_pylist()]


def test_lists_that_are_coded_or_of_one_size() -> None:
    words = arrow.array(["a", None, "b", "a"]).dictionary_encode()
    coded = arrow.ListArray.from_arrays(arrow.array([0, 2, 2, 4]), words)
    assert list_cells(arrow.chunked_array([coded])) == [["a", None], [], ["b", "a"]]
    pairs = arrow.array([[1, 2], None, [3, 4]], arrow.list_(arrow.int32(), 2))
    assert list_cells(arrow.chunked_array([pairs, pairs[1:]])) == [[1, 2], [], [3, 4], [], [3, 4]]
