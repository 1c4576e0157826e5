"""Reuters SGML, LYRL2004 token files, FASTA, BED, label tables and prior label graphs."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lampnet.data.splits import split_by_group
from lampnet.errors import DataError, FormatError
from lampnet.readers.dna import read_bed, read_fasta, read_fasta_rows, read_windows, windows_with_peaks
from lampnet.readers.label_edges import read_edge_list, read_string_edges, read_taxonomy, read_tree_edges
from lampnet.readers.named.rcv1 import read_lyrl
from lampnet.readers.named.registry import load, load_edges
from lampnet.readers.named.reuters import read_documents, read_reuters

DOCUMENT = (
    '<REUTERS TOPICS="{yes}" LEWISSPLIT="{split}" CGISPLIT="X" OLDID="1" NEWID="{number}">\n<DATE>26-FEB-1987</DATE>\n'
    "<TOPICS>{topics}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n<TEXT{kind}>&#2;\n{inside}</TEXT>\n</REUTERS>\n"
)
NORMAL = "<TITLE>{t}</TITLE>\n<DATELINE> X, Feb 26 - </DATELINE><BODY>{b}\n Reuter\n&#3;</BODY>"


def document(number: int, split: str, topics: str, inside: str, kind: str = "", yes: str = "YES") -> str:
    marked = "".join(f"<D>{topic}</D>" for topic in topics.split())
    return DOCUMENT.format(yes=yes, split=split, number=number, topics=marked, kind=kind, inside=inside)


def reuters(folder: Path) -> Path:
    text = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(
        [
            document(1, "TRAIN", "cocoa grain", NORMAL.format(t="BAHIA &lt;X>", b="3 pct &amp; more caf\xe9")),
            document(2, "TEST", "cocoa", "<TITLE>ONLY A TITLE</TITLE>", ' TYPE="BRIEF"'),
            document(3, "TRAIN", "cocoa", "\nRAW < TEXT\n", ' TYPE="UNPROC"'),
            document(4, "TEST", "gold", NORMAL.format(t="G", b="gold")),
            document(5, "TRAIN", "cocoa", NORMAL.format(t="N", b="no"), yes="NO"),
            document(6, "NOT-USED", "cocoa", NORMAL.format(t="N", b="no")),
            document(7, "TRAIN", "", NORMAL.format(t="N", b="no topic")),
        ]
    )
    (folder / "reut2-000.sgm").write_bytes(text.encode("latin-1"))
    return folder


def test_reuters_modapte_rules(tmp_path: Path) -> None:
    parts = read_reuters(reuters(tmp_path))
    assert parts.train.label_names == ("cocoa",)  # grain and gold lie on one side only
    assert parts.train.ids == ("1", "3")
    assert parts.train.rows == ["BAHIA <X>\n3 pct & more café\n Reuter", "RAW < TEXT"]
    assert parts.test is not None
    assert (parts.test.rows, parts.test.ids) == (["ONLY A TITLE"], ("2",))


def test_reuters_cut_off(tmp_path: Path) -> None:
    path = reuters(tmp_path) / "reut2-000.sgm"
    raw = path.read_bytes()
    path.write_bytes(raw[: raw.rindex(b"</REUTERS>")])
    with pytest.raises(FormatError, match="is the file whole") as caught:
        list(read_documents(path))
    assert caught.value.line == raw[: raw.rindex(b"<REUTERS ")].count(b"\n") + 1
    path.write_bytes(b"hello")
    with pytest.raises(FormatError, match="no <REUTERS>"):
        list(read_documents(path))
    with pytest.raises(DataError, match=r"reut2-\*\.sgm"):
        read_reuters(tmp_path / "nowhere")


def lyrl(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "lyrl2004_tokens_train.dat").write_text(".I 2286\n.W\nrecov excit\ndisplay\n\n.I 2287\n.W\nshare\n\n")
    for part, number in ((0, 26151), (1, 30000)):
        packed = gzip.compress(f".I {number}\n.W\nbank bank\n\n".encode())
        (folder / f"lyrl2004_tokens_test_pt{part}.dat.gz").write_bytes(packed)
    (folder / "rcv1-v2.topics.qrels").write_text("E11 2286 1\nECAT 2286 1\nCCAT 2287 1\nCCAT 26151 1\nE11 30000 1\n")
    (folder / "rcv1.topics.hier.orig").write_text(
        "parent: None child: Root child-description: Root\n"
        "parent: Root child: ECAT child-description: ECONOMICS\n"
        "parent: ECAT child: E11 child-description: ECONOMIC PERFORMANCE\n"
        "parent: Root child: CCAT child-description: CORPORATE/INDUSTRIAL\n"
    )
    return folder


def test_lyrl_documents_with_the_papers_sides(tmp_path: Path) -> None:
    parts = read_lyrl(lyrl(tmp_path))
    assert parts.test is not None
    assert parts.train.ids == ("26151", "30000")  # the large files train, as in the paper
    assert parts.test.rows == ["recov excit display", "share"]
    assert parts.test.label_names == ("CCAT", "E11", "ECAT")
    assert parts.test.indicator().tolist() == [[0, 1, 1], [1, 0, 0]]


def test_rcv1_by_name_with_documents_and_tree(tmp_path: Path) -> None:
    lyrl(tmp_path / "rcv1")
    parts = load("rcv1", tmp_path)
    assert (parts.train.kind, parts.train.name) == ("text", "rcv1")
    assert load_edges("rcv1", parts.train.label_names, tmp_path).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("lyrl2004_tokens_train.dat", ".I x\n.W\n", "line 1"),
        ("lyrl2004_tokens_train.dat", ".I 1\nwords\n", "line 2"),
        ("lyrl2004_tokens_train.dat", ".I 1\n", "no '.W' part"),
        ("lyrl2004_tokens_train.dat", "", "no document"),
        ("lyrl2004_tokens_train.dat", ".I 77\n.W\na\n", "no line in the qrels"),
        ("rcv1-v2.topics.qrels", "E11 2286\n", "line 1"),
        ("rcv1-v2.topics.qrels", "E99 2286 1\nCCAT 2287 1\nCCAT 26151 1\nE11 30000 1\n", "E99"),
        ("rcv1.topics.hier.orig", "parent: A kid: B\n", "line 1"),
    ],
)
def test_lyrl_errors(tmp_path: Path, file: str, text: str, words: str) -> None:
    (lyrl(tmp_path) / file).write_text(text)
    with pytest.raises(DataError, match=words):
        read_lyrl(tmp_path)


def test_fasta_and_bed(tmp_path: Path) -> None:
    fasta = tmp_path / "g.fa"
    fasta.write_text(">chrI first\nACGT\nacgn\n>chrII\r\nTTTT\r\n")
    genome = read_fasta(fasta)
    assert {name: codes.tolist() for name, codes in genome.items()} == {
        "chrI": [0, 1, 2, 3, 0, 1, 2, 4],
        "chrII": [3, 3, 3, 3],
    }
    bed = tmp_path / "p.bed"
    bed.write_text("track name=x\n# c\nchr1\t5\t6\tp1\t90\t.\nchr2 0 1\n")
    peaks = read_bed(bed)
    assert (peaks.chromosomes, peaks.starts.tolist(), peaks.names) == (("chr1", "chr2"), [5, 0], ("p1", ""))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [("ACGT\n", 1, "begins with"), (">a\nAC\n>a\nAC\n", 3, "occurs twice"), (">a\nACGT\nAC!T\n", 3, "not a base"),
     (">\nA", 1, "no name")],
)  # fmt: skip
def test_fasta_errors(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "g.fa"
    path.write_text(text)
    with pytest.raises(FormatError, match=words) as caught:
        read_fasta(path)
    assert caught.value.line == line


@pytest.mark.parametrize("line", ["chr1\t5", "chr1\tx\t6", "chr1\t9\t5", "chr1\t-1\t5"])
def test_bed_errors(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.bed"
    path.write_text(f"chr1\t1\t2\n{line}\n")
    with pytest.raises(FormatError) as caught:
        read_bed(path)
    assert caught.value.line == 2


def test_windows_from_peaks(tmp_path: Path) -> None:
    fasta = tmp_path / "g.fa"
    fasta.write_text(">chrII\nAAAACCCCGG\n>chrI\nTTTTGGGG\n")
    for name, lines in (("P", "chr2 4 5\nchr2 7 8\nchr2 9 10\n"), ("Q", "chr1 0 1\nchr2 5 6\n"), ("R", "")):
        (tmp_path / f"{name}.bed").write_text(lines)
    peaks = {name: read_bed(tmp_path / f"{name}.bed") for name in "PQR"}
    data = windows_with_peaks(read_fasta(fasta), peaks, 4)
    # The last two bases of chr2 are no window, so the peak at 9 is lost; chr1:4-8 and chr2:0-4 have none.
    assert data.ids == ("chr1:0-4", "chr2:4-8")
    assert data.rows.tolist() == [[3, 3, 3, 3], [1, 1, 1, 1]]
    assert data.indicator().tolist() == [[0, 1, 0], [1, 1, 0]]
    assert data.groups == ("chr1", "chr2")
    assert len(windows_with_peaks(read_fasta(fasta), peaks, 4, keep_unlabelled=True)) == 4
    parts = split_by_group(data, valid=["chr9"], test=["chr2"])
    assert parts.valid is None
    assert parts.test is not None
    assert parts.test.ids == ("chr2:4-8",)
    with pytest.raises(DataError, match="held out"):
        split_by_group(data, valid=["chr1"], test=["chr2"])
    with pytest.raises(DataError, match="lacks"):
        windows_with_peaks({"chr7": np.zeros(9, dtype=np.uint8)}, peaks, 4)


def test_tfbs_as_files_of_windows(tmp_path: Path) -> None:
    folder = tmp_path / "tfbs"
    folder.mkdir()
    for part, bases in (("train", "ACGT"), ("valid", "CCCC"), ("test", "GGGG")):
        (folder / f"{part}.fa").write_text(f">{part}1\n{bases}\n>{part}2\nTTTT\n")
        (folder / f"{part}.tsv").write_text(f"window\tCTCF\tMAX\n{part}2\t1\t0\n{part}1\t1\t1\n")
    parts = load("tfbs", tmp_path)
    assert parts.test is not None
    assert parts.train.rows.tolist() == [[3, 3, 3, 3], [0, 1, 2, 3]]  # in the table's order
    assert parts.test.indicator().tolist() == [[1, 0], [1, 1]]
    (folder / "test.tsv").write_text("window\tCTCF\tMAX\nnone\t1\t0\n")
    with pytest.raises(FormatError, match="line 2: the window 'none'"):
        load("tfbs", tmp_path)


def test_tfbs_as_genome_windows_and_label_table(tmp_path: Path) -> None:
    folder = tmp_path / "tfbs"
    folder.mkdir()
    (folder / "genome.fa.gz").write_bytes(gzip.compress(b">chr1\nACGTACGT\n>chr8\nTTTTCCCC\n>chrX\nGGGG\n"))
    (folder / "windows.bed").write_text("chr1\t0\t4\ta\nchr1\t2\t6\tb\nchr8\t4\t8\tc\nchrX\t0\t4\td\n")
    (folder / "labels.tsv").write_text("window\tCTCF\na\t1\nb\t0\nc\t1\nd\t1\n")
    parts = load("tfbs", tmp_path)
    assert parts.train.ids == ("a", "b", "d")
    assert parts.train.rows[1].tolist() == [2, 3, 0, 1]
    assert parts.test is not None
    assert parts.test.rows.tolist() == [[1, 1, 1, 1]]
    (folder / "windows.bed").write_text("chr1\t0\t4\ta\nchr1\t2\t6\tb\nchr8\t4\t8\tc\nchrX\t2\t6\td\n")
    with pytest.raises(FormatError, match="outside the genome"):
        load("tfbs", tmp_path)


def test_windows_of_unequal_length(tmp_path: Path) -> None:
    (tmp_path / "w.fa").write_text(">a\nACGT\n>b\nACG\n")
    (tmp_path / "l.csv").write_text("window,Y\na,1\nb,0\n")
    with pytest.raises(DataError, match="same"):
        read_windows(tmp_path / "w.fa", tmp_path / "l.csv")
    with pytest.raises(FormatError, match="same"):
        read_fasta_rows(tmp_path / "w.fa")


def test_edge_lists(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text('source,target,weight\na,"b, c",1\n"b, c",a,2\nd,a,1\nd,d,1\n')
    assert read_edge_list(path, ["a", "b, c", "d"]).tolist() == [[0, 1], [0, 2]]
    path.write_text("a\tb\n")
    assert read_edge_list(path, ["a", "b"]).tolist() == [[0, 1]]
    path.write_text("a,b\nalpha,a\n")
    with pytest.raises(FormatError, match="line 2: 'alpha' is not one of the 2 labels"):
        read_edge_list(path, ["a", "b"])
    path.write_text("a\n")
    with pytest.raises(FormatError, match="two label names"):
        read_edge_list(path, ["a"])
    path.write_text("source,target\n")
    with pytest.raises(FormatError, match="no edge"):
        read_edge_list(path, ["a", "b"])


def test_trees(tmp_path: Path) -> None:
    path = tmp_path / "t.taxonomy"
    path.write_text("Root\tA\tB\nA\tA1\tA2\n")
    assert read_tree_edges(path, ["A", "A1", "A2", "B"]).tolist() == [[1, 0], [2, 0]]  # child, parent
    assert read_tree_edges(path, ["A2", "A"]).tolist() == [[0, 1]]
    with pytest.raises(DataError, match="'Z' is not in the tree"):
        read_tree_edges(path, ["A", "Z"])
    for text, words in [
        ("A\tB\nC\tB\n", "two parents"),
        ("A\tB\nB\tA\n", "own ancestor"),
        ("A\n", "line 1"),
        ("", "no parent"),
    ]:
        path.write_text(text)
        with pytest.raises(FormatError, match=words):
            read_taxonomy(path)


def test_string_interactions(tmp_path: Path) -> None:
    info, links = tmp_path / "info.txt.gz", tmp_path / "links.txt"
    info.write_bytes(gzip.compress(b"#string_protein_id\tpreferred_name\n9.Y1\tABF1\n9.Y2\tRAP1\n9.Y3\tTUP1\n"))
    links.write_text("protein1 protein2 combined_score\n9.Y1 9.Y2 900\n9.Y2 9.Y1 900\n9.Y1 9.Y3 699\n9.Y1 9.Y9 999\n")
    names = ["Rap1", "Abf1", "Nowhere", "y3"]
    assert read_string_edges(links, info, names).tolist() == [[0, 1]]
    assert read_string_edges(links, info, names, min_score=600).tolist() == [[0, 1], [1, 3]]
    with pytest.raises(DataError, match="none of the 1 labels"):
        read_string_edges(links, info, ["zzz"])
    with pytest.raises(DataError, match="from 0 to 1000"):
        read_string_edges(links, info, names, min_score=1001)
    for score in ("high", "9" * 5000):
        links.write_text(f"protein1 protein2 combined_score\n9.Y1 9.Y2 {score}\n")
        with pytest.raises(FormatError, match="line 2"):
            read_string_edges(links, info, names)
