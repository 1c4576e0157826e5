"""Small files that stand for large data are refused before the memory is taken; the limit can be raised."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import io as matlab
from scipy import sparse

from lampnet.data.schema import NoLabels
from lampnet.errors import ConfigError, FormatError
from lampnet.readers.any_format import read
from lampnet.readers.arrow_sizes import viewed_bytes
from lampnet.readers.label_edges import read_edge_list, read_label_hierarchy, read_taxonomy, string_ids
from lampnet.readers.label_values import read_label_values
from lampnet.readers.table_chunks import TableChunks
from lampnet.runtime.memory_limit import VARIABLE, MemoryBudget, limited_to, machine_memory, memory_limit

LIMIT = 10_000_000
LONG = "x" * 200_000
ROWS = 1000
SAME = pa.array(np.zeros(ROWS, dtype=np.int32))
CODED = pa.DictionaryArray.from_arrays(SAME, [LONG])
SHORT = pa.DictionaryArray.from_arrays(SAME, ["a"])


def in_parquet(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, compression="zstd", store_schema=False, **options)
    return out.getvalue()


def in_arrow(columns: dict[str, Any]) -> bytes:
    table, out = pa.table(columns), io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def runs(count: int, text: str) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), [text])


def views(rows: int, words: int) -> pa.Array:
    place = pa.array(np.zeros(rows, dtype=np.int32)), pa.array(np.full(rows, words, dtype=np.int32))
    return pa.ListViewArray.from_arrays(*place, pa.array(["word"] * words))


def same_views(rows: int) -> pa.Array:
    """Views of one text, which is in the file once."""
    one = pa.array([LONG], pa.string_view())
    repeated = pa.py_buffer(one.buffers()[1].to_pybytes()[:16] * rows)
    return pa.Array.from_buffers(pa.string_view(), rows, [None, repeated, *one.buffers()[2:]])


def in_matlab(**matrices: Any) -> bytes:
    out = io.BytesIO()
    matlab.savemat(out, matrices, do_compression=True)
    return out.getvalue()


def tall_matlab() -> bytes:
    """A sparse matrix with two billion rows, one of them used."""
    content = in_matlab(data=sparse.csc_matrix(np.eye(3, 2)))
    plain = io.BytesIO()
    matlab.savemat(plain, {"data": sparse.csc_matrix(np.eye(3, 2))})
    content = plain.getvalue()
    shape = content.index(struct.pack("<IIii", 5, 8, 3, 2)) + 8
    return content[:shape] + struct.pack("<i", 2**31 - 2) + content[shape + 4 :]


def in_npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def wide_labels() -> bytes:
    parts = {"Y_data": [1.0], "Y_indices": [0], "Y_indptr": [0, 1], "Y_shape": [1, 49_000_000]}
    return in_npz(X=np.ones((1, 2)), **{name: np.array(value) for name, value in parts.items()})


def unknown_everywhere() -> bytes:
    rows = [{"text": "a", "labels": [f"label {i}" for i in range(20_000)]}, *[{"text": "b"}] * 2000]
    return "\n".join(map(json.dumps, rows)).encode()


def turned_labels() -> bytes:
    head = "@relation 'r: -C 5000'\n" + "".join(f"@attribute y{i} {{1,0}}\n" for i in range(5000))
    return (head + "@attribute w numeric\n@data\n" + "{}\n" * 5000).encode()


EXPANDING: dict[str, Callable[[], bytes]] = {
    "dictionary.parquet": lambda: in_parquet({"text": CODED, "labels": SHORT}),
    "nested dictionary.parquet": lambda: in_parquet(
        {"text": ["a b c"], "labels": pa.ListArray.from_arrays(pa.array([0, ROWS], pa.int32()), CODED)}
    ),
    "shared beginnings.parquet": lambda: in_parquet(
        {"text": [LONG] * 200, "labels": ["a"] * 200},
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY", "labels": "PLAIN"},
    ),
    "fixed length.parquet": lambda: in_parquet(
        {"text": pa.array([LONG.encode()] * 200, pa.binary(len(LONG))), "labels": ["a"] * 200}
    ),
    "nulls.parquet": lambda: in_parquet({"text": pa.nulls(2_000_000, pa.string()), "labels": pa.nulls(2_000_000)}),
    "runs.arrow": lambda: in_arrow({"text": runs(3_000_000, "a"), "labels": runs(3_000_000, "b")}),
    "long runs.arrow": lambda: in_arrow({"text": runs(ROWS, LONG), "labels": runs(ROWS, "b")}),
    "views.arrow": lambda: in_arrow({"text": [f"words of {i}" for i in range(5000)], "labels": views(5000, 1000)}),
    "dictionary.arrow": lambda: in_arrow({"text": CODED, "labels": SHORT}),
    "nulls.arrow": lambda: in_arrow({"text": pa.nulls(3_000_000), "labels": pa.nulls(3_000_000)}),
    "views of texts.arrow": lambda: in_arrow(
        {"text": same_views(ROWS), "labels": ["a"] * ROWS}
    ),
    "tall.mat": tall_matlab,
    "zeros.mat": lambda: in_matlab(data=np.zeros((1500, 1500))),
    "bytes.npz": lambda: in_npz(X=np.full((1000, 1000), 2, dtype=np.uint8)),
    "wide labels.npz": wide_labels,
    "wide labels.txt": lambda: b"1 5 49000000\n0 1:1\n",
    "unknown.jsonl": unknown_everywhere,
    "nested.jsonl": lambda: b'{"text": "a", "labels": [' + b"[]," * 300_000 + b"[]]}\n",
    "many rows.jsonl": lambda: b'{"text": ""}\n' * 30_000,
    "features.jsonl": lambda: b'{"features": [' + b"1," * 400_000 + b"1]}\n",
    "cells.csv": lambda: b"a,b\n" + b",\n" * 200_000,
    "quoted cells.csv": lambda: b'a,b\n"x"y,\n' + b",\n" * 90_000,
    "lines.txt": lambda: b"a\n" * 400_000,
    "rows.svm": lambda: b"a 1:1\n" + b"1\n" * 75_000,
    "empty rows.arff": lambda: (
        b"@relation 'r: -C 1'\n@attribute y {0,1}\n@attribute w numeric\n@data\n" + b"{}\n" * 300_000
    ),
    "turned.arff": turned_labels,
    "attributes.arff": lambda: b"@relation r\n" + b"@attribute a{0}\n" * 30_000 + b"@data\n",
    "categories.arff": lambda: b"@relation r\n@attribute a {" + b"0," * 400_000 + b"0}\n@data\n0\n",
    "many.fa": lambda: b"".join(b">%d\nA\n" % i for i in range(25_000)),
    "python list.csv": lambda: b'text,labels\nred fox,"(1,)"\nblue sea,"(' + b"1," * 25_000 + b')"\n',
    "json list.csv": lambda: b'text,labels\nred fox,"[1]"\nblue sea,"[' + b"[]," * 100_000 + b'[]]"\n',
    "joined.csv": lambda: b"text,labels\nred fox,a|b\nblue sea," + b"a|" * 200_000 + b"b\n",
}  # fmt: skip


#: files of label graphs, hierarchies and values, and who reads them
OF_LABELS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "edges.csv": (b"a,b\n" * 60_000, lambda path: read_edge_list(path, "ab")),
    "fields.csv": (b"a,b" + b"," * 200_000, lambda path: read_edge_list(path, "ab")),
    "parents.csv": (b"a,b\n" * 20_000, lambda path: read_label_hierarchy(path, "ab")),
    "all.taxonomy": (b"a" + b"".join(b"\t%d" % i for i in range(25_000)), lambda path: read_taxonomy(path)),
    "parents.taxonomy": (
        b"a" + b"".join(b"\t%d" % i for i in range(16_000)),
        lambda path: read_label_hierarchy(path, ["a", *map(str, range(16_000))]),
    ),
    "1.protein.info.txt": (b"id\tname\n" + b"1.A\ta\n" * 25_000, lambda path: string_ids(path, "a")),
    "weights.csv": (b"".join(b"%d,1\n" % i for i in range(30_000)), lambda path: read_label_values(path, "weight")),
    "weights.json": (
        b'{"a": 1' + b"".join(b',"%d":[]' % i for i in range(25_000)) + b"}",
        lambda path: read_label_values(path, "weight"),
    ),
    "nested.json": (b'{"a": [' + b"[]," * 100_000 + b"[]]}", lambda path: read_label_values(path, "weight")),
}


@pytest.mark.parametrize("name", OF_LABELS)
def test_what_is_said_of_labels_is_counted_before_it_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    content, read = OF_LABELS[name]
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with limited_to(LIMIT), pytest.raises(FormatError, match="above the limit of 10 MB"):
            read(path)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 2 * LIMIT


def test_views_are_counted_in_little_memory() -> None:
    one = pa.array(["x" * 100], pa.string_view())
    views = pa.py_buffer(one.buffers()[1].to_pybytes()[:16] * 10**6)
    many = pa.Array.from_buffers(pa.string_view(), 10**6, [None, views, *one.buffers()[2:]])
    tracemalloc.start()
    try:
        assert viewed_bytes(many) == viewed_bytes(many.slice(1)) + 100 == 10**8
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 3_000_000  # ten million views, 160 MB in the file, would need 80 MB or more at once


@pytest.mark.parametrize("name", EXPANDING)
def test_what_would_take_too_much_memory_is_refused_before_it_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(EXPANDING[name]())
    before = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    try:
        with limited_to(LIMIT), pytest.raises(FormatError) as refusal:
            read(path)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.name in str(refusal.value)
    assert "above the limit of 10 MB; if the file is genuine, raise the limit with --max-memory" in str(refusal.value)
    assert taken < 2 * LIMIT
    assert pa.default_memory_pool().max_memory() - before < 2 * LIMIT


@pytest.mark.parametrize("name", [name for name in EXPANDING if Path(name).suffix in (".parquet", ".arrow")])
def test_chunks_of_rows_are_small_enough_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(EXPANDING[name]())
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    with limited_to(10_000_000), suppress(FormatError, NoLabels):
        list(TableChunks(path))
    assert pool.max_memory() - before < 2 * LIMIT


def test_a_raised_limit_reads_the_same_file(tmp_path: Path) -> None:
    for name in (
        "dictionary.parquet",
        "nested dictionary.parquet",
        "shared beginnings.parquet",
        "views of texts.arrow",
    ):
        path = tmp_path / name
        path.write_bytes(EXPANDING[name]())
        with limited_to(1_000_000_000):
            data = read(path)
        assert data.rows[0] == ("a b c" if name.startswith("nested") else LONG)


def test_the_default_is_half_of_the_memory_and_the_environment_may_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert memory_limit() == machine_memory() // 2
    monkeypatch.setenv(VARIABLE, "3 GB")
    assert memory_limit() == 3_000_000_000
    with limited_to(7):
        assert memory_limit() == 7
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(ConfigError, match="LAMPNET_MAX_MEMORY 'much' is not an amount of memory; give one such"):
        memory_limit()


def test_pages_are_counted_as_they_are_not_as_the_summary_says(tmp_path: Path) -> None:
    """Every kind of page that pyarrow writes is walked to its end."""
    from lampnet.readers.parquet_pages import ParquetPages

    draw = np.random.default_rng(0)
    words = [f"word {i}" for i in draw.integers(0, 500, 5000)]
    table = pa.table({"a": words, "b": draw.random(5000), "c": [words[i : i + 3] for i in range(5000)]})
    path = tmp_path / "x.parquet"
    for version in ("1.0", "2.0"):
        for compression in ("none", "snappy", "gzip"):
            parquet.write_table(
                table,
                path,
                compression=compression,
                data_page_version=version,
                data_page_size=2000,
                row_group_size=2500,
            )
            metadata = parquet.read_metadata(path)
            for group in range(2):
                found = list(ParquetPages(path, MemoryBudget(path)).columns(group, {0: True, 1: False, 2: True}))
                entries = sum(map(len, table["c"].slice(group * 2500, 2500).to_pylist()))
                assert [pages.values for pages in found] == [2500, 2500, entries]
                for number, pages in enumerate(found):
                    stated = metadata.row_group(group).column(number).total_uncompressed_size
                    assert 0.3 * stated < pages.total <= stated
                    assert 0 < pages.largest < stated
                assert [pages.entry for pages in found] == [8, 0, 8]
            assert len(read(path, columns={"text": "a", "labels": "c"})) == 5000


READ_WITH_LITTLE_TIME = """
import resource, sys
from pathlib import Path
import pyarrow
from lampnet.errors import FormatError
from lampnet.readers.any_format import read
from lampnet.runtime.memory_limit import limited_to
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
try:
    with limited_to(400_000_000):
        read(Path(sys.argv[1]))
except FormatError as refusal:
    print(refusal)
"""


@pytest.mark.parametrize("inside", ["column", "list", "struct"])
def test_texts_that_millions_of_views_share_are_counted_before_they_are_checked(inside: str, tmp_path: Path) -> None:
    """Checking 5 million times 200 kB for UTF-8 takes many minutes: the process would be ended by its limit of time."""
    views, path = same_views(5_000_000), tmp_path / "views.arrow"
    if inside == "list":
        views = pa.LargeListArray.from_arrays(pa.array([0, len(views)]), views)
    elif inside == "struct":
        views = pa.StructArray.from_arrays([views], ["part"])
    path.write_bytes(in_arrow({"text": views}))
    command = [sys.executable, "-c", READ_WITH_LITTLE_TIME, str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 TB of memory or more, above the limit of 400 MB" in answer.stdout
