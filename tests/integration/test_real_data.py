"""The published facts about the data sets, checked on the publishers' files."""

from __future__ import annotations

import bz2
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.data.statistics import statistics
from lampnet.errors import DataError
from lampnet.readers.any_format import read
from lampnet.readers.dna import read_bed, read_fasta
from lampnet.readers.label_edges import read_string_edges, read_taxonomy, read_tree_edges, string_ids
from lampnet.readers.mat import read_mat
from lampnet.readers.named import registry
from lampnet.readers.named.loaders import yeast_windows
from lampnet.readers.named.registry import load, load_edges
from lampnet.readers.named.reuters import read_documents

Folder = Callable[[str], Path]
Load = Callable[[str], Splits]


def whole(parts: Splits) -> sparse.csr_matrix:
    return sparse.vstack([part.labels for part in (parts.train, parts.valid, parts.test) if part is not None]).tocsr()


def mean_labels(data: Dataset | None) -> float:
    assert data is not None
    assert data.labels is not None
    return float(np.nansum(data.labels.data) / len(data))


@pytest.mark.parametrize(
    ("name", "kind", "train", "test", "features", "labels", "train_mean", "test_mean"),
    [
        ("bibtex", "wordset", 4880, 2515, 1836, 159, 2.380, 2.444),
        ("delicious", "wordset", 12920, 3185, 500, 983, 19.05, 18.91),
        ("corel5k", "wordset", 4500, 500, 499, 374, 3.52, None),
        ("scene", "columns", 1211, 1196, 294, 6, None, None),
        ("emotions", "columns", 391, 202, 72, 6, None, None),
    ],
)
def test_mulan_pairs(
    splits: Load,
    name: str,
    kind: str,
    train: int,
    test: int,
    features: int,
    labels: int,
    train_mean: float | None,
    test_mean: float | None,
) -> None:
    parts = splits(name)
    found = statistics(parts)
    assert (found.kind, found.train, found.test, found.features, found.labels) == (kind, train, test, features, labels)
    assert parts.valid is None  # a tenth of train is sampled later, with the run's own seed
    if train_mean is not None:
        assert found.labels_per_sample.mean == pytest.approx(train_mean, abs=0.005)
    if test_mean is not None:
        assert found.test_labels_per_sample is not None
        assert found.test_labels_per_sample.mean == pytest.approx(test_mean, abs=0.005)


def test_bibtex_words_names_and_paper_statistics(splits: Load) -> None:
    parts = splits("bibtex")
    assert parts.test is not None
    words = parts.train.rows.nnz + parts.test.rows.nnz
    assert words / (len(parts.train) + len(parts.test)) == pytest.approx(68.7, abs=0.05)
    assert set(np.unique(parts.train.rows.data)) == {1.0}
    assert parts.train.label_names[:2] == ("TAG_2005", "TAG_2006")
    assert parts.train.feature_names is not None
    assert parts.train.feature_names[:3] == ("0", "000", "02")
    found = statistics(parts)
    # The paper's table: 2.38, 2, 28.
    assert (round(found.labels_per_sample.mean, 2), found.labels_per_sample.median) == (2.38, 2)
    assert found.labels_per_sample.max == 28


def test_delicious_escaped_names_and_paper_statistics(splits: Load) -> None:
    parts = splits("delicious")
    assert r"TAG_m\'usica" in parts.train.label_names
    assert r"TAG_dise\~no" in parts.train.label_names
    found = statistics(parts)
    assert (found.labels_per_sample.median, found.labels_per_sample.max, found.samples_per_label.median) == (20, 25, 85)


@pytest.mark.parametrize(("name", "validation"), [("bibtex", 488), ("delicious", 1292)])
def test_a_tenth_of_the_training_rows_validates(splits: Load, name: str, validation: int) -> None:
    sampled = splits(name).with_validation(0.1, seed=0)
    assert sampled.valid is not None
    assert (len(sampled.valid), len(sampled.train)) == (validation, len(splits(name).train) - validation)


