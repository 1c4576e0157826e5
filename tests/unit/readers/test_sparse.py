"""libsvm, the extreme-classification format, npz and MATLAB files."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import savemat

from lampnet.errors import FormatError
from lampnet.readers.libsvm import read_libsvm
from lampnet.readers.mat import read_mat
from lampnet.readers.npz import read_npz
from lampnet.readers.xc import read_xc
from lampnet.runtime.memory_limit import limited_to


def test_libsvm_multilabel(tmp_path: Path) -> None:
    path = tmp_path / "x.svm"
    path.write_text("# a comment\n2,10 1:0.5 3:2 # note\n 2:1\n\n10 qid:4 3:-1e-1\r\n")
    data = read_libsvm(path)
    assert data.label_names == ("2", "10")
    np.testing.assert_allclose(data.rows.toarray(), [[0.5, 0, 2], [0, 1, 0], [0, 0, -0.1]])
    assert data.indicator().tolist() == [[1, 1], [0, 0], [0, 1]]


def test_libsvm_numbered_from_zero_and_packed(tmp_path: Path) -> None:
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        path = tmp_path / f"x.svm{suffix}"
        path.write_bytes(pack(b"1 0:1 2:1\n1,2 1:3\n"))
        assert read_libsvm(path).rows.toarray().tolist() == [[1, 0, 1], [0, 3, 0]]


def test_libsvm_agrees_with_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    random = np.random.default_rng(0)
    x = sparse.random(50, 20, 0.3, random_state=0, format="csr")
    y = sparse.csr_matrix((random.random((50, 4)) < 0.4).astype(int))
    path = tmp_path / "x.svm"
    dump_svmlight_file(x, y, str(path), zero_based=False, multilabel=True)
    ours = read_libsvm(path, labels=["0", "1", "2", "3"])
    theirs, label_rows = load_svmlight_file(str(path), multilabel=True, n_features=20, zero_based=False)
    np.testing.assert_allclose(ours.rows.toarray(), theirs.toarray()[:, : ours.rows.shape[1]], rtol=1e-6)
    for row, numbers in enumerate(label_rows):
        assert np.flatnonzero(ours.indicator()[row]).tolist() == sorted(map(int, numbers))


@pytest.mark.parametrize(
    ("line", "words"),
    [(b"1 3:x", "'3:x'"), (b"1 3 4", "'3'"), (b"1 -2:1", "'-2:1'"), (b"1 2:1 2:1", "twice"),
     (b"1 999999999:1", "whole"), (b"\xff\xfe 1:1", "UTF-8"), (b"1 2:1e999", "infinite")],
)  # fmt: skip
def test_libsvm_errors_name_the_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1\n" + line + b"\n")
    with pytest.raises(FormatError, match=words) as caught:
        read_libsvm(path)
    assert caught.value.line == 2


def test_xc_official_shape(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("4 5 3\n0,2 0:0.5 4:1.000000\n 1:2\n\n1 3:1\n")
    data = read_xc(path)
    assert data.label_names == ("0", "1", "2")
    assert data.rows.toarray().tolist() == [[0.5, 0, 0, 0, 1], [0, 2, 0, 0, 0], [0] * 5, [0, 0, 0, 1, 0]]
    assert data.indicator().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert read_xc(path, labels=["a", "b", "c"]).label_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("2 5 3\n0 0:1\n", 1, "is it whole"),
        ("1 5 3\n0 5:1\n", 2, "index 5"),
        ("1 5 3\n3 0:1\n", 2, "index 3"),
        ("1 5 3\nx 0:1\n", 2, "whole number"),
        ("1 5\n0 0:1\n", 1, "three whole numbers"),
        ("999999999999 9999999999999 99999999999\n0 0:1\n", 1, "cannot be true"),
        ("", 1, "three whole numbers"),
    ],
)
def test_xc_errors(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(FormatError, match=words) as caught:
        read_xc(path)
    assert caught.value.line == line


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_xc_round_trip(tmp_path_factory: pytest.TempPathFactory, n: int, features: int, labels: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(0, 3, (n, features))
    y = random.integers(0, 2, (n, labels))
    lines = [f"{n} {features} {labels}"]
    for row in range(n):
        pairs = " ".join(f"{c}:{x[row, c]}" for c in np.flatnonzero(x[row]))
        lines.append(",".join(map(str, np.flatnonzero(y[row]))) + " " + pairs)
    path = tmp_path_factory.mktemp("xc") / "x.txt"
    path.write_text("\n".join(lines) + "\n")
    data = read_xc(path)
    np.testing.assert_array_equal(data.rows.toarray(), x)
    np.testing.assert_array_equal(data.indicator(), y)


def test_npz_dense_and_names(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=[[0.5, 1], [2, 3]], Y=[[1, np.nan], [0, 1]], label_names=["p", "q"])
    data = read_npz(path)
    assert (data.kind, data.label_names) == ("vector", ("p", "q"))
    np.testing.assert_array_equal(data.indicator(), [[1, np.nan], [0, 1]])


def test_npz_sparse_parts_and_scipy_files(tmp_path: Path) -> None:
    x = sparse.random(6, 5, 0.4, random_state=1, format="csr")
    y = sparse.csr_matrix(np.eye(6, 2))
    parts = {f"{k}_{a}": getattr(m, a) for k, m in (("X", x), ("Y", y)) for a in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "p.npz", **parts)
    data = read_npz(tmp_path / "p.npz")
    assert data.kind == "wordset"
    np.testing.assert_allclose(data.rows.toarray(), x.toarray(), rtol=1e-6)
    np.testing.assert_array_equal(data.indicator(), y.toarray())
    sparse.save_npz(tmp_path / "s.npz", x)
    alone = read_npz(tmp_path / "s.npz")
    assert alone.labels is None
    np.testing.assert_allclose(alone.rows.toarray(), x.toarray(), rtol=1e-6)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, X=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="pickle"):
        read_npz(path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"A": np.eye(2)}, "no array X"),
        ({"X": np.eye(2), "Y": np.eye(3)}, "must agree"),
        ({"X": np.eye(2), "Y": np.full((2, 2), 7)}, "0 and 1"),
        ({"X": [[np.inf, 1]], "Y": [[1]]}, "finite"),
        ({"X": np.zeros((0, 3))}, "at least one row"),
        ({"X": [["a"]]}, "matrix of numbers"),
        ({"X_data": [1.0], "X_indices": [7], "X_indptr": [0, 1], "X_shape": [1, 2]}, "CSR"),
        ({"X_data": [1.0], "X_indices": [0], "X_indptr": [0, 1], "X_shape": [1, 10**12]}, "CSR"),
    ],
)
def test_npz_errors(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(FormatError, match=words):
        read_npz(path)


def test_npz_with_an_absurd_shape_or_size(tmp_path: Path) -> None:
    import zipfile

    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", head.getvalue())
    with pytest.raises(FormatError, match="states the shape"):
        read_npz(path)
    np.savez_compressed(path, X=np.zeros((1000, 1000)))
    with limited_to(1_000_000), pytest.raises(FormatError, match="16 MB of memory or more, above the limit of 1 MB"):
        read_npz(path)


def test_mat_transposed_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    x = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 1]], dtype=np.uint8)
    y = np.array([[1, -1, 1, 1], [-1, -1, 1, -1]], dtype=np.int8)
    savemat(path, {"data": x, "target": y, "name": "demo"}, do_compression=True)
    data = read_mat(path)
    assert data.kind == "wordset"
    np.testing.assert_array_equal(data.rows.toarray(), x)
    np.testing.assert_array_equal(data.indicator(), (y == 1).T)
    savemat(path, {"X": sparse.csc_matrix(x.astype(float)), "Y": (y == 1).T.astype(float)})
    np.testing.assert_array_equal(read_mat(path).rows.toarray(), x)
    savemat(path, {"X": x + 0.5, "Y": (y == 1).T})
    assert read_mat(path).kind == "vector"


def test_mat_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    savemat(path, {"other": np.eye(2)})
    with pytest.raises(FormatError, match="no matrix named"):
        read_mat(path)
    savemat(path, {"X": np.ones((200, 300))}, do_compression=True)
    with limited_to(100_000), pytest.raises(FormatError, match="above the limit of 100 KB"):
        read_mat(path)
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"0" * 100)
    with pytest.raises(FormatError, match="HDF5"):
        read_mat(path)
    path.write_bytes(b"hello")
    with pytest.raises(FormatError, match="not a MATLAB 5"):
        read_mat(path)
