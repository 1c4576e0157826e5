"""Any file, any folder, the registry and statistics."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.splits import Splits
from lampnet.data.statistics import statistics
from lampnet.errors import DataError, FormatError
from lampnet.readers.any_format import find_parts, format_of, read
from lampnet.readers.files import read_bytes, read_lines
from lampnet.readers.named.registry import NAMES, describe, load
from lampnet.runtime.memory_limit import limited_to

JSON_ROW = '{"text": "a b c", "labels": ["x"]}\n'


def test_folder_with_three_parts(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(
        '{"features": {"u": 1, "v": 2}, "labels": ["a", "b"]}\n{"features": {"v": 1}, "labels": ["c"]}\n'
    )
    (tmp_path / "valid.jsonl").write_text('{"features": {"v": 3, "new": 1}, "labels": ["c"]}\n')
    (tmp_path / "test.jsonl").write_text('{"features": {"u": 5}, "labels": ["b"]}\n')
    parts = read(tmp_path)
    assert isinstance(parts, Splits)
    assert parts.valid is not None
    assert parts.test is not None
    assert parts.train.name == tmp_path.name
    assert parts.valid.feature_names == ("u", "v")
    assert parts.valid.rows.toarray().tolist() == [[0, 3]]  # a feature of its own is dropped
    assert parts.valid.indicator().tolist() == [[0, 0, 1]]
    assert parts.test.indicator().tolist() == [[0, 1, 0]]
    (tmp_path / "test.jsonl").write_text('{"features": {"u": 5}, "labels": ["zebra"]}\n')
    with pytest.raises(DataError, match="'zebra' never occurs in the training part"):
        read(tmp_path)


def test_csv_parts_follow_what_train_was_taken_for(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("size,y_a,y_b\n1.5,1,0\n2,0,1\n")
    (tmp_path / "test.csv").write_text("y_b,size,y_a\n0,1,1\n0,0,1\n")  # here size looks like a label
    notices: list[str] = []
    parts = read(tmp_path, notice=notices.append)
    assert parts.test is not None
    assert isinstance(parts.test.rows, Table)
    assert parts.test.rows.values.tolist() == [[1], [0]]
    assert parts.test.indicator().tolist() == [[1, 0], [1, 0]]
    assert len(notices) == 1


def test_mulan_folder_with_other_attribute_order(tmp_path: Path) -> None:
    (tmp_path / "l.xml").write_text('<labels><label name="p"/><label name="q"/></labels>')
    head = "@relation x\n" + 4 * "@attribute {} {{0,1}}\n" + "@data\n"
    (tmp_path / "x-train.arff").write_text(head.format("u", "v", "p", "q") + "{0 1,2 1}\n")
    (tmp_path / "x-test.arff").write_text(head.format("q", "v", "u", "p") + "{0 1,2 1}\n")
    parts = read(tmp_path)
    assert parts.test is not None
    assert parts.test.rows.toarray().tolist() == [[1, 0]]
    assert parts.test.indicator().tolist() == [[0, 1]]


def test_libsvm_parts_share_their_first_index_and_width(tmp_path: Path) -> None:
    (tmp_path / "train.svm").write_text("1 1:1 3:1\n2 0:1\n")
    (tmp_path / "test.svm").write_text("2 1:5 9:1\n")
    parts = read(tmp_path)
    assert parts.test is not None
    assert parts.test.rows.toarray().tolist() == [[0, 5, 0, 0]]
    assert parts.test.indicator().tolist() == [[0, 1]]


def test_finding_parts(tmp_path: Path) -> None:
    for name in ("bibtex-train.arff", "bibtex-test.arff", "bibtex.xml", "notes.md"):
        (tmp_path / name).write_text("x")
    assert {part: path.name for part, path in find_parts(tmp_path).items()} == {
        "train": "bibtex-train.arff",
        "test": "bibtex-test.arff",
    }
    (tmp_path / "train.csv").write_text("x")
    (tmp_path / "dev.csv.gz").write_text("x")
    assert {part: path.name for part, path in find_parts(tmp_path).items()} == {
        "train": "train.csv",
        "valid": "dev.csv.gz",
    }
    (tmp_path / "train.jsonl").write_text("x")
    with pytest.raises(DataError, match="2 files for the train part"):
        find_parts(tmp_path)


def test_folders_without_train(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no train\.\* file \(it has no file of a known format\)"):
        read(tmp_path)
    (tmp_path / "test.jsonl").write_text(JSON_ROW)
    with pytest.raises(DataError, match=r"it has test\.jsonl"):
        read(tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "nowhere")


def test_unlabelled_training_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(DataError, match="carry no labels"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.txt", b"2 4 3\n0,1 0:1 3:2\n1 2:1\n", "xc"),
        ("a.txt", b"1,3 1:0.5 2:1\n", "libsvm"),
        ("a.dat", b"1 1:0.5\n", "libsvm"),
        ("a.txt", b"just some text: 12 o'clock\n", "text"),
        ("noname", b"% hello\n@RELATION x\n", "arff"),
        ("noname", b'{"text": "a"}\n', "jsonl"),
        ("a.txt.gz", gzip.compress(b"1 4 3\n0,1 0:1\n", mtime=0), "xc"),
    ],
)
def test_formats_by_content(tmp_path: Path, name: str, content: bytes, form: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert format_of(path) == form


def test_wrong_file_type(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(FormatError, match="format of this file is not known; lampnet reads ARFF"):
        read(path)


def test_plain_text_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("first text\n\nsecond\n")
    data = read(path)
    assert isinstance(data, Dataset)
    assert (data.rows, data.labels) == (["first text", "second"], None)


def test_label_names_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(JSON_ROW)
    (tmp_path / "names.txt").write_text("z\nx\n")
    data = read(tmp_path / "x.jsonl", labels=tmp_path / "names.txt")
    assert data.label_names == ("z", "x")


def test_invalid_smiles_are_skipped_on_request(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    path = tmp_path / "m.csv"
    path.write_text("smiles,a,b\nCCO,1,0\nC1CC,0,1\nc1ccccc1,0,1\n")
    notices: list[str] = []
    assert len(read(path)) == 3
    assert read(path, on_bad_row="skip", notice=notices.append).rows == ["CCO", "c1ccccc1"]
    assert "1 of 3 molecules" in notices[-1]
    with pytest.raises(DataError, match="'error' or 'skip'"):
        read(path, on_bad_row="ignore")


def test_registry_names_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert " ".join(NAMES) == (
        "bibtex delicious bookmarks reuters21578 rcv1 sider nuswide tfbs imdb mediamill scene emotions corel5k "
        "goemotions tox21 yeast_chipexo miml_images digits goemotions-sample"
    )
    monkeypatch.delenv("LAMPNET_DATA", raising=False)
    with pytest.raises(DataError, match="did you mean 'bibtex'"):
        load("bibtx")
    monkeypatch.chdir(tmp_path)
    looked = f"looked for in {tmp_path / 'data' / 'scene'}.*LAMPNET_DATA.*lampnet data fetch scene$"
    with pytest.raises(DataError, match=looked):
        load("scene")
    with pytest.raises(DataError, match=r"lampnet data fetch scene --data-root 'my data'$"):
        load("scene", "my data")
    monkeypatch.setenv("LAMPNET_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"looked for in {tmp_path / 'scene'}.*lampnet data fetch scene"):
        load("scene")
    (tmp_path / "scene").mkdir()
    with pytest.raises(DataError, match="has no file"):
        load("scene")
    assert all(describe(name).title for name in NAMES)


def test_bookmarks_and_nuswide_in_their_official_shape(tmp_path: Path) -> None:
    folder = tmp_path / "bookmarks"
    folder.mkdir()
    (folder / "bookmarks.xml").write_text('<labels><label name="TAG_a"/><label name="TAG_b"/></labels>')
    rows = "".join(f"{{{i % 3} 1,{3 + i % 2} 1}}\n" for i in range(100))
    attributes = "".join(f"@attribute {name} {{0,1}}\n" for name in ("w0", "w1", "w2", "TAG_a", "TAG_b"))
    (folder / "bookmarks.arff").write_text(f"@relation bookmarks\n\n{attributes}\n@data\n{rows}")
    parts = load("bookmarks", tmp_path)
    assert parts.valid is not None
    assert parts.test is not None
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (54, 14, 32)  # the paper's shares
    nus = tmp_path / "nuswide"
    nus.mkdir()
    (nus / "nus-wide-full-cVLADplus.xml").write_text('<labels><label name="sky"/><label name="dog"/></labels>')
    head = "@relation nus\n@attribute imageid string\n" + "".join(f"@attribute Att{i} numeric\n" for i in range(3))
    head += "@attribute sky {0,1}\n@attribute dog {0,1}\n@data\n"
    (nus / "nus-wide-full-cVLADplus-train.arff").write_text(head + "a1,0.5,-0.25,1e-3,1,0\nb2,0,0,0,0,1\n")
    (nus / "nus-wide-full-cVLADplus-test.arff").write_text(head + "c3,1,1,1,1,1\n")
    wide = load("nuswide", tmp_path)
    assert (wide.train.kind, wide.train.ids) == ("vector", ("a1", "b2"))
    np.testing.assert_allclose(wide.train.rows, [[0.5, -0.25, 1e-3], [0, 0, 0]])
    assert wide.train.feature_names == ("Att0", "Att1", "Att2")


def test_goemotions_lines(tmp_path: Path) -> None:
    folder = tmp_path / "goemotions"
    folder.mkdir()
    (folder / "emotions.txt").write_text("joy\nfear\nneutral")
    for part in ("train", "dev", "test"):
        (folder / f"{part}.tsv").write_text('He said "no\t2\ta1\n\nboth\t1,0\ta2\n')
    parts = load("goemotions", tmp_path)
    assert parts.train.rows == ['He said "no', "both"]
    assert parts.train.indicator().tolist() == [[0, 0, 1], [1, 1, 0]]
    for text, words in [
        ("a\t0\tb\n\nc\t7\td\n", "line 3: '7'"),
        ("a\t0\tb\n\nc\t1\n", "line 3: a line"),
        ("", "line 1"),
    ]:
        (folder / "train.tsv").write_text(text)
        with pytest.raises(FormatError, match=words):
            load("goemotions", tmp_path)


def test_statistics_of_a_known_set() -> None:
    y = sparse.csr_matrix(np.array([[1, 1, np.nan], [0, 1, 0]], dtype=np.float32))
    train = Dataset(name="d", kind="text", rows=["x", "y"], labels=y, label_names=("a", "b", "c"))
    found = statistics(Splits(train=train, test=train))
    assert (found.train, found.valid, found.test, found.labels, found.features) == (2, 0, 2, 3, None)
    assert (found.labels_per_sample.mean, found.labels_per_sample.median, found.labels_per_sample.max) == (1.5, 1.5, 2)
    assert (found.samples_per_label.mean, found.samples_per_label.max) == (1.0, 2)
    assert found.unknown == pytest.approx(1 / 6)
    assert found.to_json()["samples_per_label"]["median"] == 1


def test_decompression_is_bounded(tmp_path: Path) -> None:
    import bz2

    for name, pack in (("x.gz", gzip.compress), ("x.bz2", bz2.compress)):
        path = tmp_path / name
        path.write_bytes(pack(b"0" * 50_000_000))
        assert path.stat().st_size < 100_000
        with limited_to(1_000_000), pytest.raises(FormatError, match=r"above the limit of 1 MB; .* with --max-memory"):
            read_bytes(path)
        assert len(read_bytes(path)) == 50_000_000
        path.write_bytes(pack(b"hello " * 1000)[:-6])
        with pytest.raises(FormatError, match="ends too early"):
            read_bytes(path)
        path.write_bytes(pack(b"one ") + pack(b"two"))
        assert read_bytes(path) == b"one two"
    (tmp_path / "plain").write_bytes(b"x" * 100)
    with limited_to(99), pytest.raises(FormatError, match="200 bytes of memory or more, above the limit of 99 bytes"):
        read_bytes(tmp_path / "plain")
    with limited_to(1_000_000), pytest.raises(FormatError, match="above the limit"):
        read_bytes("/dev/zero")  # a device states no size, and does not end


def test_lines_are_bounded_and_may_be_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import bz2

    monkeypatch.setattr("lampnet.readers.files.MAX_LINE", 1_000_000)
    path = tmp_path / "rows"
    text = b"\n".join(b"%d and so on" % row for row in range(50_000))
    for pack in (bytes, gzip.compress, bz2.compress):
        path.write_bytes(pack(text))
        assert list(read_lines(path)) == text.split(b"\n")
        path.write_bytes(pack(text + b"\n"))
        assert list(read_lines(path)) == text.split(b"\n")
        path.write_bytes(pack(b"short\n" + b"0" * 3_000_000 + b"\n"))
        with pytest.raises(FormatError, match="a line is longer than 1,000,000 bytes"):
            list(read_lines(path))
    monkeypatch.setattr("lampnet.readers.files.MAX_BYTES", 1_000_000)
    path.write_bytes(bz2.compress(b"0\n" * 1_000_000))  # some 10,000 times its size
    with pytest.raises(FormatError, match=r"larger than 1,000,000 bytes.*bombs; decompress it yourself"):
        list(read_lines(path))
    monkeypatch.setattr("lampnet.readers.files.MAX_BYTES", 100_000)
    path.write_bytes(gzip.compress(text))  # text packs less tightly: it may be longer
    assert len(list(read_lines(path))) == 50_000
    with pytest.raises(FormatError, match="no such file"):
        list(read_lines(tmp_path / "nowhere"))


def test_importing_readers_is_cheap() -> None:
    code = (
        "import sys, lampnet.readers\n"
        "heavy = {'pandas', 'pyarrow', 'sklearn', 'rdkit', 'torch', 'requests', 'PIL', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from lampnet.readers.named.registry import load\n"
        "load('digits')\n"
        "late = {'pandas', 'pyarrow', 'sklearn', 'rdkit', 'torch', 'requests', 'PIL'} & set(sys.modules)\n"
        "assert not late, late\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