def test_the_files_have_their_documented_formats(folder: Folder) -> None:
    for name in ("bibtex", "delicious"):
        assert {path.suffix for path in folder(name).iterdir()} >= {".arff", ".xml"}
    with bz2.open(folder("imdb") / "Imdb.arff.bz2") as stream:
        assert stream.readline().split() == [b"@relation", b"'IMDB:", b"-C", b"28'"]  # MEKA: the first 28 are labels
    for path in folder("rcv1").glob("*.mat"):
        assert path.read_bytes()[:10] == b"MATLAB 5.0"
    for path in sorted((folder("yeast_chipexo") / "peaks").glob("*_CX.bed")):
        assert {line.count("\t") for line in path.read_text().splitlines()} <= {5}  # BED6; some have no peak


def test_a_folder_of_mulan_files_reads_as_the_registry_does(folder: Folder, splits: Load) -> None:
    named, opened = splits("bibtex"), read(folder("bibtex"))
    assert opened.test is not None
    assert named.test is not None
    assert (opened.train.labels != named.train.labels).nnz == 0
    assert (opened.test.rows != named.test.rows).nnz == 0


def test_reuters_documents(folder: Folder) -> None:
    documents = [d for path in sorted(folder("reuters21578").glob("reut2-*.sgm")) for d in read_documents(path)]
    assert len(list(folder("reuters21578").glob("reut2-*.sgm"))) == 22
    assert len(documents) == 21_578
    sides = [d for d in documents if d.has_topics == "YES" and d.split in ("TRAIN", "TEST") and d.topics]
    types = Counter(document.text_type for document in sides)
    assert (types["BRIEF"], types["UNPROC"]) == (928, 61)
    latin = [path.name for path in folder("reuters21578").glob("reut2-*.sgm") if b"\xfc" in path.read_bytes()]
    assert latin == ["reut2-017.sgm"]
    assert any("\xfc" in document.text for document in documents)  # Latin-1, not UTF-8
    for document in sides:
        if document.text_type == "BRIEF":
            assert document.title
            assert not document.body
        if document.text_type == "UNPROC":
            assert len(document.text) > 20


def test_reuters_modapte(splits: Load) -> None:
    parts = splits("reuters21578")
    assert parts.test is not None
    assert (len(parts.train), len(parts.test), len(parts.train.label_names)) == (7770, 3019, 90)
    counts = np.diff(whole(parts).indptr)
    assert counts.mean() == pytest.approx(1.235, abs=0.0005)
    assert (counts.min(), counts.max()) == (1, 15)
    for part in (parts.train, parts.test):
        assert part.labels is not None
        assert part.labels.sum(axis=0).min() >= 1
        text = " ".join(part.rows)
        assert "&#" not in text
        assert "&lt;" not in text
        assert "\x03" not in text
    assert "<" in " ".join(parts.train.rows)  # decoded, not deleted
    assert parts.train.rows[0].startswith("BAHIA COCOA REVIEW\nShowers continued")
    found = statistics(parts)
    assert (found.samples_per_label.mean, found.samples_per_label.max) == (106.5, 2877)  # the paper's table
    sampled = parts.with_validation(0.1, seed=0)
    assert sampled.valid is not None
    assert len(sampled.valid) == 777


def test_sider(splits: Load) -> None:
    parts = splits("sider")
    assert parts.valid is not None
    assert parts.test is not None
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (1141, 143, 143)
    y = whole(parts)
    assert y.shape == (1427, 27)
    assert y.sum() / 1427 == pytest.approx(15.32, abs=0.005)
    assert not np.isnan(y.data).any()
    rows = [*parts.train.rows, *parts.valid.rows, *parts.test.rows]
    assert max(map(len, rows)) == 1340
    assert parts.train.kind == "molecule"
    assert parts.train.label_names[0] == "Hepatobiliary disorders"
    assert "Neoplasms benign, malignant and unspecified (incl cysts and polyps)" in parts.train.label_names


def test_the_seed_decides_a_random_split(splits: Load, data_root: Path) -> None:
    first, again, other = splits("sider"), load("sider", data_root), load("sider", data_root, seed=1)
    assert first.train.rows == again.train.rows
    assert first.train.rows != other.train.rows
    assert len(other.train) == 1141


