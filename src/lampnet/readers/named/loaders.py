"""How the named data sets that are not plain ARFF pairs are put together from their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NoReturn

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, random_split, split_by_group
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import read_bytes, read_text_lines, utf8_lines

YEAST_PROTEINS = 179
YEAST_WINDOW = 200
YEAST_VALID, YEAST_TEST = ("chr13",), ("chr4", "chr7")
#: Held out for human DNA, as is usual for chromatin data.
TFBS_VALID, TFBS_TEST = ("chr7",), ("chr8", "chr9")


def only_file(folder: Path, *patterns: str) -> Path:
    """The first file of a folder that matches one of the patterns."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found and not found[0].is_file():
            raise DataError(f"{found[0]} is not a regular file; put the publisher's file there")
        if found:
            return found[0]
    raise DataError(
        f"the folder {folder} has no file {' or '.join(patterns)}; fetch it with: lampnet data fetch {folder.name}, "
        "or put the publisher's files there"
    )


def goemotions(folder: Path, seed: int) -> Splits:
    """Comments with emotions: text, label numbers and id, separated by tabs, without a header."""
    names = _emotion_names(only_file(folder, "emotions.txt"))
    parts = {part: _emotions(only_file(folder, f"{part}.tsv"), names) for part in ("train", "dev", "test")}
    return Splits(train=parts["train"], valid=parts["dev"], test=parts["test"])


def goemotions_sample(folder: Path, seed: int) -> Splits:
    """The comments of GoEmotions that come with lampnet; no folder is needed."""
    own = Path(__file__).with_name("goemotions_sample")
    names = _emotion_names(own / "emotions.txt")
    train, test = (
        replace(_emotions(own / f"{part}.tsv.gz", names), name="goemotions-sample") for part in ("train", "test")
    )
    return Splits(train=train, test=test)


def _emotion_names(path: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in read_text_lines(path) if line.strip())


def _emotions(path: Path, names: tuple[str, ...]) -> Dataset:
    texts, cells, ids = _three_columns(path)
    # The same few combinations come again and again: each is read once.
    place: dict[str, int] = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    columns: list[list[int]] = []
    for cell in place:
        chosen = cell.split(",")
        if not all(label.isdecimal() and int(label[:9]) < len(names) for label in chosen):
            problem = f"{cell[:40]!r} are not label numbers below {len(names)}"
            _wrong_line(path, lambda line, cell=cell: line.split("\t")[1] == cell, problem)  # type: ignore[misc]
        columns.append(sorted({int(label) for label in chosen}))
    indices = np.fromiter(chain.from_iterable(columns), dtype=np.int32)
    indptr = np.concatenate([[0], np.cumsum(list(map(len, columns)))])
    shape = (len(columns), len(names))
    combinations = sparse.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=shape)
    labels = combinations[np.fromiter(map(place.__getitem__, cells), dtype=np.int64, count=len(cells))]
    return Dataset(name="goemotions", kind="text", rows=texts, labels=labels, label_names=names, ids=tuple(ids))


def _three_columns(path: Path) -> tuple[list[str], list[str], list[str]]:
    from lampnet.readers.delimited import string_columns
    from lampnet.readers.raw_table import TextColumn

    columns = string_columns(utf8_lines(path, read_bytes(path)), 3, b"\t", quotes=False)
    if columns is None or not len(columns[0]):
        _wrong_line(path, lambda line: line.count("\t") != 2, "a line needs three fields: text, label numbers and id")
    texts, labels, ids = (TextColumn(column).texts for column in columns)
    return texts, labels, ids


def _wrong_line(path: Path, is_wrong: Callable[[str], bool], problem: str) -> NoReturn:
    """Raise for the first line (that is not empty) of which something is wrong."""
    numbered = enumerate(read_text_lines(path), start=1)
    raise FormatError(path, problem, next((number for number, line in numbered if line and is_wrong(line)), 1))


def bookmarks(folder: Path, seed: int) -> Splits:
    """One Mulan file, divided as in the paper: 48,000 / 12,000 / 27,856 of 87,856 rows."""
    from lampnet.readers.arff import read_arff

    data = read_arff(only_file(folder, "bookmarks.arff*", "*.arff*"), kind="wordset", name="bookmarks")
    return random_split(data, valid=12_000 / 87_856, test=27_856 / 87_856, seed=seed)


