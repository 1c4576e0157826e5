"""Cut-off and altered files of every format: rows or a clear error that names the file, nothing else."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from lampnet.data.dataset import Dataset, Table
from lampnet.errors import DataError, FormatError
from lampnet.readers import dna, label_edges
from lampnet.readers.any_format import read
from lampnet.readers.named import rcv1 as lyrl
from lampnet.readers.named import reuters as sgml_reuters

ARFF_SPARSE = (
    b"@relation 'x: -C 2'\n@attribute y {0,1}\n@attribute z {0,1}\n@attribute 'w 1' {0,1}\n@attribute v numeric\n\n"
    b"@data\n{0 1,2 1}\n{1 1,3 2.5}\n{}\n"
)
ARFF_DENSE = (
    b"@relation 'x: -C -1'\n@attribute a numeric\n@attribute b {red,'dark blue'}\n@attribute y {0,1}\n"
    b"@data\n1.5,red,0\n?,'dark blue',1\n"
)
JSONL = b'{"id": "1", "text": "some words", "labels": ["a", "b"]}\n{"text": "caf\xc3\xa9", "labels": []}\n'
FEATURES = b'{"features": {"a": 1, "b": 2.5}, "labels": ["x"]}\n{"features": {}, "labels": ["y"]}\n'
CSV = b'id,text,labels\n1,"a ""quoted"" text, long",x|y\n2,caf\xc3\xa9 au lait,x\n'
NUMBERS = b"a,b,y_a,y_b\n1.5,2,0,1\n2,3e-1,1,0\n"
TSV = b"smiles\ta\tb\nCCO\t1\t\nc1ccccc1\t0\t1\n"
LIBSVM = b"1,3 1:0.5 4:1\n 2:1\n3 1:1e-3 # c\n"
XC = b"3 5 4\n0,3 0:0.5 4:1\n 1:1\n2 3:1\n"
FASTA = b">a one\nACGTACGT\n>b\nTTTTNNNN\n"


def _npz() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.arange(6.0).reshape(3, 2), Y=np.eye(3), label_names=["a", "b", "c"])
    return out.getvalue()


def _mat() -> bytes:
    out = io.BytesIO()
    savemat(out, {"data": np.eye(4, 3), "target": np.eye(2, 4)}, do_compression=True)
    return out.getvalue()


def _parquet() -> bytes:
    pandas = pytest.importorskip("pandas")
    out = io.BytesIO()
    pandas.DataFrame({"text": ["one two three", "four five six"], "labels": ["a|b", "a"]}).to_parquet(out)
    return out.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "sparse.arff": lambda: ARFF_SPARSE,
    "dense.arff": lambda: ARFF_DENSE,
    "packed.arff.gz": lambda: gzip.compress(ARFF_SPARSE, mtime=0),
    "packed.arff.bz2": lambda: bz2.compress(ARFF_SPARSE),
    "x.jsonl": lambda: JSONL,
    "features.jsonl": lambda: FEATURES,
    "x.csv": lambda: CSV,
    "numbers.csv": lambda: NUMBERS,
    "x.tsv": lambda: TSV,
    "x.svm": lambda: LIBSVM,
    "xc.txt": lambda: XC,
    "x.fa": lambda: FASTA,
    "x.npz": _npz,
    "x.mat": _mat,
    "x.parquet": _parquet,
}
OTHERS: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "reut2.sgm": (
        lambda path: list(sgml_reuters.read_documents(path)),
        b'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1">\n<TOPICS><D>a</D></TOPICS>\n<TEXT>&#2;<TITLE>T</TITLE>'
        b"<BODY>b &lt;c></BODY></TEXT>\n</REUTERS>\n",
    ),
    "tokens.dat": (lambda path: list(lyrl.read_tokens(path)), b".I 1\n.W\na b\n\n.I 2\n.W\nc\n"),
    "qrels": (lyrl.read_qrels, b"E11 1 1\nCCAT 2 1\n"),
    "peaks.bed": (dna.read_bed, b"chr1\t1\t2\ta\nchr2\t5\t9\tb\n"),
    "tree": (label_edges.read_taxonomy, b"Root\tA\tB\nA\tC\n"),
    "edges.csv": (lambda path: label_edges.read_edge_list(path, ["a", "b", "c"]), b"a,b\nb,c\n"),
}


def check(path: Path, reader: Callable[[Path], Any]) -> None:
    """Whatever the bytes: sound rows, or an error that names the file (and the line where there are lines)."""
    caught: DataError | None = None
    try:
        data = reader(path)
    except DataError as error:
        caught = error
    if caught is not None:
        assert path.name in str(caught)
        assert getattr(caught, "line", None) is None or getattr(caught, "line", 0) >= 1
        return
    if not isinstance(data, Dataset):
        return
    assert len(data) > 0
    if data.labels is not None:
        assert np.isin(data.labels.data[~np.isnan(data.labels.data)], (0, 1)).all()
        data.labels.check_format(full_check=True)
    values = data.rows.values if isinstance(data.rows, Table) else getattr(data.rows, "data", None)
    if data.kind in ("wordset", "vector", "columns") and isinstance(values, np.ndarray):
        assert not np.isinf(values).any()


@pytest.mark.parametrize("name", FORMATS)
def test_the_whole_file_is_readable(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name]())
    assert len(read(path)) >= 2


@pytest.mark.parametrize("name", FORMATS)
def test_cut_off_anywhere(tmp_path: Path, name: str) -> None:
    whole, path = FORMATS[name](), tmp_path / name
    step = max(1, len(whole) // 60)
    for end in range(0, len(whole), step):
        path.write_bytes(whole[:end])
        check(path, read)


@pytest.mark.parametrize("name", ["packed.arff.gz", "packed.arff.bz2", "x.npz", "x.parquet"])
def test_a_cut_off_archive_is_never_taken_for_whole(tmp_path: Path, name: str) -> None:
    whole, path = FORMATS[name](), tmp_path / name
    for end in (len(whole) // 3, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:end])
        with pytest.raises(FormatError, match=name.replace(".", r"\.")):
            read(path)


NASTY = [b"\r\n", b"'", b'"', b"{", b"}", b"?", b",", b"\t", b"-1", b"1e999", b"\xff", b"\x00", b"9" * 20]
changes = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.one_of(st.binary(max_size=3), st.sampled_from(NASTY))
    ),
    min_size=1,
    max_size=4,
)


def altered(whole: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for place, length, new in edits:
        at = int(place * (len(whole) + 1))
        whole = whole[:at] + new + whole[at + length :]
    return whole


@pytest.mark.parametrize("name", FORMATS)
@given(edits=changes)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_altered_files(tmp_path: Path, name: str, edits: list[tuple[float, int, bytes]]) -> None:
    path = tmp_path / name
    path.write_bytes(altered(FORMATS[name](), edits))
    check(path, read)


@pytest.mark.parametrize("name", OTHERS)
@given(edits=changes)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_altered_files_beside_the_rows(tmp_path: Path, name: str, edits: list[tuple[float, int, bytes]]) -> None:
    reader, whole = OTHERS[name]
    path = tmp_path / name
    path.write_bytes(altered(whole, edits))
    check(path, reader)


@pytest.mark.parametrize(
    "name", [n for n in FORMATS if n.split(".")[-1] in ("arff", "jsonl", "csv", "tsv", "svm", "txt")]
)
def test_windows_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path, name: str) -> None:
    plain, marked = tmp_path / name, tmp_path / f"marked-{name}"
    plain.write_bytes(FORMATS[name]())
    marked.write_bytes(b"\xef\xbb\xbf" + FORMATS[name]().replace(b"\n", b"\r\n"))
    first, second = read(plain), read(marked)
    np.testing.assert_array_equal(first.indicator(), second.indicator())
    assert first.label_names == second.label_names
    assert first.feature_names == second.feature_names


@given(content=st.binary(max_size=200))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_under_every_name(tmp_path: Path, content: bytes) -> None:
    for name in FORMATS:
        path = tmp_path / name
        path.write_bytes(content)
        check(path, read)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.arff", b"@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute w numeric\n@data\n{0 1,1 1e39}\n"),
        ("x.arff", b"@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute w numeric\n@data\n1,1e39\n"),
        ("x.svm", b"1 1:1e39\n"),
        ("x.jsonl", b'{"features": [1e39], "labels": ["a"]}\n'),
        ("x.jsonl", b'{"features": {"a": 1' + b"0" * 400 + b'}, "labels": ["a"]}\n'),
    ],
)
def test_numbers_that_float32_cannot_hold(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match="finite numbers"):
        read(path)