def test_yeast_peaks_and_genome(folder: Folder) -> None:
    files = sorted((folder("yeast_chipexo") / "peaks").glob("*_CX.bed"))
    peaks = {path.name.removesuffix("_CX.bed"): read_bed(path) for path in files}
    assert len(peaks) == 384
    assert sum(map(len, peaks.values())) == 187_506
    assert {c for found in peaks.values() for c in found.chromosomes} == {f"chr{n}" for n in range(1, 17)}
    assert all((found.ends - found.starts == 1).all() for found in peaks.values())
    genome = read_fasta(folder("yeast_chipexo") / "sacCer3.fa.gz")
    assert list(genome)[3:5] == ["chrIV", "chrIX"]  # another order than the peaks'
    names = list(peaks)
    info = folder("yeast_chipexo") / "4932.protein.info.v12.0.txt.gz"
    links = folder("yeast_chipexo") / "4932.protein.physical.links.v12.0.txt.gz"
    assert len(string_ids(info, names)) == 372
    edges = read_string_edges(links, info, names, min_score=700)
    assert edges.shape == (2023, 2)
    assert (edges[:, 0] < edges[:, 1]).all()
    fewer = read_string_edges(links, info, names, min_score=900)
    assert 0 < len(fewer) < 2023


def test_yeast_windows(folder: Folder, splits: Load, data_root: Path) -> None:
    everything = yeast_windows(folder("yeast_chipexo"), keep_unlabelled=True)
    assert everything.rows.shape == (60_349, 200)
    parts = splits("yeast_chipexo")
    assert parts.valid is not None
    assert parts.test is not None
    y = whole(parts)
    counts = np.diff(y.indptr)
    assert y.shape == (20_156, 179)
    assert counts.mean() == pytest.approx(8.00, abs=0.005)
    assert (np.median(counts), counts.max(), counts.min()) == (4, 131, 1)
    assert set(parts.test.groups or ()) == {"chr4", "chr7"}
    assert not {"chr4", "chr7"} & {*(parts.train.groups or ()), *(parts.valid.groups or ())}
    assert not set(parts.train.groups or ()) & set(parts.valid.groups or ())
    edges = load_edges("yeast_chipexo", parts.train.label_names, data_root)
    assert 0 < len(edges) < 2023


def test_a_yeast_window_is_the_genome_at_its_position(folder: Folder, splits: Load) -> None:
    genome = read_fasta(folder("yeast_chipexo") / "sacCer3.fa.gz")
    test = splits("yeast_chipexo").test
    assert test is not None
    assert test.ids is not None
    for row in (0, 1000, len(test) - 1):
        chromosome, _, place = test.ids[row].partition(":")
        start, end = map(int, place.split("-"))
        spelled = {"chr4": "chrIV", "chr7": "chrVII"}[chromosome]
        np.testing.assert_array_equal(test.rows[row], genome[spelled][start:end])


def test_the_179_proteins_have_at_least_207_peaks(folder: Folder, splits: Load) -> None:
    names = splits("yeast_chipexo").train.label_names
    counts = [len(read_bed(folder("yeast_chipexo") / "peaks" / f"{name}_CX.bed")) for name in names]
    assert (len(names), min(counts)) == (179, 207)


def test_rcv1_tree(folder: Folder) -> None:
    parents = read_taxonomy(folder("rcv1") / "rcv1.taxonomy")
    depth: Counter[int] = Counter()
    for topic in parents:
        level, node = 0, topic
        while node in parents:
            node, level = parents[node], level + 1
        depth[level] += 1
    assert len(parents) == 103
    assert [depth[level] for level in (1, 2, 3, 4)] == [4, 55, 43, 1]
    assert len(set(parents) - set(parents.values())) == 82
    assert read_tree_edges(folder("rcv1") / "rcv1.taxonomy", sorted(parents)).shape == (99, 2)