def rcv1(folder: Path, seed: int) -> Splits:
    """The LYRL2004 documents where they are; else the first of the small MATLAB subsets."""
    from lampnet.readers.mat import read_mat
    from lampnet.readers.named.rcv1 import has_documents, read_lyrl

    if has_documents(folder):
        return read_lyrl(folder)
    data = read_mat(only_file(folder, "rcv1subset1*.mat"), name="rcv1-subset1 (6,000 documents, 944 words)")
    return random_split(data, valid=0.1, test=0.1, seed=seed)


def yeast_windows(folder: Path, *, keep_unlabelled: bool = False) -> Dataset:
    """200-base windows of the yeast genome and the proteins with most ChIP-exo peaks that bind there.

    Windows without any peak are left out unless asked for, as in the paper's own set of binding sites.
    """
    from lampnet.readers.dna import read_bed, read_fasta, windows_with_peaks

    files = sorted((folder / "peaks").glob("*_CX.bed"))
    if not files:
        raise DataError(f"the folder {folder / 'peaks'} has no *_CX.bed files; fetch: lampnet data fetch yeast_chipexo")
    peaks = {path.name.removesuffix("_CX.bed"): read_bed(path) for path in files}
    most = sorted(peaks, key=lambda protein: (-len(peaks[protein]), protein))[:YEAST_PROTEINS]
    genome = read_fasta(only_file(folder, "sacCer3.fa*"))
    chosen = {protein: peaks[protein] for protein in sorted(most)}
    return windows_with_peaks(genome, chosen, YEAST_WINDOW, keep_unlabelled=keep_unlabelled, name="yeast_chipexo")


def yeast_chipexo(folder: Path, seed: int) -> Splits:
    """Yeast ChIP-exo, whole chromosomes held out: 4 and 7 to test, 13 to validate."""
    return split_by_group(yeast_windows(folder), valid=YEAST_VALID, test=YEAST_TEST)


def tfbs(folder: Path, seed: int) -> Splits:
    """Windows of human DNA with a label table, in either of two layouts.

    `train`, `valid` and `test` each as a FASTA of windows and a table of labels (`train.fa`,
    `train.tsv`); or one genome (`genome.fa`), `windows.bed` and `labels.tsv`, split by chromosome.
    """
    from lampnet.data.schema import aligned_splits
    from lampnet.readers.dna import read_windows

    if any(folder.glob("train.fa*")):
        parts = {}
        for part in ("train", "valid", "test"):
            if any(folder.glob(f"{part}.fa*")):
                table = only_file(folder, f"{part}.tsv*", f"{part}.csv*")
                parts[part] = read_windows(only_file(folder, f"{part}.fa*"), table, name="tfbs")
        return aligned_splits(parts["train"], parts.get("valid"), parts.get("test"))
    windows, table = only_file(folder, "windows.bed*"), only_file(folder, "labels.tsv*", "labels.csv*")
    data = read_windows(windows, table, genome=only_file(folder, "genome.fa*", "*.fa", "*.fa.gz"), name="tfbs")
    return split_by_group(data, valid=TFBS_VALID, test=TFBS_TEST)


def topic_tree(folder: Path, label_names: tuple[str, ...]) -> np.ndarray:
    """The edges of RCV1's topic tree, int64 (E, 2)."""
    from lampnet.readers.label_edges import read_tree_edges
    from lampnet.readers.named.rcv1 import HIERARCHY

    if label_names and label_names[0] == "label_0":
        raise DataError("rcv1: the labels of the MATLAB subsets have no names, so the topic tree cannot be used")
    return read_tree_edges(only_file(folder, *HIERARCHY), label_names)


def interactions(folder: Path, label_names: tuple[str, ...]) -> np.ndarray:
    """STRING's interactions of the proteins that are labels, int64 (E, 2)."""
    from lampnet.readers.label_edges import read_string_edges

    links = only_file(folder, "*.protein.physical.links*", "*.protein.links*")
    return read_string_edges(links, only_file(folder, "*.protein.info*"), label_names)