def test_rcv1_topic_names(folder: Folder) -> None:
    names = json.loads((folder("rcv1") / "rcv1_topic_codes.json").read_text(encoding="utf-8"))
    assert set(names) == set(read_taxonomy(folder("rcv1") / "rcv1.taxonomy"))
    assert len(set(names.values())) == 103
    assert {code: names[code] for code in ("CCAT", "ECAT", "GCAT", "MCAT", "C1511", "GSPO", "M14")} == {
        "CCAT": "CORPORATE/INDUSTRIAL",
        "ECAT": "ECONOMICS",
        "GCAT": "GOVERNMENT/SOCIAL",
        "MCAT": "MARKETS",
        "C1511": "ANNUAL RESULTS",
        "GSPO": "SPORTS",
        "M14": "COMMODITY MARKETS",
    }


def test_rcv1_subsets(folder: Folder) -> None:
    means = []
    for number in range(1, 6):
        data = read_mat(folder("rcv1") / f"rcv1subset{number}_top944.mat")
        assert data.rows.shape == (6000, 944)
        assert set(np.unique(data.rows.data)) == {1.0}
        assert data.labels is not None
        assert data.labels.shape == (6000, 101)
        means.append(mean_labels(data))
    assert (round(min(means), 2), round(max(means), 2)) == (2.27, 2.88)


def test_rcv1_without_documents_is_named_a_subset(splits: Load, data_root: Path) -> None:
    parts = splits("rcv1")
    assert "subset1" in parts.train.name
    assert parts.train.kind == "wordset"
    with pytest.raises(DataError, match="no names"):
        load_edges("rcv1", parts.train.label_names, data_root)


def test_imdb(splits: Load) -> None:
    parts = splits("imdb")
    y = whole(parts)
    assert y.shape == (120_919, 28)
    assert y.sum() / 120_919 == pytest.approx(2.00, abs=0.005)
    assert parts.train.rows.shape[1] == 1001
    assert parts.train.label_names[0] == "Sci-Fi"  # the file's own names, not those of the XML beside it
    assert sparse.issparse(parts.train.rows)


def test_mediamill(splits: Load) -> None:
    parts = splits("mediamill")
    y = whole(parts)
    assert y.shape == (2500, 101)
    assert y.sum() / 2500 == pytest.approx(4.35, abs=0.005)
    assert parts.train.rows.shape[1] == 120
    assert parts.train.kind == "vector"


def test_miml_images(splits: Load) -> None:
    from PIL import Image

    parts = splits("miml_images")
    y = whole(parts)
    counts = np.diff(y.indptr)
    assert y.shape == (2000, 5)
    assert counts.mean() == pytest.approx(1.236, abs=0.0005)
    assert (counts >= 2).sum() == 457
    paths = [p for part in (parts.train, parts.valid, parts.test) if part is not None for p in part.rows]
    assert len(set(paths)) == 2000
    for path in paths:
        with Image.open(path) as picture:
            assert (picture.format, picture.mode) == ("JPEG", "RGB")


def test_goemotions(splits: Load) -> None:
    parts = splits("goemotions")
    assert parts.valid is not None
    assert parts.test is not None
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (43_410, 5_426, 5_427)
    assert len(parts.train.label_names) == 28
    assert mean_labels(parts.train) == pytest.approx(1.177, abs=0.0005)
    assert parts.train.ids is not None
    assert parts.train.ids[0] == "eebbqej"
    assert parts.train.rows[0] == "My favourite food is anything I didn't have to cook myself."


def test_tox21(splits: Load) -> None:
    y = whole(splits("tox21"))
    assert y.shape == (7831, 12)
    assert np.isnan(y.data).sum() / (7831 * 12) == pytest.approx(0.17, abs=0.005)
    assert statistics(splits("tox21")).unknown == pytest.approx(0.17, abs=0.005)


def test_every_registered_kind_is_what_is_loaded(splits: Load, data_root: Path) -> None:
    for name in registry.NAMES:
        if name in ("rcv1", "digits") or not (data_root / name).is_dir():
            continue
        parts = splits(name)
        assert parts.train.kind == registry.describe(name).kind
        assert parts.test is not None
        assert parts.test.label_names == parts.train.label_names
